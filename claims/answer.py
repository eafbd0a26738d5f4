"""A claim's answer, with a sentence and its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal["shown", "refuted", "not observable"]
MAX_EVIDENCE = 6


class Evidence(NamedTuple):
    """A row's file or table, seconds since the run began, and content."""

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
    """Return that the claim held."""
    return Answer("shown", sentence, list(evidence)[:MAX_EVIDENCE])


def refuted(sentence: str, evidence: Iterable[Evidence] = ()) -> Answer:
    """Return that the evidence is a counterexample."""
    return Answer("refuted", sentence, list(evidence)[:MAX_EVIDENCE])


def unseen(why: str) -> Answer:
    """Return that the claim was not observable; ``why`` is a sentence."""
    return Answer("not observable", why)


def decisive(answers: Sequence[Answer]) -> Answer:
    """Return the decisive answer: one counterexample outweighs any examples."""
    order: list[Verdict] = ["refuted", "shown", "not observable"]
    return min(answers, key=lambda answer: order.index(answer.verdict))
