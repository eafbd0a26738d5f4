"""One Kafka version's answers to the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from history.results.base import Model, Summary
from history.results.cases import Case

Answered = Literal["shown", "refuted", "not observable"]


class Evidence(Model):
    """One row: source in the run folder, time (seconds since the run began), content."""

    source: str
    at_s: float | None
    text: str


class Answer(Model):
    """A claim's answer with experiment and run; both empty if not observable."""

    verdict: Answered
    sentence: str
    experiment: str
    run_id: str
    evidence: list[Evidence]


class Claim(Model):
    """``changes`` names the versions between which the answer changes."""

    text: str
    notes: list[str]
    changes: str


class Walkthrough(Model):
    """Expectations and observations; ``short`` is its name in the navigation."""

    title: str
    short: str
    words: str
    columns: list[str]
    rows: list[list[str | int | float | None]]


class ClaimsResult(Summary):
    """``answers`` and ``claims`` are keyed by claim; ``runs`` maps experiments to run ids."""

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
        """Return one case per claim; shown and refuted are equally good."""
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
