"""What a claim's answer is: shown, refuted or not observable, a sentence, and the rows that it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal["shown", "refuted", "not observable"]
MAX_EVIDENCE = 6


class Evidence(NamedTuple):
    """One row: the file or table in the run folder, when (seconds since the run began), and what it says."""

    source: str
    at_s: float | None
    text: str


@dataclass(frozen=True)
class Answer:
    """What one recording says of one claim."""

    verdict: Verdict
    sentence: str
    evidence: Sequence[Evidence] = ()


def shown(sentence: str, evidence: Iterable[Evidence] = ()) -> Answer:
    """The claim was seen to hold."""
    return Answer("shown", sentence, list(evidence)[:MAX_EVIDENCE])


def refuted(sentence: str, evidence: Iterable[Evidence] = ()) -> Answer:
    """There is a counterexample, whose rows are the evidence."""
    return Answer("refuted", sentence, list(evidence)[:MAX_EVIDENCE])


def unseen(why: str) -> Answer:
    """Not observable; ``why`` is a sentence."""
    return Answer("not observable", why)


def decisive(answers: Sequence[Answer]) -> Answer:
    """Of several experiments' answers the one that counts: one counterexample outweighs any number of examples."""
    order: list[Verdict] = ["refuted", "shown", "not observable"]
    return min(answers, key=lambda answer: order.index(answer.verdict))
