"""Who holds a run, and the removal of what nobody holds any more."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import IO, Literal

from clusters.live.world import TORN_DOWN
from clusters.run.manifest import boot_id
from clusters.runtimes import choose_runtime, open_runtime
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout, remove_each
from history.folder import RunFolder, write_atomically
from history.scratch import scratch

Lease = Literal["process", "time"]

LEASE_S = 1800.0  # for a run's next task to begin, or for the scheduler to see that a worker died and have it collected
_RENEWED_EVERY_S = 60.0
_NO_LEASE = (OSError, ValueError, LookupError, TypeError)  # of reading one that is missing or not sound
_held: set[Path] = set()  # by this process
_DOCKER = Path("/var/run/docker.sock")  # where a daemon answers, unless DOCKER_HOST names another place


def write_lease(run: Path, kind: Lease) -> None:
    """Say what spares the run from ``reap``: the life of a process, or time, by a clock that nobody sets."""
    expires_s = time.monotonic() + LEASE_S if kind == "time" else 0
    write_atomically(RunFolder(run).work / "lease", json.dumps({"boot": boot_id(), "expires_s": expires_s}))


@contextmanager
def hold_lease(run: Path) -> Iterator[None]:
    """Spare the run from ``reap`` for as long as this process lives."""
    with (RunFolder(run).work / "lease").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def hold_trial() -> Iterator[Path]:
    """A folder under which this process may try something, as if it were a run; ``reap`` spares it as long."""
    with scratch() as folder:
        run = RunFolder(folder)
        run.work.mkdir()
        write_lease(run.path, "process")
        with hold_lease(run.path):
            yield run.path


@contextmanager
def hold_step(run: Path, limit_s: float, *, at_last: bool = False) -> Iterator[None]:
    """Act on the run alone: a task that was given up may still be healing what it broke.

    What holds the run may hold it again within. ``at_last`` goes on beside whoever does not end: tearing down needs no
    leave. A lease by time is renewed meanwhile.

    Raises:
        WaitTimeout: another process still acts on it after so many seconds.
    """
    lock = RunFolder(run.resolve()).work / "step"
    if lock in _held or not lock.parent.is_dir():  # without work/ there is nothing to act on, and the call says so
        yield
        return
    with lock.open("w") as file:
        what = f"another task of {run.name} to end, which has to be over before this one"
        with suppress(*([WaitTimeout] if at_last else [])):
            wait_until(partial(_taken, file), limit_s=limit_s, what=what, last_seen=lambda: "it goes on")
        _held.add(lock)
        try:
            with _renewing_lease(run.resolve()):
                yield
        finally:
            _held.remove(lock)


@contextmanager
def _renewing_lease(run: Path) -> Iterator[None]:
    """However long the work takes, the lease ends no sooner than ``LEASE_S`` after it."""
    ended = Event()

    def renew_until_ended() -> None:
        while not ended.wait(_RENEWED_EVERY_S):
            _renew_lease(run)

    _renew_lease(run)
    renewing = Thread(target=renew_until_ended, daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        _renew_lease(run)


def _renew_lease(run: Path) -> None:
    """Renew a lease by time; that of a process ends with it."""
    with suppress(*_NO_LEASE):
        with (RunFolder(run).work / "lease").open() as file:
            is_by_time = json.load(file)["expires_s"] > 0
        if is_by_time:
            write_lease(run, "time")


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def tear_down(run: Path) -> list[str]:
    """Remove everything of the run but its folder; safe to call again.

    The folder's ``work/`` goes too once the run is sealed; before that it is the only evidence.

    Raises:
        HarnessError: the run was on Docker, and Docker does not answer or refused.
    """
    folder = RunFolder(run.resolve())
    with suppress(OSError):  # it keeps nobody from removing
        (folder.work / TORN_DOWN).touch()
    removed = _remove_all(folder.path)
    with suppress(PermissionError):  # another user's folder is theirs
        if folder.is_sealed:
            shutil.rmtree(folder.work, ignore_errors=True)
    return removed


def _remove_all(run: Path) -> list[str]:
    removed = open_runtime("process", run).remove_all()
    # A daemon that is slow to answer counts as none, which is no answer about a run that was on it.
    if _was_on_docker(run) or choose_runtime("auto") == "docker":
        removed += open_runtime("docker", run).remove_all()
    return removed


def _was_on_docker(run: Path) -> bool:
    try:
        return bool(json.loads((run / "work" / "plan.json").read_text())["runtime"] == "docker")
    except _NO_LEASE:
        return False


def reap(*, all_runs: bool = False) -> list[str]:
    """Remove what is left of runs that nobody holds any more; ``all_runs`` takes those in use, too.

    A run is in use while a process holds its lease, or until its time is up (runs of a scheduler, renewed by
    whoever works on them).

    Raises:
        NotRemoved: once all else is removed; some could not be, or Docker did not say what it has of runs.
    """
    return remove_each(partial(_reap, found, all_runs=all_runs) for found in (_runs_with_processes, _runs_on_docker))


def _reap(found: Callable[[], list[Path]], *, all_runs: bool) -> list[str]:
    return remove_each(partial(tear_down, run) for run in found() if all_runs or not _is_leased(run))


def _runs_with_processes() -> list[Path]:
    from clusters.runtimes.process import processes_of

    return sorted({Path(owner).parent for owner in processes_of().values()})


def _runs_on_docker() -> list[Path]:
    """The runs of which Docker has something; none on a host without Docker, or for a user who may not use it.

    Raises:
        HarnessError: there is Docker, and it does not answer, which is no answer about runs.
    """
    from clusters.runtimes.docker.removal import runs_with_leftovers

    if choose_runtime("auto") == "docker":
        return sorted(runs_with_leftovers())
    address = os.environ.get("DOCKER_HOST") or (os.access(_DOCKER, os.R_OK | os.W_OK) and _DOCKER)
    if address:
        raise HarnessError(f"Docker does not answer at {address}; what runs left there stays until it does.")
    return []


def _is_leased(run: Path) -> bool:
    try:
        with (run / "work" / "lease").open() as file:
            told = json.load(file)
            in_time = bool(time.monotonic() < told["expires_s"]) and told["boot"] == boot_id()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return in_time
    except PermissionError:
        return True  # another user's: whether it is held cannot be seen, so nobody may call it nobody's
    except _NO_LEASE:
        return False
