"""The contracts of the recorded tables, in addition to the schemas of ``history.tables``.

A rule is what our recorder or import guarantees whatever Kafka does. One that also depends on Kafka has severity
``warning``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from history.tables import IMPORTED, LATER, RECORDED

Severity = Literal["critical", "warning"]

ACKNOWLEDGED = ["outcome", "==", "ok"]
ANSWERED, SILENT = ["error", "is null"], ["error", "is not null"]


@dataclass(frozen=True)
class OneOf:
    """A column has only these values, or null."""

    column: str
    values: tuple[str, ...]
    why: str
    severity: Severity = "critical"


@dataclass(frozen=True)
class AtLeast:
    """No value of a column is below a minimum."""

    column: str
    minimum: int
    why: str
    severity: Severity = "critical"


@dataclass(frozen=True)
class InOrder:
    """In each row that has both, ``later`` is not below ``earlier``."""

    earlier: str
    later: str
    why: str
    severity: Severity = "critical"


@dataclass(frozen=True)
class Unique:
    """No two rows have equal values in all these columns."""

    columns: tuple[str, ...]
    why: str
    severity: Severity = "critical"


@dataclass(frozen=True)
class Never:
    """No row satisfies all these terms."""

    where: tuple[Sequence[Any], ...]
    what: str
    why: str
    severity: Severity = "critical"


Rule = OneOf | AtLeast | InOrder | Unique | Never


@dataclass(frozen=True)
class Contract:
    """A recorded table's rules."""

    table: str
    schema: pa.Schema
    rules: tuple[Rule, ...]

    @property
    def types(self) -> dict[str, str]:
        return {field.name: str(field.type).replace("item: ", "").replace("element: ", "") for field in self.schema}

    @property
    def required(self) -> list[str]:
        return [field.name for field in self.schema if not field.nullable]

    @property
    def optional(self) -> list[str]:
        """Return the columns that older run folders lack."""
        return sorted(LATER & set(self.schema.names))


_PROBE = (
    InOrder("sent_ns", "received_ns", "one clock takes both times, the answer's after the request's"),
    Never(
        (ANSWERED, ["high_watermark", "is null"]), "an answer without a high watermark", "a probe without error has one"
    ),
    Never(
        (ANSWERED, ["log_end_offset", "is null"]), "an answer without a log end offset", "a probe without error has one"
    ),
    Never((SILENT, ["high_watermark", "is not null"]), "an error with a high watermark", "an error has no values"),
    Never((SILENT, ["log_end_offset", "is not null"]), "an error with a log end offset", "an error has no values"),
    Never(
        (["single_reply", "==", True], ["high_watermark", ">", {"column": "log_end_offset"}]),
        "a high watermark beyond the log end offset within one reply",
        "I2 judges it, with the exceptions that Kafka has; here it is only shown",
        severity="warning",
    ),
)

_RULES: Mapping[str, tuple[Rule, ...]] = {
    "sends": (
        OneOf("outcome", ("ok", "fail", "info"), "every send ends as one of these"),
        OneOf("acks", ("0", "1", "all"), "Kafka's setting has no other values"),
        AtLeast("seq", 0, "a producer counts its sends from 0"),
        AtLeast("transaction", 0, "a producer counts its transactions from 0"),
        Unique(("producer_id", "seq"), "a producer numbers each send once: a record is known by both"),
        InOrder("sent_ns", "done_ns", "one clock takes both times, and an answer follows its send"),
        Never((ACKNOWLEDGED, ["error", "is not null"]), "an acknowledged send with an error", "ok has no error"),
        Never(
            (ACKNOWLEDGED, ["done_ns", "is null"]),
            "an acknowledged send without the time of its answer",
            "the answer is what makes it ok",
        ),
        Never(
            (["partition", "<", 0], ACKNOWLEDGED),
            "an acknowledged send to a partition below 0",
            "only an import has -1, for a send whose partition nobody ever named",
        ),
    ),
    "polls": (
        OneOf("pass", ("live", "final", "incomplete"), "a reader is one of these"),
        OneOf("isolation", ("read_uncommitted", "read_committed"), "Kafka's setting has no other values"),
        AtLeast("position", 0, "a consumer counts its records from 0"),
        AtLeast("offset", 0, "a log begins at 0 or later"),
        Never(
            (["producer_id", "is null"], ["seq", "is not null"]),
            "a number without a producer",
            "a value that is one of ours has both",
        ),
        Never(
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
        OneOf("pass", ("live", "final"), "only our own readers write seeks"),
        AtLeast("position", 0, "a consumer counts its records from 0"),
        AtLeast("from_offset", 0, "a position is an offset"),
        AtLeast("to_offset", 0, "a position is an offset"),
    ),
    "group_reads": (
        AtLeast("first_offset", 0, "a log begins at 0 or later"),
        InOrder("first_offset", "last_offset", "a stretch has a record, and offsets go up in it"),
    ),
    "rebalances": (OneOf("change", ("assigned", "revoked", "lost"), "libraries report only these changes to members"),),
    "commits": (
        AtLeast("number", 0, "a member counts its commits from 0"),
        AtLeast("offset", 0, "a log begins at 0 or later"),
        InOrder("asked_ns", "answered_ns", "one clock takes both times, and an answer follows its question"),
        Never(
            (["answered_ns", "is null"], ["error", "is not null"]),
            "an error without the time of its answer",
            "the row written when a commit is requested has neither",
        ),
    ),
    "share_reads": (
        AtLeast("first_offset", 0, "a log begins at 0 or later"),
        InOrder("first_offset", "last_offset", "a stretch has a record, and offsets go up in it"),
        AtLeast("delivery_count", 0, "a count is not negative"),
        InOrder("since_ns", "received_ns", "one clock takes both times, and a poll follows those before"),
    ),
    "share_acks": (
        AtLeast("first_offset", 0, "a log begins at 0 or later"),
        InOrder("first_offset", "last_offset", "a stretch has a record, and offsets go up in it"),
        OneOf("kind", ("accept", "release"), "our members acknowledge in no other way"),
        Never(
            (["answered_ns", "is null"], ["error", "is not null"]),
            "an error without the time of its answer",
            "the row written when it is requested has neither",
        ),
    ),
    "positions": (
        AtLeast("position", 0, "a log begins at 0 or later"),
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
        OneOf("source", ("metadata",), "the only source that is recorded while a run goes on"),
        InOrder("sent_ns", "received_ns", "one clock takes both times, the answer's after the request's"),
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
        AtLeast("value", 0, "counters grow from 0"),
        Unique(("t_ns", "label", "source", "name"), "a counter is read once at a boundary"),
    ),
    "imported": (
        AtLeast("operation", 0, "an import numbers operations from 0"),
        Unique(("producer_id", "seq"), "an import gives each record one name"),
    ),
}

CONTRACTS = {
    table: Contract(table, {**RECORDED, "imported": IMPORTED}[table], rules) for table, rules in _RULES.items()
}
