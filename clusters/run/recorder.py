"""Record a run stage by stage, as Airflow's tasks do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clusters.live.world import World
from clusters.run import experiment
from clusters.run.leftovers import hold_lease, hold_step
from clusters.run.stages import COLLECT, STOP_CLIENTS, TEAR_DOWN, Stage, stages
from history.errors import HarnessError
from history.events import recorded, stage_events
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
    with World.open(run) as world:
        to_the_end = [stage for stage in stages(world.scenario) if stage.role in ("start", "setup", "work")]
    with hold_lease(run):
        try:
            for stage in to_the_end:
                perform(run, stage)
        finally:
            salvage(run)


def salvage(run: Path) -> None:
    """End a run in any state: collect, then remove everything started, then raise the collection's error."""
    try:
        perform(run, STOP_CLIENTS)
        perform(run, COLLECT)
    finally:
        perform(run, TEAR_DOWN)
