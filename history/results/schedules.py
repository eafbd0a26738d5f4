"""What randomised schedules came to: of fuzzing, and of a soak."""

from __future__ import annotations

from typing import Any, Literal

from history.results.base import Model, Summary, Verdict


class ScheduleRun(Model):
    """The run of a schedule; ``violations`` are of guarantees: S1, and not permitted by the configuration.

    ``run_id`` is empty where none was recorded to its end.
    """

    item: str
    seed: int
    steps: int
    run_id: str
    verdict: Verdict
    sentence: str
    violations: list[str]


class SchedulesResult(Summary):
    """``state`` is fail where a guarantee was violated, unknown where a schedule could not be judged."""

    kind: Literal["fuzz", "soak"]
    kafka: str
    settings: dict[str, Any]
    runs: list[ScheduleRun]
