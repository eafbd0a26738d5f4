"""A Kafka version's answers to the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from history.results.base import Model, Summary
from history.results.cases import Case

Answered = Literal["shown", "refuted", "not observable"]


class Evidence(Model):
    """A row with its source; time is seconds from the run's start."""

    source: str
    at_s: float | None
    text: str


class Answer(Model):
    """An answer, not observable without a run."""

    verdict: Answered
    sentence: str
    experiment: str
    run_id: str
    evidence: list[Evidence]


class Claim(Model):
    """``changes`` names the versions with another answer; ``shows`` and ``refutes`` are what decides it."""

    text: str
    notes: list[str]
    known: str
    shows: str
    refutes: str
    changes: str


class Walkthrough(Model):
    """Expectations and observations; ``short``: in the navigation."""

    title: str
    short: str
    words: str
    columns: list[str]
    rows: list[list[str | int | float | None]]


class ClaimsResult(Summary):
    """Answers by claim; ``runs`` maps experiments to run ids."""

    kind: Literal["claims"] = "claims"
    kafka: str
    modes: list[str]
    settings: dict[str, Any]
    counts: dict[Answered, int]
    runs: dict[str, str]
    claims: dict[str, Claim]
    answers: dict[str, Answer]
    walkthroughs: list[Walkthrough]

    def cases(self) -> Sequence[Case]:
        return [
            Case(
                "claims",
                f"{name} {self.claims[name].text}",
                "skipped" if answer.verdict == "not observable" else "pass",
                f"{answer.verdict}: {answer.sentence}",
                [answer.run_id] if answer.run_id else [],
            )
            for name, answer in self.answers.items()
        ]
