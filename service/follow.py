"""Trigger a DAG run and follow it to its end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from campaigns import kinds
from clusters.waiting import wait_until
from history.errors import HarnessError
from service.api import ACTIVE, ACTIVE_TASK, Address, Airflow
from service.stages import INTERRUPTED_S

T = TypeVar("T")
UPKEEP = ("pages", "reaper")  # DAGs that no command follows
_LOOK_S = 0.2
_ASK_S = 1.0  # between two requests to Airflow
_ASK_BUSY_S = 5.0  # while a task works
_QUEUED_S = 15.0
_ITS_END_S = 300.0  # a run of unknown stages


class LeftToReaper(KeyboardInterrupt):
    """A second interrupt: nothing is waited for."""


class Follower(Protocol):
    """Show a DAG run's progress."""

    @property
    def running(self) -> str:
        """Return the current task, or ""."""

    def look(self) -> None: ...
    def say(self, text: str) -> object: ...


def run_dag(
    airflow: Airflow,
    dag_id: str,
    conf: Mapping[str, Any],
    *,
    run_id: str,
    progress: Follower,
    salvage: Callable[[], object],
    limit_s: float = INTERRUPTED_S,
) -> bool:
    """Run a checked DAG; return whether every task succeeded.

    At its end, ``salvage`` removes what killed tasks left. An interrupt ends the DAG run and waits for its teardown; a
    second one (LeftToReaper) does not wait. Both are raised.
    """
    with airflow.unpaused(dag_id):
        try:
            airflow.trigger(dag_id, conf, run_id)
            progress.say(f"Airflow: {airflow.link(dag_id, run_id)}")
            state = _follow(airflow, dag_id, run_id, progress)
            salvage()
        except HarnessError:  # Airflow does not answer; its tasks may go on
            raise
        except BaseException:
            progress.say("interrupted: collecting the recording and removing everything")
            end_run(airflow, dag_id, run_id, progress, salvage=salvage, limit_s=limit_s)
            raise
    return state == "success"


def _follow(airflow: Airflow, dag_id: str, run_id: str, progress: Follower) -> str:
    """Show progress until the DAG run has ended; return its state."""
    began_s, is_queued = time.monotonic(), False

    def ended() -> str:
        nonlocal is_queued
        state = airflow.state(dag_id, run_id) or "deleted"
        if state == "queued" and not is_queued and time.monotonic() - began_s > _QUEUED_S:
            is_queued = True
            progress.say("  waiting in Airflow's queue, until other runs of this DAG have ended")
        return "" if state in ACTIVE else state

    return _shown(ended, progress, math.inf)


def end_run(
    airflow: Airflow,
    dag_id: str,
    run_id: str,
    progress: Follower,
    *,
    salvage: Callable[[], object] = tuple,
    limit_s: float = INTERRUPTED_S,
) -> None:
    """End a DAG run and wait for its teardown; on an interrupt, timeout or error leave it to the reaper."""

    def has_ended() -> bool:
        return airflow.state(dag_id, run_id) not in ACTIVE and not airflow.tasks(dag_id, run_id, *ACTIVE_TASK)

    try:
        if airflow.state(dag_id, run_id) in ACTIVE:
            airflow.fail(dag_id, run_id)
        _shown(has_ended, progress, limit_s, lambda: airflow.state(dag_id, run_id))
        salvage()
    except (KeyboardInterrupt, HarnessError) as error:
        why = str(error).rstrip(".") or "interrupted again"
        progress.say(f"the rest is left to the reaper ({why}); plimsoll clean removes it")
        if isinstance(error, KeyboardInterrupt):
            raise LeftToReaper from error


class _Lines(NamedTuple):
    say: Callable[[str], object]
    running: str = ""

    def look(self) -> None:
        pass


def end_left(address: Address, say: Callable[[str], object]) -> None:
    """End all DAG runs of an Airflow whose command was killed."""
    end_all(Airflow(address, error=HarnessError), _Lines(say))


def end_all(airflow: Airflow, progress: Follower, prefix: str = "") -> None:
    """End the DAG runs whose ids begin so: campaigns before their runs, which they would record again."""
    seen: set[tuple[str, str]] = set()

    def left() -> list[tuple[str, str]]:
        found = airflow.active_runs(prefix)  # Airflow before 3.3 may return all
        return [run for run in found if run[0] not in UPKEEP and run[1].startswith(prefix) and run not in seen]

    while active := left():
        active.sort(key=lambda run: run[0] not in kinds.names())
        for dag_id, run_id in active:  # at once, else a waiting run would begin
            progress.say(f"ending {dag_id} {run_id}")
            airflow.fail(dag_id, run_id)
        for dag_id, run_id in active:
            end_run(airflow, dag_id, run_id, progress, limit_s=_ITS_END_S)
        seen.update(active)


def _shown(
    condition: Callable[[], T], progress: Follower, limit_s: float, last_seen: Callable[[], str] | None = None
) -> T:
    """Show progress until a condition, which is tried less often, is true."""
    asked_s = -math.inf

    def look() -> T | None:
        nonlocal asked_s
        progress.look()
        if time.monotonic() - asked_s < (_ASK_BUSY_S if progress.running else _ASK_S):
            return None
        asked_s = time.monotonic()
        return condition()

    found = wait_until(look, limit_s=limit_s, every_s=_LOOK_S, what="the DAG run to end", last_seen=last_seen)
    progress.look()
    return found
