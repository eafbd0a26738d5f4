"""How long the parts of a run take: what a person is told, and when a task is given up."""

from __future__ import annotations

from datetime import timedelta

from clusters.scenario import Phase, Scenario

_MARGIN_S = 120.0  # binding targets, healing and the capture at a phase's end, on a busy host

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
    "judge": 40.0,
    "publish": 5.0,
}
_LIMIT_S = {"resolve": 900.0, "start_cluster": 900.0, "drain": 900.0, "collect": 900.0, "judge": 3600.0}
_USUAL_LIMIT_S = 300.0


def _held_s(phase: Phase) -> float:
    return sum(float(getattr(step, "seconds", 0.0)) for step in phase.steps)


def _limits_s(phase: Phase) -> float:
    return sum(float(getattr(step, "limit", 0.0)) for step in phase.steps)


def expected_phase_s(phase: Phase) -> float:
    """Seconds that a phase will take if a third of its waits' limits is used up."""
    return _held_s(phase) + _limits_s(phase) / 3


def expected_s(scenario: Scenario) -> float:
    """Seconds that a whole run will take, judging and page included."""
    return AIRFLOW_S + sum(EXPECTED_S.values()) + sum(expected_phase_s(phase) for phase in scenario.phases)


def phase_limit(phase: Phase) -> timedelta:
    """A phase's ``execution_timeout``: every hold, every limit run out, and a margin."""
    return timedelta(seconds=_held_s(phase) + _limits_s(phase) + _MARGIN_S)


def task_limit(task_id: str) -> timedelta:
    """The ``execution_timeout`` of a task that is no phase."""
    return timedelta(seconds=_LIMIT_S.get(task_id, _USUAL_LIMIT_S))
