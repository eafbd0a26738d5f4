"""Who may load this host: one benchmark alone, or correctness runs side by side.

The lock is the host's, not the project's, because two checkouts share the same CPUs; it goes with its process.
"""

from __future__ import annotations

import fcntl
import logging
import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

log = logging.getLogger("plimsoll.host")

Tell = Callable[[str], object]  # what a person is shown
COMMAND = 160  # characters shown of a command
LOCK = Path("/tmp/plimsoll-host.lock")  # wherever TMPDIR points: all users have to meet here


@contextmanager
def alone(lock: Path | None = None, tell: Tell = log.info) -> Iterator[None]:
    """Hold the host for a benchmark; waits until nobody else uses it, and tells for whom."""
    with _held(
        lock or LOCK, fcntl.LOCK_EX, "waiting until this host's other runs have ended: a benchmark runs alone", tell
    ):
        yield


@contextmanager
def beside_others(lock: Path | None = None, tell: Tell = log.info) -> Iterator[None]:
    """Use the host for a run about correctness; waits until no benchmark runs, and tells for whom."""
    with _held(lock or LOCK, fcntl.LOCK_SH, "waiting until this host's benchmark has ended", tell):
        yield


@contextmanager
def _held(lock: Path, how: int, words: str, tell: Tell) -> Iterator[None]:
    with _opened(lock) as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("; ".join([words, *_held_by(file)]))
            fcntl.flock(file, how)
        yield


def _held_by(file: IO[str]) -> list[str]:
    """Who holds the lock, as far as the kernel tells: ``process 4711 of ann: airflow dags test nightly …``.

    A file system whose numbers in /proc/locks are not its files' own (btrfs) names nobody.
    """
    about = os.fstat(file.fileno())
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [_who(int(lock[4])) for lock in locks if lock[1] == "FLOCK" and lock[5] == place]  # "->" for who waits


def _who(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        command = " ".join(process.cmdline()).split(" -m ")[-1]  # what Python runs
        return f"process {pid} of {process.username()}: {textwrap.shorten(command, COMMAND, placeholder=' …')}"
    except psutil.Error:  # it has ended meanwhile, or is another container's
        return f"process {pid}"


def _opened(lock: Path) -> IO[str]:
    """Made where it is missing, and only read where it is not: in a folder that all users share the kernel lets nobody
    open another one's file for writing.
    """
    with suppress(FileExistsError):
        lock.touch(exist_ok=False)
        lock.chmod(0o666)  # for every user, whatever the one's mask is
    return lock.open()
