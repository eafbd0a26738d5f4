"""Locks on files of the project."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from clusters.paths import ROOT, locked


def is_free(path: Path) -> bool:
    """Return whether another process could take the lock now."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_lock_is_held_inside_and_free_after(tmp_path: Path) -> None:
    """A lock is held inside the block and free afterwards; its folder is created if missing."""
    path = tmp_path / "kafka" / ".lock"
    with locked(path):
        assert not is_free(path)
    assert is_free(path)


def test_an_error_inside_frees_the_lock(tmp_path: Path) -> None:
    """An error inside the block releases the lock."""

    def fail() -> None:
        with locked(tmp_path / ".lock"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert is_free(tmp_path / ".lock")


def test_the_root_is_the_projects() -> None:
    """The root is the folder from which nodes import the project."""
    assert (ROOT / "clusters" / "paths.py").is_file()
