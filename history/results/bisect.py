"""A bisection's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history.results.base import Model, Summary
from history.results.cases import Case, Outcome

JudgedAs = Literal["good", "bad", "open", "undecided", "not run"]
_OUTCOMES: Mapping[JudgedAs, Outcome] = {"good": "pass", "bad": "pass"}


class Judged(Model):
    """A build; ``evidence`` is above 0 if bad, below 0 if good."""

    number: int
    name: str
    version: str
    answer: JudgedAs
    evidence: float | None
    sentence: str
    runs: list[str]


class BisectResult(Summary):
    """The first bad build is one of ``candidates``.

    ``difference`` separates bad from good; ``wrong_at_most`` is a probability.
    """

    kind: Literal["bisect"] = "bisect"
    seed: int
    settings: dict[str, Any]
    difference: str
    builds: int
    judged: list[Judged]
    first_bad: str
    last_good: str
    candidates: list[str]
    wrong_at_most: float
    hosts: list[str]

    def cases(self) -> Sequence[Case]:
        return [
            Case("bisect", each.name, _OUTCOMES.get(each.answer, "unknown"), each.sentence or each.answer, each.runs)
            for each in self.judged
        ]
