"""A bisection: the judged builds and the first bad one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history.results.base import Model, Summary
from history.results.cases import Case, Outcome

JudgedAs = Literal["good", "bad", "open", "undecided", "not run"]
_OUTCOMES: Mapping[JudgedAs, Outcome] = {"good": "pass", "bad": "pass"}


class Judged(Model):
    """A build with its reported version and its runs' answer.

    ``evidence`` is above 0 for a bad build, below 0 for a good one, None without runs.
    """

    number: int
    name: str
    version: str
    answer: JudgedAs
    evidence: float | None
    sentence: str
    runs: list[str]


class BisectResult(Summary):
    """``difference`` distinguishes bad from good ("": nothing does). The first bad build is one of ``candidates``;
    ``first_bad`` if one remains. ``wrong_at_most`` bounds the probability of a wrong answer, if each build is good
    or shows at least the requested difference.
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
        """Return one case per build; undecided ones are unknown."""
        return [
            Case("bisect", each.name, _OUTCOMES.get(each.answer, "unknown"), each.sentence or each.answer, each.runs)
            for each in self.judged
        ]
