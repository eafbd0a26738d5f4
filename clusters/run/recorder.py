"""Record a run stage by stage, as Airflow's tasks do."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from clusters.live.plan import read_plan
from clusters.run import experiment
from clusters.run.leftovers import hold_lease, hold_step
from clusters.run.stages import COLLECT, STOP_CLIENTS, TEAR_DOWN, Stage, stages
from history.errors import EvidenceError, HarnessError
from history.events import EventLog, errors_of, read_events, recorded, stage_events
from history.folder import RunFolder


def perform(run: Path, stage: Stage) -> None:
    """Perform one stage exclusively and record its events; a collected run allows only the teardown.

    Raises:
        PlimsollError: the stage failed, or the run is collected.
    """
    folder = RunFolder(run)
    if folder.is_sealed and stage.role == "end":
        return
    if folder.is_sealed and stage.role != "teardown":
        raise HarnessError(
            f"Run {folder.run_id} was collected and its cluster was removed, so {stage.name} cannot run again; "
            "trigger the DAG again for a new run."
        )
    if stage == COLLECT:
        _record_early_end(run)
    act = partial(getattr(experiment, stage.function), run, *stage.arguments)
    alone = hold_step(run, stage.step_wait_s, at_last=stage.role == "teardown")
    try:
        with stage_events(folder.stages, stage.name), recorded(run, stage.function, stage.phase), alone:
            act()
    except OSError:
        if stage.role == "teardown":
            act()  # a full disk must not prevent the teardown
        raise


def record(run: Path) -> None:
    """Record a prepared run from start to teardown.

    Raises:
        PlimsollError: the harness failed; evidence was collected, and everything removed.
    """
    with hold_lease(run):
        try:
            for stage in _to_the_end(run):
                perform(run, stage)
        finally:
            salvage(run)


def _to_the_end(run: Path) -> list[Stage]:
    return [stage for stage in stages(read_plan(RunFolder(run)).scenario) if stage.role in ("start", "setup", "work")]


def salvage(run: Path) -> None:
    """End a run in any state: collect, then remove everything started, then raise the collection's error."""
    try:
        perform(run, STOP_CLIENTS)
        perform(run, COLLECT)
    finally:
        perform(run, TEAR_DOWN)


def _record_early_end(run: Path) -> None:
    """Record an error if a stage is missing: a killed task records none."""
    folder = RunFolder(run)
    if errors_of(folder):
        return
    events = read_events(folder.stages) if folder.stages.exists() else ()
    done = {event.step for event in events if event.kind == "stage_ended" and event.detail["state"] == "success"}
    with suppress(EvidenceError):  # without a plan nothing was started
        if missing := [stage.name for stage in _to_the_end(run) if stage.name not in done]:
            EventLog(folder.events).add("error", step="collect", why=f"{missing[0]} did not complete.")
