"""Temporary folders."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from history.errors import remove_each

PREFIX = "plimsoll-"
_LOCK = "lock"


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty private folder; remove it at the end."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as outer, (Path(outer) / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = Path(outer).resolve() / "in"
        folder.mkdir()
        yield folder


def remove_scratch() -> list[str]:
    """Remove folders of this user's killed processes.

    Raises: NotRemoved.
    """
    return remove_each(partial(_remove, folder) for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*/")))


def _remove(folder: Path) -> list[str]:
    with suppress(BlockingIOError, FileNotFoundError):
        if folder.lstat().st_uid != os.geteuid() or folder.is_symlink():
            return []
        with (folder / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        return [folder.name]
    return []
