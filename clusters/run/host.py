"""Admit runs to this host in the order of their requests: a benchmark alone, others a few at once.

Checkouts and users share the list of guests: runs, while they have a lease, and other work, while its process lives.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from pydantic import TypeAdapter

from clusters.run.leftovers import is_leased, renew_lease
from clusters.waiting import wait_until
from history.words import some_of

ALONE = 1
AT_ONCE = max(2, os.cpu_count() or 1)
HOST = Path("/tmp/plimsoll.host")  # whatever TMPDIR is: all users need the same folder
LOOK_S = 1.0
_LONGEST_S = 86_400.0  # of a run's place, since another user's lease cannot be read
_FORGOTTEN_S = 60.0  # a guest that did not ask again no longer waits

Tell = Callable[[str], object]


class Guest(NamedTuple):
    """A run, which tolerates ``at_once`` runs with itself, or a process that is no run (0)."""

    who: str
    at_once: int
    asked_ns: int
    is_admitted: bool = False
    run: str = ""
    pid: int = 0
    born_s: float = 0.0


_GUEST = TypeAdapter(Guest)


def admit(run: Path, at_once: int, name: str = "") -> str:
    """Return "" once a leased run is admitted, else why it waits; it must ask again within a minute.

    A run replaces one of the same ``name`` (default: the folder's), such as the retry of a task.
    """
    renew_lease(run)  # it may have expired meanwhile, and only a leased run is a guest
    entry = _entry(str(run.parent / (name or run.name)))
    return _ask(entry, Guest(run.name, at_once, time.monotonic_ns(), run=str(run)))


def leave(run: Path) -> None:
    """Let another run take its place."""
    if HOST.is_dir():
        with _locked():
            for file in HOST.iterdir():
                if (guest := _read(file)) and guest.run == str(run):
                    file.unlink(missing_ok=True)


def guests() -> list[Guest]:
    """Return the present guests by request; without the lock, one being written may be missing."""
    with suppress(OSError):  # there is no list
        found = ((file, _read(file)) for file in HOST.iterdir())
        present = [guest for file, guest in found if guest and _is_present(file, guest)]
        return sorted(present, key=lambda guest: guest.asked_ns)
    return []


def wait_for_host(run: Path, at_once: int, tell: Tell) -> None:
    """Wait until a leased run is admitted, and tell why."""
    _wait(partial(admit, run, at_once), tell)


@contextmanager
def sharing_host(work: str, tell: Tell) -> Iterator[None]:
    """Work while no benchmark runs."""
    process = psutil.Process()
    who = f"{work} (process {process.pid} of {process.username()})"
    guest = Guest(who, 0, time.monotonic_ns(), pid=process.pid, born_s=process.create_time())
    entry = _entry(f"{process.pid} {guest.asked_ns}")
    try:
        _wait(partial(_ask, entry, guest), tell)
        yield
    finally:
        entry.unlink(missing_ok=True)


def _wait(ask: Callable[[], str], tell: Tell) -> None:
    told: set[str] = set()

    def is_admitted() -> bool:
        if (why := ask()) and why not in told:
            tell(why)
            told.add(why)
        return not why

    wait_until(is_admitted, limit_s=float("inf"), every_s=LOOK_S, what="this host")


def _entry(name: str) -> Path:
    return HOST / hashlib.sha256(name.encode()).hexdigest()[:16]


def _ask(entry: Path, guest: Guest) -> str:
    with _locked():
        before = _read(entry) or guest  # it keeps its turn
        mine = before._replace(run=guest.run, who=guest.who, at_once=guest.at_once)
        why = "" if mine.is_admitted else _obstacle(mine, list(_others(entry)))
        with suppress(OSError):  # runs need no space in /tmp
            _write(entry, mine._replace(is_admitted=not why))
    return why


def _write(entry: Path, guest: Guest) -> None:
    entry.unlink(missing_ok=True)
    with entry.open("x") as file:  # through no other user's link
        json.dump(guest._asdict(), file)
        os.fchmod(file.fileno(), 0o644)  # other users read it


def _obstacle(mine: Guest, others: list[Guest]) -> str:
    inside = [guest for guest in others if guest.is_admitted]
    earlier = [guest for guest in others if not guest.is_admitted and guest.asked_ns < mine.asked_ns]
    runs = [guest for guest in [mine, *inside] if guest.at_once]
    if alone := [guest for guest in inside if guest.at_once == ALONE]:
        return f"waiting until this host's benchmark has ended: {alone[0].who}"
    if mine.at_once == ALONE and inside:
        return (
            f"waiting until this host is free, since a benchmark runs alone: {some_of([each.who for each in inside])}"
        )
    if earlier and mine.at_once:  # other work is short
        return f"waiting for its turn, after {some_of([each.who for each in earlier])}"
    if mine.at_once and len(runs) > min(guest.at_once for guest in runs):
        return f"waiting until one of this host's runs has ended: {some_of([run.who for run in runs if run != mine])}"
    return ""


def _others(entry: Path) -> Iterator[Guest]:
    """Yield the present guests; remove others."""
    for file in HOST.iterdir():
        if file == entry or not (guest := _read(file)):
            continue
        if _is_present(file, guest):
            yield guest
        elif guest.pid or not guest.is_admitted or _age_s(file) > _LONGEST_S:  # a run may renew its lease
            with suppress(OSError):  # another user's
                file.unlink()


def _is_present(entry: Path, guest: Guest) -> bool:
    if guest.pid:
        with suppress(psutil.Error):
            return psutil.Process(guest.pid).create_time() == guest.born_s
        return False
    if not guest.is_admitted:
        return _age_s(entry) < _FORGOTTEN_S
    return is_leased(Path(guest.run)) and _age_s(entry) < _LONGEST_S


def _age_s(entry: Path) -> float:
    with suppress(FileNotFoundError):
        return time.time() - entry.stat().st_mtime
    return float("inf")


def _read(entry: Path) -> Guest | None:
    with suppress(OSError, ValueError):
        if entry.is_file():  # no pipe
            return _GUEST.validate_json(entry.read_bytes())
    return None


@contextmanager
def _locked() -> Iterator[None]:
    """Hold the list, which every user may change (sticky, like /tmp)."""
    with suppress(FileExistsError):
        HOST.mkdir()
        HOST.chmod(0o1777)
    folder = os.open(HOST, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
