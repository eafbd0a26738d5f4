"""List all stages of a scenario's DAG: recording, and those before and after."""

from __future__ import annotations

import os
from dataclasses import replace

from clusters.run import stages as recording
from clusters.run.stages import Stage
from clusters.scenario.durations import expected_records
from clusters.scenario.scenario import Scenario, load_scenario, scenario_names

ANY_SCENARIO = "any_scenario"  # the DAG of scenarios without their own
QUEUE = "PLIMSOLL_QUEUE"  # of the host that records, if other tasks run elsewhere
UPLOAD_TO = "PLIMSOLL_UPLOAD"  # a URL
INTERRUPTED_S = 90.0  # until an interrupted DAG run ends, besides its stages
AIRFLOW_S = 12.0  # from the command to the first task

RESOLVE = Stage("resolve", "checking the request", 1.0, 900.0)
JUDGE = Stage("judge", "judging the recording in Spark", 20.0, 3600.0, role="end")
JUDGED_PER_S = 50_000.0  # 12 million records took 152 s on a busy machine of two cores, 1.26 million 65 s
UPLOAD = Stage("upload", "uploading the recording", 5.0, 3600.0, role="end")
PUBLISH = Stage("publish", "writing the page", 5.0, role="end")


def recording_queue() -> dict[str, str]:
    """Return the queue of tasks that need the host that records, unless every worker is on it."""
    name = os.environ.get(QUEUE)
    return {"queue": name} if name else {}


def stages(scenario: Scenario) -> tuple[Stage, ...]:
    """Return a run's stages in order; ``resolve`` records no events, because it makes the run's folder."""
    judge = replace(JUDGE, expected_s=JUDGE.expected_s + expected_records(scenario) / JUDGED_PER_S)
    return (RESOLVE, *recording.stages(scenario), judge, PUBLISH)


def expected_s(scenario: Scenario) -> float:
    """Return a whole run's expected seconds, with judging and page."""
    return AIRFLOW_S + sum(stage.expected_s for stage in stages(scenario))


def end_limit_s(scenario: Scenario) -> float:
    """Return how long to wait until an interrupted run is collected and removed."""
    last = [stage for stage in recording.stages(scenario) if stage.role in ("end", "teardown")]
    return INTERRUPTED_S + last[-1].step_wait_s + sum(stage.expected_s for stage in last)


def dag_of(scenario: Scenario) -> str:
    """Return the DAG with this scenario's stages."""
    if scenario.name in scenario_names() and _calls(load_scenario(scenario.name)) == _calls(scenario):
        return scenario.name
    return ANY_SCENARIO


def _calls(scenario: Scenario) -> list[tuple[object, ...]]:
    return [(stage.name, *stage.arguments) for stage in stages(scenario)]
