"""Records a run stage by stage; Airflow's tasks perform the same stages one by one."""

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
    """One stage of a run, alone, with its events; of a run that is collected only the teardown has something to do.

    Raises:
        PlimsollError: it broke, and the run's events say how; or it cannot be performed in a run that is collected.
    """
    folder = RunFolder(run)
    if folder.is_sealed and stage.role == "end":
        return
    if folder.is_sealed and stage.role != "teardown":
        raise HarnessError(
            f"Run {folder.run_id} was collected and its cluster is gone, so {stage.name} cannot run in it again; "
            "trigger the DAG anew, which starts a new run."
        )
    act = partial(getattr(experiment, stage.function), run, *stage.arguments)
    alone = hold_step(run, stage.step_wait_s, at_last=stage.role == "teardown")
    try:
        with stage_events(folder.stages, stage.name), recorded(run, stage.function, stage.phase), alone:
            act()
    except OSError:
        if stage.role == "teardown":
            act()  # an event that a full disk did not take keeps nothing running
        raise


def record(run: Path) -> None:
    """A prepared run from its first node to its last.

    Raises:
        PlimsollError: the harness broke; what there is was collected, nothing of it lives on.
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
    """End a run wherever it is: collect what there is, unless that was done, and remove everything that it started.

    Raises:
        Exception: whatever made collecting fail, after everything was removed.
    """
    try:
        perform(run, STOP_CLIENTS)
        perform(run, COLLECT)
    finally:
        perform(run, TEAR_DOWN)
