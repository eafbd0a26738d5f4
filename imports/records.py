"""What every foreign history comes down to: sends and reads, and how they become the rows of a run folder.

A record is known by its key and its value, which are unique together. In the run folder it is known by who
sent it (``producer_id``, the process) and as which of its sends (``seq``); the table ``imported`` maps back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from imports.lines import Line, json_text

Row = dict[str, Any]
NOBODY = "nobody"  # the producer of a value that was read and that no send names
TOPIC = "history"  # where a format knows no topics
NO_PARTITION = -1  # of a send that failed before anyone told its partition, and was never read


class Unnamed:
    """Stands for a value that the reader did not tell."""


@dataclass(frozen=True)
class Send:
    """One send. Sends with the same ``operation`` were written all together or not at all."""

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


@dataclass(frozen=True)
class Read:
    """One record as a reader saw it; ``completed`` if the operation that read it is known to have succeeded."""

    consumer: str
    key: Any
    offset: int
    value: Any
    completed: bool
    received_ns: int


@dataclass(frozen=True)
class History:
    """A foreign history. ``places`` maps a key's JSON to (topic, partition); ``gaps`` say what it lacks."""

    sends: Sequence[Send]
    reads: Sequence[Read]
    places: Mapping[str, tuple[str, int]]
    transactional: frozenset[str] = frozenset()  # processes that sent in transactions
    subscribed: frozenset[str] = frozenset()  # consumers that may be rebalanced without a word
    from_start: frozenset[tuple[str, str]] = frozenset()  # (key's JSON, consumer) that began at the first record
    gaps: Sequence[str] = ()


@dataclass(frozen=True)
class Tables:
    """Rows as ``history.tables`` has them, and what the manifest should say about them."""

    sends: list[Row]
    polls: list[Row]
    imported: list[Row] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)  # "topic-partition" → key as JSON
    transactional: frozenset[str] = frozenset()
    subscribed: frozenset[str] = frozenset()
    from_start: dict[str, list[str]] = field(default_factory=dict)  # "topic-partition" → consumers
    gaps: Sequence[str] = ()


def places_of(keys: Iterable[Any]) -> dict[str, tuple[str, int]]:
    """A partition for every key: keys that are all small whole numbers keep theirs, others are numbered in order."""
    found = {json_text(key): key for key in keys}
    own = all(isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 2**31 for key in found.values())
    return {text: (TOPIC, key if own else number) for number, (text, key) in enumerate(found.items())}


def tables(history: History, acks: str, isolation: str) -> Tables:
    """The rows of a run folder.

    Raises:
        BadInput: two sends have the same key and value, so that nobody could tell which of them was read.
    """
    names: dict[tuple[str, str], tuple[str, int]] = {}
    lines: dict[tuple[str, str], Line] = {}
    imported: list[Row] = []
    count: Counter[str] = Counter()

    def name(process: str, key: str, value: str, operation: int | None = None) -> tuple[str, int]:
        names[key, value] = process, count[process]
        count[process] += 1
        topic, partition = history.places[key]
        row = {"topic": topic, "partition": partition, "producer_id": process, "seq": names[key, value][1]}
        imported.append(row | {"key": key, "value": value, "operation": operation})
        return names[key, value]

    sends = []
    for send in history.sends:
        key, value = json_text(send.key), json_text(send.value)
        if (key, value) in names:
            first = lines[key, value]
            send.line.refuse(
                f"value {value} was sent to key {key} before, on line {first.number}; a key's values must be unique."
            )
        producer_id, seq = name(send.process, key, value, send.operation)
        lines[key, value] = send.line
        sends.append(_send_row(send, producer_id, seq, history.places[key], acks))
    polls = []
    position: Counter[str] = Counter()
    for read in history.reads:
        key = json_text(read.key)
        record = None
        if read.value is not Unnamed:
            value = json_text(read.value)
            record = names.get((key, value)) or name(NOBODY, key, value)
        row = _poll_row(read, record, history.places[key], position[read.consumer])
        polls.append(row | {"isolation": isolation})
        position[read.consumer] += 1
    names_of_places = {key: f"{topic}-{partition}" for key, (topic, partition) in history.places.items()}
    from_start: dict[str, list[str]] = {}
    for key, consumer in sorted(history.from_start):
        from_start.setdefault(names_of_places[key], []).append(consumer)
    return Tables(
        sends=sends,
        polls=polls,
        imported=imported,
        keys={where: key for key, where in names_of_places.items()},
        transactional=history.transactional,
        subscribed=history.subscribed,
        from_start=from_start,
        gaps=history.gaps,
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
