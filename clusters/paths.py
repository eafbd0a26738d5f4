"""Folders of the project and a file lock."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("PLIMSOLL_CACHE") or ROOT / ".cache").absolute()


def runs_folder() -> Path:
    """Return ``PLIMSOLL_RUNS``, by default ``runs/`` of the project."""
    return Path(os.environ.get("PLIMSOLL_RUNS", ROOT / "runs"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file exclusively until the process ends; the file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder that takes its name once complete."""
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield new
        new.chmod(0o755)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def is_file(path: Path) -> bool:
    """Return whether the file exists; False for an invalid path."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return whether the folder exists; False for an invalid path."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
