"""Optional packages, with a lock file per group."""

from __future__ import annotations

from importlib.util import find_spec

from history.errors import BadInput


def require(group: str, module: str, what: str) -> None:
    """Check that optional packages are installed.

    Raises: BadInput.
    """
    if find_spec(module) is None:
        raise BadInput(
            f"{what} needs the packages of requirements-{group}.lock; make installs them where they are needed, "
            f"otherwise run `.venv/bin/uv pip install -r requirements-{group}.lock`."
        )
