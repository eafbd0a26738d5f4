"""What randomised schedules came to: of fuzzing, and of a soak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from history.exit_codes import Verdict
from history.results.base import Model, Summary
from history.results.cases import Case, Outcome


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

    def cases(self) -> Sequence[Case]:
        """A case for each schedule; one that failed without violating a guarantee is skipped, as it is in the state."""
        return [Case(self.kind, run.item, _outcome(run), run.sentence, [run.run_id]) for run in self.runs]


def _outcome(run: ScheduleRun) -> Outcome:
    if run.violations:
        return "fail"
    return "skipped" if run.verdict == "fail" else run.verdict
