"""What randomised schedules came to: of fuzzing, and of a soak."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class ScheduleRun(BaseModel):
    """The run of a schedule; ``violations`` are of guarantees: S1, and not permitted by the configuration.

    ``run_id`` is empty where none was recorded to its end.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    seed: int
    steps: int
    run_id: str
    verdict: Literal["pass", "fail", "unknown"]
    sentence: str
    violations: list[str]


class SchedulesResult(BaseModel):
    """``state`` is fail where a guarantee was violated, unknown where a schedule could not be judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["fuzz", "soak"]
    campaign_id: str
    created_at: str
    state: Literal["pass", "fail", "unknown"]
    sentence: str
    lines: list[str]
    kafka: str
    settings: dict[str, Any]
    runs: list[ScheduleRun]
