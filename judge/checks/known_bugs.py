"""Bugs of Kafka that show as a broken invariant: named where the version has them and the brokers' own logs agree.

A named bug stays a failure: the record says which one it is, and in which version it is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history.kafka_versions import affected

Row = Mapping[str, Any]


@dataclass(frozen=True)
class KnownBug:
    """``shown`` is the field of an invariant's evidence that must stand, for the same broker, in a line of ``kind`` as
    ``said``.
    """

    issue: str
    words: str
    shown: Mapping[str, str]
    kind: str
    said: str


KNOWN_BUGS = (
    KnownBug(
        "KAFKA-14704",
        "a follower raises its high watermark before it cuts its log; fixed in 3.3.3, 3.4.1 and 3.5.0",
        {"I2": "hw_read_first", "I6": "floor"},
        "hw_lowered",
        "previous_high_watermark",
    ),
    KnownBug(
        "STALE-HW",
        "a follower that has cut its log learns the high watermark only with the next record; since 3.4.1",
        {"I10": "own_log_end"},
        "truncating",
        "log_end_offset",
    ),
)


ISSUES = frozenset(bug.issue for bug in KNOWN_BUGS)


def explained(found: Iterable[str], sentence: str) -> set[str]:
    """What a run showed; a bug that the verdict's sentence names stands for the invariants as which it shows."""
    left = set(found)
    for bug in KNOWN_BUGS:
        if bug.issue in sentence:
            left = left - bug.shown.keys() | {bug.issue}
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
    for bug in bugs:
        shown = evidence.get(bug.shown.get(row["invariant"], ""))
        line = next(
            (
                line
                for line in lines
                if line["kind"] == bug.kind
                and line["broker_id"] == evidence.get("broker_id")
                and line.get(bug.said) == shown
            ),
            None,
        )
        if shown is not None and line is not None:
            where = f"line {line['line']} of broker {line['broker_id']}'s server.log"
            row["reason"] = f"{row['reason']}. This is {bug.issue} ({bug.words}), as {where} shows"
    return row
