"""Temporary folders that no ended process leaves for good: ``plimsoll clean`` finds those of killed ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "plimsoll-"
_LOCK = "lock"


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder that only its user can read; removed with what is in it at the end."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as outer, (Path(outer) / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = Path(outer).resolve() / "in"
        folder.mkdir()
        yield folder


def remove_scratch() -> list[str]:
    """Remove those whose process was killed; returns their names. Another user's are theirs."""
    removed = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*/")):
        with suppress(BlockingIOError, FileNotFoundError):
            if folder.lstat().st_uid != os.geteuid() or folder.is_symlink():
                continue
            with (folder / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            removed.append(folder.name)
    return removed
