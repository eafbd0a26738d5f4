"""Name Kafka bugs behind violated invariants; they remain failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history.kafka_versions import affected, affected_range

Row = Mapping[str, Any]


@dataclass(frozen=True)
class KnownBug:
    """A bug that violates ``shown_as``; ``line`` finds the log line that agrees."""

    issue: str
    words: str
    shown_as: frozenset[str]
    kind: str
    line: Callable[[Row, Sequence[Row]], Row | None]


def _from_too_high(evidence: Row, lines: Sequence[Row]) -> Row | None:
    """Return the line that lowers the HW from the shown one, or from above a read offset."""
    shown, read = evidence.get("hw_read_first", evidence.get("floor")), evidence.get("offset", -1)
    return next(
        (
            line
            for line in lines
            if line["previous_high_watermark"] == shown
            or line["high_watermark"] <= read < line["previous_high_watermark"]
        ),
        None,
    )


def _cut_to_its_end(evidence: Row, lines: Sequence[Row]) -> Row | None:
    return next((line for line in lines if line["log_end_offset"] == evidence.get("own_log_end")), None)


def _caught_up_meanwhile(evidence: Row, lines: Sequence[Row]) -> Row | None:
    for awaited in evidence.get("awaited", ()):
        ends = [
            (end, line)
            for line in lines
            if line["t_ns"] is not None and line["t_ns"] <= evidence["t_ns"]
            for broker, end in line.get("out_of_sync") or ()
            if broker == awaited
        ]
        if ends and ends[-1][0] < evidence["leader_hw"]:
            return ends[-1][1]
    return None


def _own_write_refused(evidence: Row, lines: Sequence[Row]) -> Row | None:
    """Return the line about a rejected ISR that the controller itself had written to ZooKeeper."""
    held = (evidence.get("leader_epoch"), evidence.get("isr"))
    return next((line for line in lines if (line["leader_epoch"], line["isr"]) == held), None)


KNOWN_BUGS = (
    KnownBug(
        "KAFKA-14704",
        "a follower raises its high watermark before it truncates its log",
        frozenset({"I2", "I6", "I16"}),
        "hw_lowered",
        _from_too_high,
    ),
    KnownBug(
        "STALE-HW",
        "a follower that has truncated its log learns the high watermark only with the next record",
        frozenset({"I10"}),
        "truncating",
        _cut_to_its_end,
    ),
    KnownBug(
        "HW-WAITS",
        "the high watermark waits for a replica that caught up while it was being evicted",
        frozenset({"I10"}),
        "isr_shrinking",
        _caught_up_meanwhile,
    ),
    KnownBug(
        "STALE-ISR",
        "a form of KAFKA-1382: a controller takes its own write, whose response was lost, for another broker's, and "
        "the leader's ISR change never ends",
        frozenset({"I38"}),
        "isr_refused",
        _own_write_refused,
    ),
)


BY_ISSUE = {bug.issue: bug for bug in KNOWN_BUGS}


def described(issue: str) -> str:
    """Return a bug's issue, words and versions."""
    return f"This is {issue} ({BY_ISSUE[issue].words}; {affected_range(issue)})"


def explained(found: Iterable[str], issues: Iterable[str]) -> set[str]:
    """Return what a run showed; known bugs replace their invariants."""
    left = set(found)
    for issue in issues:
        left = left - BY_ISSUE[issue].shown_as | {issue}
    return left


def named(
    invariants: Iterable[Row], kafka_versions: Iterable[str], lines: Sequence[Row], mode: str | None = None
) -> list[dict[str, Any]]:
    """Return rows of the invariants table with their ``known_bug``, which the reason describes.

    ``lines`` are rows of ``kafka_files.broker_log``.
    """
    present = list(kafka_versions)
    bugs = [bug for bug in KNOWN_BUGS if any(affected(bug.issue, version, mode) for version in present)]
    return [_with_name(dict(row), bugs, lines) for row in invariants]


def _with_name(row: dict[str, Any], bugs: Sequence[KnownBug], lines: Sequence[Row]) -> dict[str, Any]:
    if row["verdict"] != "fail":
        return row
    evidence = json.loads(row["evidence"] or "{}")
    own = [line for line in lines if evidence.get("broker_id") in (None, line["broker_id"])]
    for bug in (bug for bug in bugs if row["invariant"] in bug.shown_as):
        line = bug.line(evidence, [line for line in own if line["kind"] == bug.kind])
        if line is not None:
            where = f"line {line['line']} of broker {line['broker_id']}'s server.log"
            reason = f"{row['reason']}. {described(bug.issue)}, as {where} shows"
            return row | {"known_bug": bug.issue, "reason": reason}
    return row
