"""What one version of Kafka answers to the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from history.results.base import Model, Summary
from history.results.cases import Case

Answered = Literal["shown", "refuted", "not observable"]


class Evidence(Model):
    """One row: the file or table in the run folder, when (seconds since the run began), and what it says."""

    source: str
    at_s: float | None
    text: str


class Answer(Model):
    """A claim's answer, and the experiment and run that it rests on; both are empty where nothing was observable."""

    verdict: Answered
    sentence: str
    experiment: str
    run_id: str
    evidence: list[Evidence]


class Claim(Model):
    """``changes`` says between which versions the answer changes."""

    text: str
    notes: list[str]
    changes: str


class Walkthrough(Model):
    """A table of what was expected and what was observed; ``short`` is its name in the page's navigation."""

    title: str
    short: str
    words: str
    columns: list[str]
    rows: list[list[str | int | float | None]]


class ClaimsResult(Summary):
    """``answers`` and ``claims`` have the claims' names as keys; ``runs`` maps experiments to run ids."""

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
        """A case for each claim: shown and refuted are answers, neither better than the other."""
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
