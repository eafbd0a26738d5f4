"""A claim's answer from recorded cases, and their evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from evidence.columns import ACKS, NULL
from evidence.facts import Row
from evidence.partition import PartitionEvidence
from history.events import Event
from history.words import counted
from kafka_files.states import State

Verdict = Literal["refuted", "shown", "not observable"]  # the first outweighs the others
MAX_EVIDENCE = 6


class Evidence(NamedTuple):
    """A row's file or table, time, and content."""

    source: str
    t_ns: int | None
    text: str


class Case(NamedTuple):
    """Examples or counterexamples."""

    holds: bool
    evidence: Sequence[Evidence]
    times: int = 1


class Answer(NamedTuple):
    """One recording's answer to a claim."""

    verdict: Verdict
    sentence: str
    evidence: Sequence[Evidence] = ()


def answer_of(cases: Iterable[Case], shows: str, refutes: str) -> Answer:
    """Answer by cases: one counterexample outweighs any examples."""
    every = list(cases)
    order: list[tuple[Verdict, bool, str]] = [("refuted", False, refutes), ("shown", True, shows)]
    for verdict, holds, why in order:
        if decisive := [case for case in every if case.holds is holds]:
            evidence = [row for case in decisive for row in case.evidence]
            number, of_all = sum(case.times for case in decisive), sum(case.times for case in every)
            sentence = f"{why[0].upper()}{why[1:]} ({number:,} of {counted(of_all, 'case')})."
            return Answer(verdict, sentence, evidence[:MAX_EVIDENCE])
    return Answer("not observable", "The runs have no case of it.")


def saw(of: PartitionEvidence, row: int, note: str = "") -> Evidence:
    """Return a replica's sample."""
    seen = of.samples.answered
    text = f"{of.where} on broker {seen.broker[row]}: HW {seen.hw[row]}, LEO {seen.leo[row]}, epoch {seen.epoch[row]}"
    return Evidence("replicas/", int(seen.received_ns[row]), f"{text}{note}")


def decided(*states: State) -> list[Evidence]:
    """Return the controller's states."""

    def row(state: State) -> Evidence:
        leads = f"leader {state.leader}, epoch {state.leader_epoch}"
        text = f"{state.topic}-{state.partition}: {leads}, ISR {list(state.isr)}, replicas {list(state.replicas)}"
        folder = "zookeeper" if state.source == "znode" else "controller"
        return Evidence(f"brokers/{folder}/data/", state.t_ns, text)

    return [row(state) for state in states]


def logged(*lines: Row) -> list[Evidence]:
    """Return log lines without the run folder's private path."""
    source = "brokers/broker-{broker_id}/server.log:{line}"
    texts = [re.sub(r"dir=\S*/work/", "dir=", line["text"]) for line in lines]
    return [Evidence(source.format_map(row), row["t_ns"], text) for row, text in zip(lines, texts, strict=True)]


def sent(of: PartitionEvidence, row: int) -> Evidence:
    """Return an answered send."""
    sends = of.sends
    producer, seq = of.names.name(int(sends.value[row]))
    result = of.names.listed[sends.error[row]] if sends.error[row] >= 0 else f"offset {sends.offset[row]}"
    text = f"{of.where}: {producer} record {seq}, acks={ACKS[sends.acks[row]]}: {result}"
    return Evidence("sends/", None if sends.done_ns[row] == NULL else int(sends.done_ns[row]), text)


def happened(event: Event, text: str) -> Evidence:
    """Return an event of the run."""
    return Evidence("events.jsonl", event.t_ns, text)
