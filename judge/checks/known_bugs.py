"""Bugs of Kafka that show as a broken invariant: named where the version has them and the brokers' own logs agree.

A named bug stays a failure: the record says which one it is, and in which version it is gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history.kafka_versions import affected

Row = Mapping[str, Any]


@dataclass(frozen=True)
class KnownBug:
    """Named where ``agrees`` holds of the evidence of an invariant, one of ``shown_as``, and of a line of ``kind`` that
    the same broker wrote.
    """

    issue: str
    words: str
    shown_as: frozenset[str]
    kind: str
    agrees: Callable[[Row, Row], bool]


def _from_too_high(evidence: Row, line: Row) -> bool:
    return bool(line["previous_high_watermark"] == evidence.get("hw_read_first", evidence.get("floor")))


def _cut_to_its_end(evidence: Row, line: Row) -> bool:
    return "own_log_end" in evidence and bool(line["log_end_offset"] == evidence["own_log_end"])


def _caught_up_when_evicted(evidence: Row, line: Row) -> bool:
    """It had less when the leader asked to have it evicted, and has since fetched up to where HW stands still."""
    awaited = evidence.get("awaited", ())
    return any(broker in awaited and end < evidence["leader_hw"] for broker, end in line.get("out_of_sync") or ())


KNOWN_BUGS = (
    KnownBug(
        "KAFKA-14704",
        "a follower raises its high watermark before it cuts its log; fixed in 3.3.3, 3.4.1 and 3.5.0",
        frozenset({"I2", "I6"}),
        "hw_lowered",
        _from_too_high,
    ),
    KnownBug(
        "STALE-HW",
        "a follower that has cut its log learns the high watermark only with the next record; since 3.4.1",
        frozenset({"I10"}),
        "truncating",
        _cut_to_its_end,
    ),
    KnownBug(
        "HW-WAITS",
        "the high watermark waits for a replica that caught up while evicted, until it fetches or somebody writes",
        frozenset({"I10"}),
        "isr_shrinking",
        _caught_up_when_evicted,
    ),
)


ISSUES = frozenset(bug.issue for bug in KNOWN_BUGS)


def explained(found: Iterable[str], sentence: str) -> set[str]:
    """What a run showed; a bug that the verdict's sentence names stands for the invariants as which it shows."""
    left = set(found)
    for bug in KNOWN_BUGS:
        if bug.issue in sentence:
            left = left - bug.shown_as | {bug.issue}
    return left


def named(invariants: Iterable[Row], kafka_versions: Iterable[str], lines: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of the invariants table, the reason of each violation that is a known bug saying so.

    ``lines`` are ``kafka_files.broker_log.BROKER_LOG``. The first violation is named: the evidence is about it.
    """
    present = list(kafka_versions)
    bugs = [bug for bug in KNOWN_BUGS if any(affected(bug.issue, version) for version in present)]
    return [_with_name(dict(row), bugs, lines) for row in invariants]


def _with_name(row: dict[str, Any], bugs: Sequence[KnownBug], lines: Sequence[Row]) -> dict[str, Any]:
    evidence = json.loads(row["evidence"] or "{}") if row["violations"] else {}
    own = [line for line in lines if line["broker_id"] == evidence.get("broker_id")]
    for bug in (bug for bug in bugs if row["invariant"] in bug.shown_as):
        line = next((line for line in own if line["kind"] == bug.kind and bug.agrees(evidence, line)), None)
        if line is not None:
            where = f"line {line['line']} of broker {line['broker_id']}'s server.log"
            row["reason"] = f"{row['reason']}. This is {bug.issue} ({bug.words}), as {where} shows"
    return row
