"""Who may load this host: one benchmark alone, or correctness runs side by side.

The lock is the host's, not the project's, because two checkouts share the same CPUs; it goes with its process.
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

log = logging.getLogger("plimsoll.host")

Tell = Callable[[str], object]  # what a person is shown
LOCK = Path("/tmp/plimsoll-host.lock")  # wherever TMPDIR points: all users have to meet here


@contextmanager
def alone(lock: Path | None = None, tell: Tell = log.info) -> Iterator[None]:
    """Hold the host for a benchmark; waits until nobody else uses it, and tells so."""
    with _held(
        lock or LOCK, fcntl.LOCK_EX, "waiting until this host's other runs have ended: a benchmark runs alone", tell
    ):
        yield


@contextmanager
def beside_others(lock: Path | None = None, tell: Tell = log.info) -> Iterator[None]:
    """Use the host for a run about correctness; waits until no benchmark runs, and tells so."""
    with _held(lock or LOCK, fcntl.LOCK_SH, "waiting until this host's benchmark has ended", tell):
        yield


@contextmanager
def _held(lock: Path, how: int, words: str, tell: Tell) -> Iterator[None]:
    with _opened(lock) as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(words)
            fcntl.flock(file, how)
        yield


def _opened(lock: Path) -> IO[str]:
    """Made where it is missing, and only read where it is not: in a folder that all users share the kernel lets nobody
    open another one's file for writing.
    """
    with suppress(FileExistsError):
        lock.touch(exist_ok=False)
        lock.chmod(0o666)  # for every user, whatever the one's mask is
    return lock.open()
