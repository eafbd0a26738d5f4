"""Locks on files of the project."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from clusters.paths import ROOT, locked


def is_free(path: Path) -> bool:
    """Whether somebody else could take the lock now."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_lock_is_held_inside_and_free_after(tmp_path: Path) -> None:
    """Its folder is made when it is not there."""
    path = tmp_path / "kafka" / ".lock"
    with locked(path):
        assert not is_free(path)
    assert is_free(path)


def test_an_error_inside_frees_the_lock(tmp_path: Path) -> None:
    """Else the next run would wait for ever."""

    def fail() -> None:
        with locked(tmp_path / ".lock"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert is_free(tmp_path / ".lock")


def test_the_root_is_the_projects() -> None:
    """Nodes import the project from there."""
    assert (ROOT / "clusters" / "paths.py").is_file()
