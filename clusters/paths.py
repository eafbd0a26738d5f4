"""Folders of the project, a file lock, and folders that appear only when complete."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"


def runs_folder() -> Path:
    """Where runs that nobody prepared are put: ``PLIMSOLL_RUNS``, else ``runs/`` of the project."""
    return Path(os.environ.get("PLIMSOLL_RUNS", ROOT / "runs"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the lock goes with the process, the file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def aside(folder: Path) -> Iterator[Path]:
    """A new folder that takes its name once it is complete."""
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield new
        new.chmod(0o755)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def is_file(path: Path) -> bool:
    """Whether there is such a file; what could not be a file's name is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; what could not be a folder's name is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
