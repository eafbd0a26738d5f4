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
    """A checked item with its answer."""

    question: str
    what: str
    answer: Answer
    sentence: str
    runs: list[str]


class QualifyResult(Summary):
    """``verdict`` is the worst answer, ``digest`` covers all evidence.

    ``by_design``: deliberate changes; ``doubts``: open points.
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
