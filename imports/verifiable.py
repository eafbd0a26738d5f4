"""Read the JSON lines of Kafka's VerifiableProducer and VerifiableConsumer.

A send error shows neither whether the record was written nor its partition. The consumer reports values only with
``--verbose``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from history.verifiable import COUNTS, FAILED, NUMBER, SENT
from imports.lines import Line, Unread, json_lines, json_text
from imports.records import NO_PARTITION, History, Read, Send, Unnamed

_NS_PER_MS = 1_000_000
MAX_RANGE = 1 << 24  # offsets per batch: limits the memory that a line can claim
Place = tuple[str, int]
Row = Mapping[str, Any]


@dataclass
class _Tool:
    """The events of one file."""

    name: str
    acked: list[tuple[Line, Row]] = field(default_factory=list)
    errors: list[tuple[Line, Row]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    ranges: list[Read] = field(default_factory=list)
    turns: dict[Place, int] = field(default_factory=dict)
    reading: set[Place] = field(default_factory=set)  # read by the current reader
    claimed: int | None = None
    ended: bool = False
    torn: list[Line] = field(default_factory=list)
    unread: Unread = field(default_factory=Unread)

    def begin_anew(self, places: Iterable[Place]) -> None:
        for place in self.reading.intersection(places):
            self.turns[place] += 1
            self.reading.remove(place)

    def consumer(self, place: Place) -> str:
        turn = self.turns.setdefault(place, 0)
        self.reading.add(place)
        return f"consumer-{self.name}~{turn}" if turn else f"consumer-{self.name}"


def read(paths: Sequence[Path]) -> History:
    """Read the output of producers and consumers.

    Raises:
        BadInput: a file cannot be read, or an event lacks a field.
    """
    unread = Unread()
    tools = [_read(_Tool(str(number), unread=unread), path) for number, path in enumerate(paths, start=1)]
    reads = [read for tool in tools for read in (tool.reads or tool.ranges)]
    read_at = {(_topic(each.key), json_text(each.value)): each.key for each in reads if each.value is not Unnamed}
    sends = [send for tool in tools for send in _sends(tool, read_at)]
    sends += _untold(tools, sends, reads)
    keys = {send.key for send in sends} | {each.key for each in reads}
    unread.gaps += [gap for tool in tools for gap in _claims(tool)]
    places = {json_text(key): _place(key) for key in sorted(keys)}
    subscribed = frozenset(each.consumer for each in reads)
    return History(
        sends,
        reads,
        places,
        subscribed=subscribed,
        gaps=unread.gaps,
        notes=unread.notes,
        numbering="start each VerifiableProducer with another --value-prefix",
    )


def _read(tool: _Tool, path: Path) -> _Tool:
    before = tool.unread.torn.copy()
    for line, row in json_lines(path, tool.unread, with_log_lines=True):
        if len(tool.unread.torn) > len(before) + len(tool.torn):
            tool.torn = tool.unread.torn[len(before) :]
            tool.begin_anew(tool.turns)  # the torn event may be a read
        event = line.field(row, "name")
        if not isinstance(event, str):
            line.refuse(f"name must be a string, not {event!r}.")
        if handle := _EVENTS.get(event):
            handle(tool, line, row)
    tool.torn = tool.unread.torn[len(before) :]
    return tool


def _success(tool: _Tool, line: Line, row: Row) -> None:
    _partition(line, row)
    line.field(row, "value")
    line.field(row, "offset")
    tool.acked.append((line, row))


def _error(tool: _Tool, line: Line, row: Row) -> None:
    line.field(row, "topic")
    line.field(row, "value")
    tool.errors.append((line, row))


def _record(tool: _Tool, line: Line, row: Row) -> None:
    place = _partition(line, row)
    offset = line.offset(line.field(row, "offset"))
    if offset is None:
        line.refuse("a record that was read must have an offset.")
    value = line.scalar(line.field(row, "value"), "value")
    tool.reads.append(Read(tool.consumer(place), _key(*place), offset, value, True, _time(line, row)))


def _consumed(tool: _Tool, line: Line, row: Row) -> None:
    """The offsets are known only if the batch has no gap."""
    for part in _parts(line, row, "partitions"):
        place = _partition(line, part)
        first, last = (line.offset(line.field(part, name)) for name in ("minOffset", "maxOffset"))
        count = line.integer(line.field(part, "count"), "count")
        if first is None or last is None or count == 0:
            continue
        if not 0 <= last - first < MAX_RANGE:
            line.refuse(f"a batch from offset {first} to {last} is none; maxOffset is too small, or too large.")
        offsets = range(first, last + 1)
        if len(offsets) != count:
            tool.unread.gaps.append(
                f"{_key(*place)}: {count} records were read between the offsets {first} and {last}; "
                "their offsets were not reported."
            )
            offsets = range(0)
        time_ns = _time(line, row)
        tool.ranges += [Read(tool.consumer(place), _key(*place), offset, Unnamed, True, time_ns) for offset in offsets]


def _moved(tool: _Tool, line: Line, row: Row) -> None:
    """The group decides where a new reader starts."""
    tool.begin_anew([_partition(line, part) for part in _parts(line, row, "partitions")])


def _started(tool: _Tool, _line: Line, _row: Row) -> None:
    tool.begin_anew(tool.turns)


def _tool_data(tool: _Tool, line: Line, row: Row) -> None:
    tool.claimed = line.integer(line.field(row, "acked"), "acked")


def _shutdown(tool: _Tool, _line: Line, _row: Row) -> None:
    tool.ended = True


_EVENTS = {
    SENT: _success,
    FAILED: _error,
    "record_data": _record,
    "records_consumed": _consumed,
    "startup_complete": _started,
    "partitions_assigned": _moved,
    "partitions_revoked": _moved,
    COUNTS: _tool_data,
    "shutdown_complete": _shutdown,
}


def _parts(line: Line, row: Row, name: str) -> Iterator[Row]:
    parts = line.field(row, name)
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        line.refuse(f"{name} must be a list of objects.")
    yield from parts


def _partition(line: Line, row: Row) -> Place:
    topic, partition = line.field(row, "topic"), line.integer(line.field(row, "partition"), "partition")
    if not isinstance(topic, str) or not 0 <= partition < 2**31:
        line.refuse(f"topic must be a string and partition not negative, not {topic!r} and {partition}.")
    return topic, partition


def _time(line: Line, row: Row) -> int:
    time_ms = row.get("timestamp", row.get("time_ms", 0))  # Kafka's tools, and older compatible tools
    return line.integer(line.integer(time_ms, "timestamp") * _NS_PER_MS, "timestamp, in nanoseconds,")


def _key(topic: str, partition: int) -> str:
    return f"{topic}-{partition}" if partition != NO_PARTITION else f"{topic}-?"


def _topic(key: str) -> str:
    return key.rpartition("-")[0]


def _place(key: str) -> Place:
    topic, _, partition = key.rpartition("-")
    return topic, NO_PARTITION if partition == "?" else int(partition)


def _sends(tool: _Tool, read_at: Mapping[tuple[str, str], str]) -> Iterator[Send]:
    for line, row in tool.acked:
        yield _send(tool, line, row, _key(*_partition(line, row)), offset=line.offset(row["offset"]))
    for line, row in tool.errors:
        topic = str(row["topic"])
        key = read_at.get((topic, json_text(row["value"])), _key(topic, NO_PARTITION))
        yield _send(tool, line, row, key, error=str(row.get("message") or row.get("exception") or "no error named"))


def _send(tool: _Tool, line: Line, row: Row, key: str, *, offset: int | None = None, error: str | None = None) -> Send:
    return Send(
        line=line,
        process=f"producer-{tool.name}",
        key=key,
        value=line.scalar(row["value"], "value"),
        record_key=line.scalar(row.get("key"), "key"),
        outcome="ok" if error is None else "info",
        offset=offset,
        error=error,
        due_ns=_time(line, row),
        sent_ns=None,
        done_ns=_time(line, row),
    )


def _claims(tool: _Tool) -> Iterator[str]:
    if tool.claimed is not None and tool.claimed != len(tool.acked):
        yield f"A producer says that {tool.claimed} of its records were acknowledged, and lists {len(tool.acked)}."


def _untold(tools: Iterable[_Tool], sends: Sequence[Send], reads: Sequence[Read]) -> list[Send]:
    """A read record without a reported send becomes an indeterminate one."""
    known = {(_topic(send.key), json_text(send.value)) for send in sends}
    found: dict[tuple[str, str], Send] = {}
    for tool in tools:
        lines = [line for line, _ in (*tool.acked, *tool.errors)] or tool.torn
        last = _last_numbers(tool)
        for each in reads:
            if each.value is Unnamed or not _may_have_sent(tool, last, each):
                continue
            name = _topic(each.key), json_text(each.value)
            if name not in known | found.keys():
                row = {"value": each.value, "timestamp": each.received_ns // _NS_PER_MS}
                why = "a line of its output is torn" if tool.torn else "the producer ended before its report"
                found[name] = _send(tool, lines[-1], row, each.key, error=why)
    return list(found.values())


def _last_numbers(tool: _Tool) -> dict[tuple[str, str | None], int]:
    last: dict[tuple[str, str | None], int] = {}
    for _, row in (*tool.acked, *tool.errors):
        if match := NUMBER.fullmatch(str(row["value"])):
            of = row["topic"], match[1]
            last[of] = max(last.get(of, -1), int(match[2]))
    return last


def _may_have_sent(tool: _Tool, last: Mapping[tuple[str, str | None], int], read: Read) -> bool:
    """Return whether a record may be a send that a producer did not report.

    A killed producer numbers it beyond its last reported one; with a torn line, any number; with only torn lines, any
    producer.
    """
    if not (tool.acked or tool.errors):
        return bool(tool.torn) and not (tool.reads or tool.ranges)
    match = NUMBER.fullmatch(str(read.value))
    reported = last.get((_topic(read.key), match[1])) if match else None
    if match is None or reported is None:
        return False
    return bool(tool.torn) or (not tool.ended and int(match[2]) > reported)
