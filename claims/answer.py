"""Define a claim's answer: shown, refuted or not observable, with a sentence and its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal["shown", "refuted", "not observable"]
MAX_EVIDENCE = 6


class Evidence(NamedTuple):
    """One row: its file or table in the run folder, its time (seconds since the run began), and its content."""

    source: str
    at_s: float | None
    text: str


@dataclass(frozen=True)
class Answer:
    """The answer of one recording to one claim."""

    verdict: Verdict
    sentence: str
    evidence: Sequence[Evidence] = ()


def shown(sentence: str, evidence: Iterable[Evidence] = ()) -> Answer:
    """Return the answer that the claim held."""
    return Answer("shown", sentence, list(evidence)[:MAX_EVIDENCE])


def refuted(sentence: str, evidence: Iterable[Evidence] = ()) -> Answer:
    """Return the answer that there is a counterexample, with its rows as evidence."""
    return Answer("refuted", sentence, list(evidence)[:MAX_EVIDENCE])


def unseen(why: str) -> Answer:
    """Return the answer that the claim was not observable; ``why`` is a sentence."""
    return Answer("not observable", why)


def decisive(answers: Sequence[Answer]) -> Answer:
    """Return the answer that counts: one counterexample outweighs any number of examples."""
    order: list[Verdict] = ["refuted", "shown", "not observable"]
    return min(answers, key=lambda answer: order.index(answer.verdict))
