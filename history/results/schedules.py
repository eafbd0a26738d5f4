"""The results of randomised schedules: fuzzing and soak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from history.exit_codes import Verdict
from history.results.base import Model, Summary
from history.results.cases import Case, Outcome


class ScheduleRun(Model):
    """A schedule's run, if complete."""

    item: str
    seed: int
    steps: int
    run_id: str
    verdict: Verdict
    sentence: str
    violations: list[str]


class Smallest(Model):
    """The smallest schedule found that shows a violation of ``of_item``; ``runs`` were made to find it."""

    of_item: str
    of_steps: int
    run: ScheduleRun
    runs: int
    is_limited: bool
    schedule: str


class SchedulesResult(Summary):
    """``state``: fail if a guarantee was violated."""

    kind: Literal["fuzz", "soak"]
    kafka: str
    settings: dict[str, Any]
    runs: list[ScheduleRun]
    smallest: Smallest | None = None

    def cases(self) -> Sequence[Case]:
        """Return a case per schedule; failures without violation are skipped."""
        return [Case(self.kind, run.item, _outcome(run), run.sentence, [run.run_id]) for run in self.runs]


def _outcome(run: ScheduleRun) -> Outcome:
    if run.violations:
        return "fail"
    return "skipped" if run.verdict == "fail" else run.verdict
