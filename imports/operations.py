"""Read histories of operations (docs/imports.md).

An operation without a completion is ``info``. Its micro-operations (mops) are atomic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from imports.lines import Line, Unread, json_lines, json_text
from imports.records import History, Read, Send, places_of

Type = Literal["invoke", "ok", "fail", "info"]
TYPES = get_args(Type)
DATA = ("send", "poll", "txn")
ASSIGNING = ("assign", "subscribe")
FUNCTIONS = (*DATA, *ASSIGNING, "crash")


@dataclass(frozen=True)
class Sent:
    """A send mop."""

    key: Any
    value: Any
    offset: int | None
    record_key: Any = None


@dataclass(frozen=True)
class Polled:
    """A record that a poll mop returned."""

    key: Any
    offset: int
    value: Any


@dataclass(frozen=True)
class Operation:
    """One line of the history; ``keys`` None: unknown."""

    line: Line
    index: int
    process: str
    type: Type
    f: str
    time_ns: int
    mops: tuple[Sent | Polled, ...] = ()
    keys: tuple[Any, ...] | None = None
    from_beginning: bool = False  # the assignment began at the first record
    rebalanced: tuple[Any, ...] | None = None  # keys reassigned while it ran; None: unknown
    error: str | None = None


@dataclass(frozen=True)
class Pair:
    """An operation's invocation and completion; either may be missing."""

    invoked: Operation | None
    completed: Operation | None

    @property
    def last(self) -> Operation:
        found = self.completed or self.invoked
        assert found is not None
        return found

    @property
    def outcome(self) -> Literal["ok", "fail", "info"]:
        return self.completed.type if self.completed and self.completed.type != "invoke" else "info"

    @property
    def sends(self) -> list[Sent]:
        """Return the completion's sends, and the invocation's that it omits."""
        completed = [mop for mop in self.last.mops if isinstance(mop, Sent)]
        known = {(json_text(mop.key), json_text(mop.value)) for mop in completed}
        asked = [mop for mop in (self.invoked.mops if self.invoked else ()) if isinstance(mop, Sent)]
        return completed + [mop for mop in asked if (json_text(mop.key), json_text(mop.value)) not in known]


def read(paths: Sequence[Path]) -> History:
    """Read JSON lines of operations; raise BadInput if a file cannot be read, or a line is no operation."""
    unread = Unread()
    rows = [found for path in paths for found in json_lines(path, unread)]
    return history_of((_operation(line, row) for line, row in rows), unread.gaps)


def _operation(line: Line, row: dict[str, Any]) -> Operation:
    process, kind, f = (line.field(row, name) for name in ("process", "type", "f"))
    if kind not in TYPES:
        line.refuse(f"type must be one of {', '.join(TYPES)}, not {kind!r}.")
    if f not in FUNCTIONS:
        line.refuse(f"f must be one of {', '.join(FUNCTIONS)}, not {f!r}.")
    index = line.integer(line.field(row, "index"), "index")
    operation = Operation(
        line=line,
        index=index,
        process=str(line.scalar(process, "process")),
        type=kind,
        f=f,
        time_ns=line.integer(row.get("time", index), "time"),
        rebalanced=_keys_at(line, row, "rebalanced"),
        error=None if row.get("error") is None else str(row["error"]),
    )
    if f in DATA:
        return replace(operation, mops=tuple(_mops(line, line.field(row, "mops"))))
    return replace(
        operation,
        keys=_keys_at(line, row, "keys" if "keys" in row else "mops"),
        from_beginning=row.get("from_beginning") is True,
    )


def _keys_at(line: Line, row: dict[str, Any], name: str) -> tuple[Any, ...] | None:
    keys = row.get(name)
    if keys is None:
        return None
    if not isinstance(keys, list):
        line.refuse(f"{name} must be a list of keys, not {keys!r}.")
    return tuple(line.scalar(key, "key") for key in keys)


def _mops(line: Line, mops: Any) -> Iterator[Sent | Polled]:
    if not isinstance(mops, list | None):
        line.refuse("mops must be a list.")
    for mop in mops or ():
        if not isinstance(mop, dict):
            line.refuse(f"a mop must be an object such as {{'op': 'send', …}}, not {mop!r}.")
        if (op := line.field(mop, "op")) == "send":
            key, value = (line.scalar(line.field(mop, name), name) for name in ("key", "value"))
            record_key = line.scalar(mop.get("record_key"), "record_key")
            yield Sent(key, value, line.offset(mop.get("offset")), record_key)
        elif op == "poll":
            yield from _polled(line, mop.get("records"))
        else:
            line.refuse(f"op must be send or poll, not {op!r}.")


def _polled(line: Line, records: Any) -> Iterator[Polled]:
    if not isinstance(records, list | None):
        line.refuse("the records of a poll must be a list, or null.")
    for record in records or ():
        if not isinstance(record, dict):
            line.refuse(f"a polled record must be an object with key, offset and value, not {record!r}.")
        key, value = (line.scalar(line.field(record, name), name) for name in ("key", "value"))
        offset = line.offset(line.field(record, "offset"))
        if offset is None:
            line.refuse("a polled record must have an offset.")
        yield Polled(key, offset, value)


def history_of(operations: Iterable[Operation], gaps: Sequence[str] = ()) -> History:
    """Return sends and reads, in the order of completions."""
    found = list(pairs(operations))
    sends = [send for number, pair in enumerate(found) for send in _sends(number, pair)]
    hands = _Hands(reports_rebalances=any(pair.last.rebalanced is not None for pair in found))
    reads = list(_reads(found, hands))
    keys = [key for pair in found for key in _keys(pair)]
    transactional = frozenset(pair.last.process for pair in found if pair.last.f == "txn" and pair.sends)
    places = places_of(keys)
    from_start = frozenset((key, consumer) for key, consumer in hands.from_start if key in places)
    return History(sends, reads, places, transactional, frozenset(hands.subscribed), from_start, gaps)


def pairs(operations: Iterable[Operation]) -> Iterator[Pair]:
    """Yield completions with their invocations, then uncompleted invocations."""
    open_ones: dict[str, Operation] = {}
    for operation in sorted(operations, key=lambda each: each.index):
        before = open_ones.pop(operation.process, None)
        if operation.type != "invoke":
            yield Pair(before, operation)
            continue
        if before is not None:
            yield Pair(before, None)
        open_ones[operation.process] = operation
    for operation in open_ones.values():
        yield Pair(operation, None)


def _keys(pair: Pair) -> Iterator[Any]:
    yield from (mop.key for mop in (*pair.sends, *pair.last.mops))


def _sends(number: int, pair: Pair) -> Iterator[Send]:
    sends = pair.sends
    for mop in sends:
        yield Send(
            line=pair.last.line,
            process=pair.last.process,
            key=mop.key,
            value=mop.value,
            outcome=pair.outcome,
            offset=mop.offset,
            error=pair.last.error,
            due_ns=(pair.invoked or pair.last).time_ns,
            sent_ns=pair.invoked.time_ns if pair.invoked else None,
            done_ns=pair.completed.time_ns if pair.completed else None,
            operation=number if len(sends) > 1 or pair.last.f == "txn" else None,
            record_key=mop.record_key,
        )


@dataclass
class _Hands:
    """The keys that each process reads, and as which reader: one unbroken sequence of reads."""

    reports_rebalances: bool
    turns: dict[tuple[str, str], int] = field(default_factory=dict)
    last: dict[tuple[str, str], int] = field(default_factory=dict)  # the last offset of a reader's sequence
    modes: dict[str, str] = field(default_factory=dict)
    subscribed: set[str] = field(default_factory=set)
    from_start: set[tuple[str, str]] = field(default_factory=set)

    def held(self, process: str) -> list[str]:
        return [key for each, key in self.turns if each == process]

    def begin_anew(self, process: str, keys: Iterable[str]) -> None:
        for key in keys:
            if (process, key) in self.turns:
                self.turns[process, key] += 1
                self.last.pop((process, key), None)

    def consumer(self, process: str, key: str, offset: int) -> str:
        """A group may move a subscribed consumer ahead: unless rebalances are reported, a step ahead begins a new
        reader.
        """
        at = process, key
        subscribes = self.modes.get(process) == "subscribe"
        if subscribes and not self.reports_rebalances and offset > self.last.get(at, offset) + 1:
            self.begin_anew(process, [key])
        turn = self.turns.setdefault(at, 0)
        self.last[at] = offset
        name = f"{process}~{turn}" if turn else process
        if subscribes:
            self.subscribed.add(name)
        return name


def _reads(found: Sequence[Pair], hands: _Hands) -> Iterator[Read]:
    """Begin another consumer after a key was lost, or after a failed poll, which may have gone any distance."""
    for pair in found:
        last = pair.last
        rebalanced = [json_text(key) for key in last.rebalanced or ()]
        hands.begin_anew(last.process, hands.held(last.process) if last.f == "crash" else rebalanced)
        if last.f in ASSIGNING:
            hands.modes[last.process] = last.f
            hands.begin_anew(last.process, _given_up(pair, hands.held(last.process)))
            for key in _sent_back(pair):
                turn = hands.turns.setdefault((last.process, key), 0)
                hands.from_start.add((key, f"{last.process}~{turn}" if turn else last.process))
        for mop in last.mops:
            if isinstance(mop, Polled):
                consumer = hands.consumer(last.process, json_text(mop.key), mop.offset)
                yield Read(consumer, mop.key, mop.offset, mop.value, pair.outcome == "ok", last.time_ns)
        lost_track = pair.outcome != "ok" and last.f in ("poll", "txn")
        hands.begin_anew(last.process, hands.held(last.process) if lost_track else rebalanced)


def _said(pair: Pair) -> list[Operation]:
    return [each for each in (pair.completed, pair.invoked) if each is not None]


def _keys_of(pair: Pair) -> set[str]:
    keys = next((each.keys for each in _said(pair) if each.keys is not None), ())
    return {json_text(key) for key in keys}


def _given_up(pair: Pair, held: Iterable[str]) -> list[str]:
    kept = set() if any(each.from_beginning for each in _said(pair)) else _keys_of(pair)
    return [key for key in held if key not in kept]


def _sent_back(pair: Pair) -> set[str]:
    """A subscription is not known to have reset any key."""
    put_back = pair.last.f == "assign" and pair.outcome == "ok" and any(each.from_beginning for each in _said(pair))
    return _keys_of(pair) if put_back else set()
