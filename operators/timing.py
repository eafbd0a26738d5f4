"""How long the parts of a run take: what a person is told, and when a task is given up."""

from __future__ import annotations

from datetime import timedelta

from clusters.scenario.durations import MAX_DRAIN_S, expected_phase_s, expected_records, longest_phase_s
from clusters.scenario.scenario import Load, Phase, Scenario

AIRFLOW_S = 12.0  # from the command to the first task

# What to expect of the tasks beside the phases (two cores, jars at hand), and when to give up on them.
EXPECTED_S = {
    "resolve": 1.0,
    "start_cluster": 12.0,
    "create_topics": 2.0,
    "capture_before": 1.0,
    "start_clients": 4.0,
    "stop_producers": 2.0,
    "quiesce": 3.0,
    "drain": 5.0,
    "capture_after": 1.0,
    "stop_clients": 2.0,
    "collect": 5.0,
    "tear_down": 4.0,
    "judge": 50.0,  # and more by the records that there are; small runs took 40 to 80 s
    "publish": 5.0,
}
_JUDGED_PER_S = 4500.0  # records: 1,257,143 of them took 331 s in all
_LIMIT_S = {"resolve": 900.0, "start_cluster": 900.0, "drain": MAX_DRAIN_S + 300.0, "collect": 900.0, "judge": 3600.0}
_USUAL_LIMIT_S = 300.0


def expected_s(scenario: Scenario) -> float:
    """Seconds that a whole run will take, judging and page included."""
    tasks = sum(expected_task_s(task_id, scenario) for task_id in EXPECTED_S)
    return AIRFLOW_S + tasks + sum(expected_phase_s(phase) for phase in scenario.phases)


def expected_task_s(task_id: str, scenario: Scenario) -> float:
    """Seconds that a task beside the phases will take."""
    records = expected_records(scenario) if task_id == "judge" else 0.0
    return EXPECTED_S[task_id] + records / _JUDGED_PER_S


def phase_limit(phase: Phase) -> timedelta:
    """A phase's ``execution_timeout``."""
    return timedelta(seconds=longest_phase_s(phase))


def task_limit(task_id: str, scenario: Scenario) -> timedelta:
    """The ``execution_timeout`` of a task that is no phase."""
    return timedelta(seconds=_LIMIT_S.get(task_id, _USUAL_LIMIT_S) + _waits_s(task_id, scenario.load))


def _waits_s(task_id: str, load: Load | None) -> float:
    """How long the scenario itself lets a task wait, for answers or for the end of a transaction."""
    if load and task_id in ("stop_producers", "stop_clients"):
        return load.delivery_timeout
    if load and load.transaction and task_id == "quiesce":
        return load.transaction.timeout
    return 0.0
