"""A bisection: which builds were judged, and the first bad one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history.results.base import Model, Summary
from history.results.cases import Case, Outcome

JudgedAs = Literal["good", "bad", "open", "undecided", "not run"]
_OUTCOMES: Mapping[JudgedAs, Outcome] = {"good": "pass", "bad": "pass"}


class Judged(Model):
    """A build: its place, its name, the version that it reports, and what its runs say.

    ``evidence`` is above 0 for a bad build and below 0 for a good one; None without runs.
    """

    number: int
    name: str
    version: str
    answer: JudgedAs
    evidence: float | None
    sentence: str
    runs: list[str]


class BisectResult(Summary):
    """``difference`` says what tells bad from good, "" where nothing does; one of the ``candidates`` is the first bad
    build, ``first_bad`` if it is a single one. ``wrong_at_most`` bounds the chance that an answer on the way was wrong,
    as long as each build is good or shows at least what was asked.
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
        """A case for each build that was judged; one that is not decided is an error."""
        return [
            Case("bisect", each.name, _OUTCOMES.get(each.answer, "unknown"), each.sentence or each.answer, each.runs)
            for each in self.judged
        ]
