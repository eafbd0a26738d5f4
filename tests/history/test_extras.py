"""Optional packages and the rejections without them."""

import pytest

from history import extras
from history.errors import BadInput


def test_what_lacks_its_packages_is_refused_with_the_command_that_installs_them() -> None:
    """A missing package is rejected with the command that installs its lock file; an installed one is accepted."""
    extras.require("edn", "pytest", "--format=jepsen")

    with pytest.raises(BadInput, match=r"--format=jepsen needs.*`\.venv/bin/uv pip install -r requirements-edn\.lock`"):
        extras.require("edn", "no_such_package", "--format=jepsen")
