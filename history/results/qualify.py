"""An upgrade qualification: each question with its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history.results.base import Model, State, Summary
from history.results.cases import Case, Outcome

Answer = Literal["go", "no-go", "not yet", "note"]  # notes decide nothing
STATES: Mapping[Answer, State] = {"no-go": "fail", "not yet": "unknown", "go": "pass"}  # worst first
_OUTCOMES: Mapping[Answer, Outcome] = {"go": "pass", "no-go": "fail", "not yet": "unknown", "note": "skipped"}


class Line(Model):
    """One checked item: its question, answer and run ids."""

    question: str
    what: str
    answer: Answer
    sentence: str
    runs: list[str]


class QualifyResult(Summary):
    """``verdict`` is the worst answer. ``jars``: each side's digests; ``digest``: of all evidence.

    ``by_design``: sentences on deliberate changes; ``doubts``: on open points.
    """

    kind: Literal["qualify"] = "qualify"
    seed: int
    settings: dict[str, Any]
    base: str
    head: str
    verdict: Answer
    answers: list[Line]
    by_design: list[str]
    doubts: list[str]
    hosts: list[str]
    jars: dict[str, list[str]]
    digest: str

    def cases(self) -> Sequence[Case]:
        return [
            Case(f"qualify.{line.question}", line.what, _OUTCOMES[line.answer], line.sentence, line.runs)
            for line in self.answers
        ]
