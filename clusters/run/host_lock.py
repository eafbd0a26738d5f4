"""Lock the host: for one benchmark alone, or for parallel correctness runs.

Checkouts share the CPUs, so the lock is per host; it ends with its process.
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

Tell = Callable[[str], object]
COMMAND = 160
LOCK = Path("/tmp/plimsoll-host.lock")  # whatever TMPDIR is: all users need the same file


@contextmanager
def exclusive_host(lock: Path | None = None, tell: Tell = log.info) -> Iterator[None]:
    """Hold the host for a benchmark; wait for all other runs."""
    with _held(
        lock or LOCK, fcntl.LOCK_EX, "waiting until this host's other runs have ended: a benchmark runs alone", tell
    ):
        yield


@contextmanager
def shared_host(lock: Path | None = None, tell: Tell = log.info) -> Iterator[None]:
    """Share the host for a correctness run; wait for a benchmark."""
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
    """Describe the lock's holders from /proc/locks; none on btrfs, whose device numbers differ."""
    about = os.fstat(file.fileno())
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [_who(int(lock[4])) for lock in locks if lock[1] == "FLOCK" and lock[5] == place]  # waiting ones have "->"


def _who(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        command = " ".join(process.cmdline()).split(" -m ")[-1]  # the module
        return f"process {pid} of {process.username()}: {textwrap.shorten(command, COMMAND, placeholder=' …')}"
    except psutil.Error:  # ended, or in another container
        return f"process {pid}"


def _opened(lock: Path) -> IO[str]:
    """Open the lock read-only: shared folders forbid writing another user's file."""
    with suppress(FileExistsError):
        lock.touch(exist_ok=False)
        lock.chmod(0o666)  # whatever the umask
    return lock.open()
