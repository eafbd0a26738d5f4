"""Hold runs by leases, and remove what is left of others."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Literal

from clusters.live.world import TORN_DOWN, World
from clusters.run import attached
from clusters.run.manifest import boot_id
from clusters.runtimes import choose_runtime, open_runtime
from clusters.waiting import wait_until
from history.access import variables
from history.background import every
from history.errors import HarnessError, WaitTimeout, remove_each
from history.folder import RunFolder, write_atomically
from history.scratch import scratch

Lease = Literal["process", "time"]

LEASE_S = 1800.0  # for a run's next task to start, or a dead worker to be noticed
_RENEWED_EVERY_S = 60.0
_NO_LEASE = (OSError, ValueError, LookupError, TypeError)
_held: set[Path] = set()
_DOCKER = Path("/var/run/docker.sock")  # unless DOCKER_HOST is set


def write_lease(run: Path, kind: Lease) -> None:
    """Protect the run from ``reap`` by a process's life, or until a monotonic time."""
    expires_s = time.monotonic() + LEASE_S if kind == "time" else 0
    write_atomically(RunFolder(run).work / "lease", json.dumps({"boot": boot_id(), "expires_s": expires_s}))


def end_lease(run: Path) -> None:
    """Let ``reap`` remove the run."""
    (RunFolder(run).work / "lease").unlink(missing_ok=True)


@contextmanager
def hold_lease(run: Path) -> Iterator[None]:
    """Protect the run from ``reap`` while this process lives."""
    with (RunFolder(run).work / "lease").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def hold_scratch_run() -> Iterator[Path]:
    """Yield a folder for a trial, protected like a run."""
    with scratch() as folder:
        run = RunFolder(folder)
        run.work.mkdir()
        write_lease(run.path, "process")
        with hold_lease(run.path):
            yield run.path


@contextmanager
def hold_step(run: Path, limit_s: float, *, at_last: bool = False) -> Iterator[None]:
    """Hold the run exclusively: an abandoned task may still be healing its faults.

    The holder may hold it again; a lease by time is renewed. ``at_last``, for the teardown, continues even if another
    process holds the run.

    Raises:
        WaitTimeout: another process still holds it after ``limit_s`` seconds.
    """
    lock = RunFolder(run.resolve()).work / "step"
    if lock in _held or not lock.parent.is_dir():  # without work/ the call fails
        yield
        return
    with lock.open("w") as file:
        what = f"another task of {run.name} to end first"
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
    renew_lease(run)
    try:
        with every(_RENEWED_EVERY_S, partial(renew_lease, run)):
            yield
    finally:
        renew_lease(run)


def renew_lease(run: Path) -> None:
    """Renew a lease by time."""
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
    """Remove everything of the run except its folder; safe to repeat.

    ``work/``, too, if the run is sealed: before, it is the only evidence. After a failure no lease protects the rest.

    Raises:
        HarnessError: the run was on Docker, which does not answer or failed.
    """
    from clusters.run.host import leave  # imports this module

    folder = RunFolder(run.resolve())
    with suppress(OSError):  # a failure must not prevent the removal
        (folder.work / TORN_DOWN).touch()
    try:
        removed = _remove_all(folder.path) + _leave_cluster(folder)
    except BaseException:
        end_lease(folder.path)
        raise
    leave(folder.path)
    with suppress(PermissionError):
        if folder.is_sealed:
            shutil.rmtree(folder.work, ignore_errors=True)
    return removed


def _remove_all(run: Path) -> list[str]:
    removed = open_runtime("process", run).remove_all()
    # A Docker daemon that is slow is left out, unless the run is on it.
    if _is_planned(run, "runtime", "docker") or choose_runtime("auto") == "docker":
        removed += open_runtime("docker", run).remove_all()
    return removed


def _leave_cluster(folder: RunFolder) -> list[str]:
    """End faults and delete topics on a cluster that somebody else runs."""
    if not _is_planned(folder.path, "kind", "attached"):
        return []
    with World.open(folder.path) as world:
        return attached.end(world)


def _is_planned(run: Path, name: str, value: str) -> bool:
    try:
        return bool(json.loads((run / "work" / "plan.json").read_text())["cluster"][name] == value)
    except _NO_LEASE:
        return False


def reap(*, all_runs: bool = False, docker_may_be_down: bool = False) -> list[str]:
    """Remove what is left of runs without a lease, with ``all_runs`` of all.

    A lease holds while its process lives, or until its time. ``docker_may_be_down``: a stopped daemon counts as no
    runs.

    Raises:
        NotRemoved: at the end, if some remain, or Docker did not list its runs.
    """
    places = [_runs_with_processes, _runs_on_docker]
    if docker_may_be_down and _is_down(_docker_address()):
        places.remove(_runs_on_docker)
    return remove_each(partial(_reap, found, all_runs=all_runs) for found in places)


def _reap(found: Callable[[], list[Path]], *, all_runs: bool) -> list[str]:
    return remove_each(partial(tear_down, run) for run in found() if all_runs or not is_leased(run))


def _runs_with_processes() -> list[Path]:
    from clusters.runtimes.process import processes_of

    return sorted({Path(owner).parent for owner in processes_of().values()})


def _runs_on_docker() -> list[Path]:
    """Return the runs on Docker; none without permission to use it.

    Raises:
        HarnessError: Docker exists and does not answer.
    """
    from clusters.runtimes.docker.removal import runs_with_leftovers

    if choose_runtime("auto") == "docker":
        return sorted(runs_with_leftovers())
    if address := _docker_address():
        raise HarnessError(f"Docker does not answer at {address}; what runs left there stays until it does.")
    return []


def _docker_address() -> str:
    return variables().get("DOCKER_HOST") or (str(_DOCKER) if os.access(_DOCKER, os.R_OK | os.W_OK) else "")


def _is_down(address: str) -> bool:
    """Return whether no daemon listens; a silent one may have containers."""
    path = address.removeprefix("unix://")
    if not path.startswith("/"):
        return False
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(path)
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:
        return False
    return False


def is_leased(run: Path) -> bool:
    """Return whether a run is under way."""
    try:
        with (run / "work" / "lease").open() as file:
            lease = json.load(file)
            in_time = bool(time.monotonic() < lease["expires_s"]) and lease["boot"] == boot_id()
            return in_time or not _taken(file)
    except PermissionError:
        return True  # another user's lock is not visible
    except _NO_LEASE:
        return False
