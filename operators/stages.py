"""All stages of a scenario's DAG: those of recording, and what stands before and after them."""

from __future__ import annotations

from clusters.run import stages as recording
from clusters.run.stages import Stage
from clusters.scenario.scenario import Scenario

AIRFLOW_S = 12.0  # from the command to the first task

RESOLVE = Stage("resolve", "checking what was asked for", 1.0, 900.0)
JUDGE = Stage("judge", "judging what was recorded, in Spark", 40.0, 3600.0, role="end")
PUBLISH = Stage("publish", "writing the page", 5.0, role="end")


def stages(scenario: Scenario) -> tuple[Stage, ...]:
    """Every stage of a run, in order; ``resolve`` makes the run's folder, so that it leaves no events there."""
    return (RESOLVE, *recording.stages(scenario), JUDGE, PUBLISH)


def expected_s(scenario: Scenario) -> float:
    """Seconds that a whole run will take, judging and page included."""
    return AIRFLOW_S + sum(stage.expected_s for stage in stages(scenario))
