"""The common form of foreign histories, and its conversion into a run folder's rows.

Key and value identify a record, ``producer_id`` (its process) and ``seq`` (its number) in the run folder; the table
``imported`` maps back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from history.kafka_settings import unknown_setting
from imports.lines import Line, json_text

Row = dict[str, Any]
Record = tuple[str, str, int | None]  # key and value as JSON; the offset if there are several tombstones
NOBODY = "nobody"  # of values that were read but not sent
TOPIC = "history"  # for formats without topics
NO_PARTITION = -1  # of a failed send without a known partition


class Unnamed:
    """Marks a value that the reader did not report."""


@dataclass(frozen=True)
class Send:
    """One send; those of one ``operation`` were written all together or not at all."""

    line: Line
    process: str
    key: Any
    value: Any
    outcome: Literal["ok", "fail", "info"]
    offset: int | None
    error: str | None
    due_ns: int
    sent_ns: int | None
    done_ns: int | None
    operation: int | None = None
    record_key: Any = None  # in Kafka; None: unknown


@dataclass(frozen=True)
class Read:
    """One record that a reader returned; ``completed``: its operation succeeded."""

    consumer: str
    key: Any
    offset: int
    value: Any
    completed: bool
    received_ns: int


@dataclass(frozen=True)
class History:
    """A foreign history.

    ``places`` maps a key's JSON to (topic, partition). ``gaps`` are sentences on missing data, ``notes`` on lines that
    lose nothing.
    """

    sends: Sequence[Send]
    reads: Sequence[Read]
    places: Mapping[str, tuple[str, int]]
    transactional: frozenset[str] = frozenset()  # processes that sent in transactions
    subscribed: frozenset[str] = frozenset()  # consumers that may be rebalanced without notice
    from_start: frozenset[tuple[str, str]] = frozenset()  # (key's JSON, consumer)
    gaps: Sequence[str] = ()
    notes: Sequence[str] = ()
    numbering: str = "number them"  # how to make values unique, for messages


@dataclass(frozen=True)
class Declared:
    """A topic's settings; the records of a ``deleted`` topic need not survive."""

    config: Mapping[str, str] = field(default_factory=dict)
    deleted: bool = False


@dataclass(frozen=True)
class Tables:
    """Rows as in ``history.tables``, and their part of the manifest."""

    sends: list[Row]
    polls: list[Row]
    imported: list[Row] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)  # "topic-partition" → key as JSON
    transactional: frozenset[str] = frozenset()
    subscribed: frozenset[str] = frozenset()
    from_start: dict[str, list[str]] = field(default_factory=dict)  # "topic-partition" → consumers
    gaps: Sequence[str] = ()
    notes: Sequence[str] = ()
    topics: Mapping[str, Declared] = field(default_factory=dict)


def places_of(keys: Iterable[Any]) -> dict[str, tuple[str, int]]:
    """Return a key's partition: itself, if all are small whole numbers, else its place."""
    found = {json_text(key): key for key in keys}
    own = all(isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 2**31 for key in found.values())
    return {text: (TOPIC, key if own else number) for number, (text, key) in enumerate(found.items())}


class _Named:
    """The records of a history by name; sends are named first."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.names: dict[Record, tuple[str, int]] = {}
        self.imported: list[Row] = []
        self._lines: dict[Record, Line] = {}
        self._count: Counter[str] = Counter()
        self._tombstones = Counter(json_text(send.key) for send in history.sends if send.value is None)
        self._unplaced: set[str] = set()  # keys with a tombstone of unknown offset

    def send(self, send: Send, number: int) -> tuple[str, int]:
        """Name a send; raise BadInput if another has its key and value."""
        key = json_text(send.key)
        record = self._record(key, send.value, send.offset)
        if self._several(key, send.value) and send.offset is None:
            self._unplaced.add(key)
            record = key, record[1], -1 - number
        elif record in self.names:
            _refuse_second(send, record, self._lines[record], self.history.numbering)
        self._lines[record] = send.line
        return self._name(send.process, record, send.operation, send.record_key)

    def read(self, read: Read) -> tuple[str, int] | None:
        """Return the name of a record that was read, if its value is known."""
        key = json_text(read.key)
        if read.value is Unnamed:
            return None
        record = self._record(key, read.value, read.offset)
        if record not in self.names and not (read.value is None and key in self._unplaced):
            return self._name(NOBODY, record)
        return self.names.get(record)

    def _several(self, key: str, value: Any) -> bool:
        return value is None and self._tombstones[key] > 1

    def _record(self, key: str, value: Any, offset: int | None) -> Record:
        return key, json_text(value), offset if self._several(key, value) else None

    def _name(
        self, process: str, record: Record, operation: int | None = None, record_key: Any = None
    ) -> tuple[str, int]:
        key, value, _ = record
        name = self.names[record] = process, self._count[process]
        self._count[process] += 1
        topic, partition = self.history.places[key]
        row = {"topic": topic, "partition": partition, "producer_id": process, "seq": name[1]}
        written_key = None if record_key is None else json_text(record_key)
        self.imported.append(row | {"key": key, "value": value, "operation": operation, "record_key": written_key})
        return name


def tables(history: History, acks: str, isolation: str) -> Tables:
    """Return the rows of a run folder; raise BadInput if two sends have the same key and value."""
    named, places = _Named(history), history.places
    sends = [
        _send_row(send, *named.send(send, number), places[json_text(send.key)], acks)
        for number, send in enumerate(history.sends)
    ]
    polls, position = [], Counter[str]()
    for read in history.reads:
        row = _poll_row(read, named.read(read), places[json_text(read.key)], position[read.consumer])
        polls.append(row | {"isolation": isolation})
        position[read.consumer] += 1
    partitions = {key: f"{topic}-{partition}" for key, (topic, partition) in places.items()}
    from_start: dict[str, list[str]] = {}
    for key, consumer in sorted(history.from_start):
        from_start.setdefault(partitions[key], []).append(consumer)
    return Tables(
        sends=sends,
        polls=polls,
        imported=named.imported,
        keys={partition: key for key, partition in partitions.items()},
        transactional=history.transactional,
        subscribed=history.subscribed,
        from_start=from_start,
        gaps=history.gaps,
        notes=history.notes,
    )


def topic_setting_refused(name: str, value: str) -> str | None:
    """Return why a topic cannot have a setting, or None."""
    if why := unknown_setting("topic", name, remedy="leave it out"):
        return f"{why}."
    policies = [each.strip() for each in value.split(",")]
    if name == "cleanup.policy" and not set(policies) <= {"delete", "compact"}:
        return f"cleanup.policy must be delete, compact or both, not {value!r}."
    if name in ("retention.ms", "retention.bytes", "delete.retention.ms") and not re.fullmatch(r"-?\d{1,18}", value):
        return f"{name} must be a whole number, not {value!r}."
    return None


def _refuse_second(send: Send, record: Record, first: Line, numbering: str) -> NoReturn:
    key, value, offset = record
    at = f" and acknowledged at offset {offset}" if offset is not None else ""
    send.line.refuse(
        f"value {value} was sent to key {key}{at} before, on {first.seen_from(send.line)}; a key's values must be "
        f"unique: {numbering}."
    )


def _send_row(send: Send, producer_id: str, seq: int, place: tuple[str, int], acks: str) -> Row:
    return {
        "producer_id": producer_id,
        "seq": seq,
        "topic": place[0],
        "partition": place[1],
        "due_ns": send.due_ns,
        "sent_ns": send.sent_ns,
        "done_ns": send.done_ns,
        "outcome": send.outcome,
        "error": send.error,
        "offset": send.offset,
        "acks": acks,
        "record_bytes": 0,
    }


def _poll_row(read: Read, record: tuple[str, int] | None, place: tuple[str, int], position: int) -> Row:
    producer_id, seq = record or (None, None)
    return {
        "consumer_id": read.consumer,
        "pass": "live" if read.completed else "incomplete",
        "position": position,
        "topic": place[0],
        "partition": place[1],
        "offset": read.offset,
        "leader_epoch": None,
        "producer_id": producer_id,
        "seq": seq,
        "checksum_ok": True,
        "received_ns": read.received_ns,
    }
