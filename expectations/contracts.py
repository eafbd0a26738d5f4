"""The contracts of the recorded tables, in addition to the schemas of ``history.tables``.

A rule is what our recorder or import guarantees whatever Kafka does. One that also depends on Kafka has severity
``warning``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from history.tables import IMPORTED, RECORDED

Severity = Literal["critical", "warning"]

# (column, operator[, operand]); {"column": name} is another column. A comparison with null is false.
Term = Sequence[Any]

ACKNOWLEDGED = ["outcome", "==", "ok"]
ANSWERED, SILENT = ["error", "is null"], ["error", "is not null"]


@dataclass(frozen=True)
class Rule:
    """No row satisfies all of ``where``; ``in_order``: it compares two times or offsets."""

    name: str
    where: Sequence[Term]
    why: str
    severity: Severity = "critical"
    in_order: bool = False

    @property
    def columns(self) -> list[str]:
        others = [term[2]["column"] for term in self.where if len(term) > 2 and isinstance(term[2], Mapping)]
        return [*dict.fromkeys([term[0] for term in self.where] + others)]


@dataclass(frozen=True)
class Unique:
    """No two rows have equal values in all these columns."""

    columns: tuple[str, ...]
    why: str
    severity: Severity = "critical"
    in_order: bool = False

    @property
    def name(self) -> str:
        return f"{', '.join(self.columns)} are unique together"


def _one_of(column: str, values: tuple[str, ...], why: str) -> Rule:
    """Return that a column has only these values, or null."""
    return Rule(f"{column} is one of {', '.join(values)}", [[column, "not in", values]], why)


def _at_least(column: str, minimum: int, why: str) -> Rule:
    return Rule(f"{column} is at least {minimum}", [[column, "<", minimum]], why)


def _in_order(earlier: str, later: str, why: str) -> Rule:
    """Return that in each row that has both, ``later`` is not below ``earlier``."""
    return Rule(f"{earlier} is not after {later}", [[later, "<", {"column": earlier}]], why, in_order=True)


def _never(where: Sequence[Term], what: str, why: str, severity: Severity = "critical") -> Rule:
    return Rule(f"never {what}", where, why, severity)


@dataclass(frozen=True)
class Contract:
    """A recorded table's rules."""

    table: str
    schema: pa.Schema
    rules: tuple[Rule | Unique, ...]

    @property
    def required(self) -> list[str]:
        return [field.name for field in self.schema if not field.nullable]

    @property
    def by_partition(self) -> bool:
        return {"topic", "partition"} <= set(self.schema.names)

    @property
    def key(self) -> Sequence[str]:
        """Return the columns that a failing row is shown with."""
        unique = [rule.columns for rule in self.rules if isinstance(rule, Unique)]
        return unique[0] if unique else self.required

    def spans(self, rule: Unique) -> bool:
        """Return whether rows of several partitions may have one key: a name, and a number."""
        return self.by_partition and "partition" not in rule.columns


_PROBE = (
    _in_order("sent_ns", "received_ns", "one clock takes both times, the answer's after the request's"),
    _never(
        (ANSWERED, ["high_watermark", "is null"]), "an answer without a high watermark", "a probe without error has one"
    ),
    _never(
        (ANSWERED, ["log_end_offset", "is null"]), "an answer without a log end offset", "a probe without error has one"
    ),
    _never((SILENT, ["high_watermark", "is not null"]), "an error with a high watermark", "an error has no values"),
    _never((SILENT, ["log_end_offset", "is not null"]), "an error with a log end offset", "an error has no values"),
    _never(
        (["single_reply", "==", True], ["high_watermark", ">", {"column": "log_end_offset"}]),
        "a high watermark beyond the log end offset within one reply",
        "I2 judges it, with the exceptions that Kafka has; here it is only shown",
        severity="warning",
    ),
)

_RULES: Mapping[str, tuple[Rule | Unique, ...]] = {
    "sends": (
        _one_of("outcome", ("ok", "fail", "info"), "every send ends as one of these"),
        _one_of("acks", ("0", "1", "all"), "Kafka's setting has no other values"),
        _at_least("seq", 0, "a producer counts its sends from 0"),
        _at_least("transaction", 0, "a producer counts its transactions from 0"),
        Unique(("producer_id", "seq"), "a producer numbers each send once: a record is known by both"),
        _in_order("sent_ns", "done_ns", "one clock takes both times, and an answer follows its send"),
        _never((ACKNOWLEDGED, ["error", "is not null"]), "an acknowledged send with an error", "ok has no error"),
        _never(
            (ACKNOWLEDGED, ["done_ns", "is null"]),
            "an acknowledged send without the time of its answer",
            "the answer is what makes it ok",
        ),
        _never(
            (["partition", "<", 0], ACKNOWLEDGED),
            "an acknowledged send to a partition below 0",
            "only an import has -1, for a send whose partition nobody ever named",
        ),
    ),
    "polls": (
        _one_of("pass", ("live", "final", "incomplete"), "a reader is one of these"),
        _one_of("isolation", ("read_uncommitted", "read_committed"), "Kafka's setting has no other values"),
        _at_least("position", 0, "a consumer counts its records from 0"),
        _at_least("offset", 0, "a log begins at 0 or later"),
        _never(
            (["producer_id", "is null"], ["seq", "is not null"]),
            "a number without a producer",
            "a value that is one of ours has both",
        ),
        _never(
            (["producer_id", "is not null"], ["seq", "is null"]),
            "a producer without a number",
            "a value that is one of ours has both",
        ),
        Unique(
            ("consumer_id", "pass", "topic", "partition", "position"),
            "a consumer counts each record once: its order of reading is known by it",
        ),
    ),
    "seeks": (
        _one_of("pass", ("live", "final"), "only our own readers write seeks"),
        _at_least("position", 0, "a consumer counts its records from 0"),
        _at_least("from_offset", 0, "a position is an offset"),
        _at_least("to_offset", 0, "a position is an offset"),
    ),
    "group_reads": (
        _at_least("first_offset", 0, "a log begins at 0 or later"),
        _in_order("first_offset", "last_offset", "a stretch has a record, and offsets go up in it"),
    ),
    "rebalances": (
        _one_of("change", ("assigned", "revoked", "lost"), "libraries report only these changes to members"),
    ),
    "commits": (
        _at_least("number", 0, "a member counts its commits from 0"),
        _at_least("offset", 0, "a log begins at 0 or later"),
        _in_order("asked_ns", "answered_ns", "one clock takes both times, and an answer follows its question"),
        _never(
            (["answered_ns", "is null"], ["error", "is not null"]),
            "an error without the time of its answer",
            "the row written when a commit is requested has neither",
        ),
    ),
    "share_reads": (
        _at_least("first_offset", 0, "a log begins at 0 or later"),
        _in_order("first_offset", "last_offset", "a stretch has a record, and offsets go up in it"),
        _at_least("delivery_count", 0, "a count is not negative"),
        _in_order("since_ns", "received_ns", "one clock takes both times, and a poll follows those before"),
    ),
    "share_acks": (
        _at_least("first_offset", 0, "a log begins at 0 or later"),
        _in_order("first_offset", "last_offset", "a stretch has a record, and offsets go up in it"),
        _one_of("kind", ("accept", "release"), "our members acknowledge in no other way"),
        _never(
            (["answered_ns", "is null"], ["error", "is not null"]),
            "an error without the time of its answer",
            "the row written when it is requested has neither",
        ),
    ),
    "positions": (
        _at_least("position", 0, "a log begins at 0 or later"),
        Unique(("reader", "topic", "partition"), "where each reader is, is written down once, at the end"),
    ),
    "replicas": (
        *_PROBE,
        Unique(
            ("broker_id", "topic", "partition", "sent_ns"),
            "one thread probes a broker, and waits for each answer",
        ),
    ),
    "isr": (
        _one_of("source", ("metadata",), "the only source that is recorded while a run goes on"),
        _in_order("sent_ns", "received_ns", "one clock takes both times, the answer's after the request's"),
        Unique(("observer", "topic", "partition", "sent_ns"), "one thread asks a broker, and waits"),
    ),
    "offsets": (
        *_PROBE,
        Unique(
            ("capture", "broker_id", "topic", "partition", "sent_ns"),
            "one thread asks a broker, and waits; a phase with several faults has several captures of one name",
        ),
    ),
    "usage": (
        _at_least("value", 0, "counters grow from 0"),
        Unique(("t_ns", "label", "source", "name"), "a counter is read once at a boundary"),
    ),
    "imported": (
        _at_least("operation", 0, "an import numbers operations from 0"),
        Unique(("producer_id", "seq"), "an import gives each record one name"),
    ),
}

CONTRACTS = {
    table: Contract(table, {**RECORDED, "imported": IMPORTED}[table], rules) for table, rules in _RULES.items()
}
