"""A qualification of an upgrade: each thing that was asked, with its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history.results.base import Model, State, Summary
from history.results.cases import Case, Outcome

Answer = Literal["go", "no-go", "not yet", "note"]  # a note is for people, and decides nothing
STATES: Mapping[Answer, State] = {"no-go": "fail", "not yet": "unknown", "go": "pass"}  # the worst one first
_OUTCOMES: Mapping[Answer, Outcome] = {"go": "pass", "no-go": "fail", "not yet": "unknown", "note": "skipped"}


class Line(Model):
    """One thing that was asked: of which question it is a part, what came of it, and the ids of its runs."""

    question: str
    what: str
    answer: Answer
    sentence: str
    runs: list[str]


class QualifyResult(Summary):
    """``verdict`` is the worst answer. ``jars`` are the digests of each side's, ``digest`` one of all evidence.

    ``by_design`` and ``doubts`` are sentences: what changes on purpose, and what the answer leaves open.
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
        """A case for each line."""
        return [
            Case(f"qualify.{line.question}", line.what, _OUTCOMES[line.answer], line.sentence, line.runs)
            for line in self.answers
        ]
