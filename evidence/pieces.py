"""What is left of a large partition's records where all sources agree: two records of each plain range, and sums.

Each record of a plain range has one acknowledged send, and drain, readers and logs show it alike. Checks find something
among its inner records only if other rows contradict them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evidence.columns import (
    ACKS_0,
    ACKS_ALL,
    FINAL,
    INCOMPLETE,
    NULL,
    OK,
    Bools,
    Ints,
    Log,
    Names,
    Polls,
    Seeks,
    Sends,
    groups,
    joined,
    positions_in,
    producer_of,
    seq_of,
    smallest,
)
from evidence.reader import ENDLESS
from expectations.tallies import Tallies

_MIN_RECORDS = 64  # shorter runs are not worth their sums
_MOST_SOURCES = 62  # bits of an integer


class PlainRange(NamedTuple):
    """The inner records of a run of offsets from ``first`` to ``last``.

    By producer its least and greatest ``numbers`` and the offset of the latter; by (consumer, pass) the ``positions``
    at which the records before and after it were read. ``known_ns``: when the first was known to be written, and the
    last was acknowledged. ``sums`` are the judge's.
    """

    first: int
    last: int
    records: int
    acks_all: int
    reads: int
    drained: bool
    sent_ns: tuple[int, int]
    known_ns: tuple[int, int]
    numbers: Mapping[str, tuple[int, int, int]]
    positions: Mapping[tuple[str, int], tuple[int, int]]
    logs: frozenset[int]
    sums: Any = None

    @property
    def times(self) -> tuple[int, ...]:
        return self.sent_ns + self.known_ns


@dataclass
class Piece:
    """One offset range of a partition.

    ``rows`` are those outside of plain ranges, by table (a log's: its broker id). ``again`` are offsets (from, until)
    whose rows are read again. ``last_offsets``: by broker and segment, of readable batches.
    """

    rows: dict[str | int, pa.Table] = field(default_factory=dict)
    plain: list[PlainRange] = field(default_factory=list)
    again: list[tuple[int, int]] = field(default_factory=list)
    last_offsets: dict[int, dict[int, int]] = field(default_factory=dict)
    tallies: Tallies = field(default_factory=Tallies)


class Rows(NamedTuple):
    """Rows of the same offsets in all sources."""

    sends: Sends
    polls: Polls
    logs: Mapping[int, Log]


class Alike:
    """Finds the plain ranges of some offsets, at least one of them a send's."""

    def __init__(self, rows: Rows, deleted_before: int) -> None:
        self.rows = rows
        self.offsets = _distinct([rows.sends.offset, rows.polls.offset, *(log.offset for log in rows.logs.values())])
        size = self.offsets.size
        self._broken, self._breaks = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        self._sources, self._known = np.zeros(size, dtype=np.int64), 0
        self._drained = np.zeros(size, dtype=np.bool_)
        self._add_sends()
        for (_, pass_), of_reader in groups(rows.polls.consumer, rows.polls.pass_.astype(np.int32)):
            self._add_reads(pass_, of_reader)
        for log in rows.logs.values():
            self._add(log.offset, log.value, log.damaged)
        self._broken |= ~self._drained & (self.offsets >= deleted_before)
        self._check_order()

    def _add_sends(self) -> None:
        sends, size = self.rows.sends, self.offsets.size
        placed = np.flatnonzero(sends.offset >= 0)
        at = np.searchsorted(self.offsets, sends.offset[placed])
        self.send = np.zeros(size, dtype=np.int64)
        self.send[at] = placed
        self._broken |= np.bincount(at, minlength=size) != 1
        good = (sends.outcome == OK) & (sends.acks != ACKS_0) & (sends.value >= 0) & (sends.transaction == NULL)
        good &= (sends.sent_ns != NULL) & (sends.done_ns != NULL)
        self._broken |= ~good[self.send]
        self.value = np.where(self._broken, -1, sends.value[self.send])
        acked = placed[(sends.outcome[placed] == OK) & (sends.done_ns[placed] != NULL)]
        self.known_ns = smallest(np.searchsorted(self.offsets, sends.offset[acked]), sends.done_ns[acked], size)

    def _add_reads(self, pass_: int, rows: Ints) -> None:
        polls = self.rows.polls
        rows = rows[polls.offset[rows] >= 0]
        rows = rows[np.argsort(polls.offset[rows], kind="stable")]
        at = self._add(polls.offset[rows], polls.value[rows], polls.damaged[rows])
        has = np.zeros(self.offsets.size, dtype=np.bool_)
        has[at] = True
        if pass_ == FINAL:
            self._broken |= self._drained & has
            self._drained |= has
        elif pass_ == INCOMPLETE:
            self._broken |= has
        self._broken[at[(polls.received_ns[rows] == NULL) | (polls.consumer[rows] < 0)]] = True
        self._breaks[at[1:][np.diff(polls.committed_only[rows].astype(np.int8)) != 0]] = True
        np.minimum.at(self.known_ns, at, polls.received_ns[rows])
        for column, least in ((polls.position, 1), (polls.received_ns, 0), (polls.leader_epoch, 0)):
            falls = np.flatnonzero(np.diff(column[rows]) < least) + 1
            self._breaks[at[falls]] = True

    def _add(self, offsets: Ints, values: Ints, damaged: Bools) -> Ints:
        """Add a source, which shows each offset at most once and with its send's value; return the offsets' places."""
        at = np.searchsorted(self.offsets, offsets)
        shown = np.bincount(at, minlength=self.offsets.size)
        self._broken |= shown > 1
        self._broken[at[(values != self.value[at]) | damaged]] = True
        if self._known >= _MOST_SOURCES:
            self._broken[:] = True
            return at
        self._sources |= (shown > 0).astype(np.int64) << self._known
        self._known += 1
        return at

    def _check_order(self) -> None:
        """Break where a producer's numbers do not rise, or a higher offset was known before the send."""
        sound = np.flatnonzero(~self._broken)
        for _, own in groups(producer_of(self.value[sound])):
            rows = sound[own]
            number = self.value[rows]
            before = np.concatenate([[-1], np.maximum.accumulate(number)[:-1]])
            after = np.concatenate([np.minimum.accumulate(number[::-1])[::-1][1:], [ENDLESS]])
            self._broken[rows[(number <= before) | (number >= after)]] = True
        known_later = np.minimum.accumulate(self.known_ns[::-1])[::-1]
        self._broken |= self.rows.sends.sent_ns[self.send] > known_later
        self._breaks[1:] |= self._sources[1:] != self._sources[:-1]

    def runs(self) -> Iterator[slice]:
        """Yield the inner places of each plain range."""
        good = ~self._broken
        begins = good & self._breaks
        begins[1:] |= good[1:] & ~good[:-1]
        begins[:1] |= good[:1]
        ends = np.append(begins[1:] | ~good[1:], True) & good
        for begin, end in zip(np.flatnonzero(begins).tolist(), np.flatnonzero(ends).tolist(), strict=True):
            if end - begin >= _MIN_RECORDS:
                yield slice(begin + 1, end)

    def plain_range(self, run: slice, polls: Polls, names: Names) -> tuple[PlainRange, Sends]:
        """Return a plain range and its sends; ``polls`` are all reads from the record before it to the one after it."""
        sends = self.rows.sends.take(self.send[run])
        bits = int(self._sources[run.start])
        logs = [*self.rows.logs]
        first_log = self._known - len(logs)
        numbers = {
            names.listed[code]: (int(seq[0]), int(seq[-1]), int(sends.offset[rows[-1]]))
            for (code,), rows in groups(producer_of(sends.value))
            for seq in [seq_of(sends.value[rows])]
        }
        positions = {
            (names.listed[consumer], pass_): (int(polls.position[rows].min()), int(polls.position[rows].max()))
            for (consumer, pass_), rows in groups(polls.consumer, polls.pass_.astype(np.int32))
        }
        return PlainRange(
            first=int(self.offsets[run][0]),
            last=int(self.offsets[run][-1]),
            records=len(sends),
            acks_all=int((sends.acks == ACKS_ALL).sum()),
            reads=int(((polls.offset >= self.offsets[run][0]) & (polls.offset <= self.offsets[run][-1])).sum()),
            drained=bool(self._drained[run.start]),
            sent_ns=(int(sends.sent_ns.min()), int(sends.sent_ns.max())),
            known_ns=(int(self.known_ns[run].min()), int(sends.done_ns.max())),
            numbers=numbers,
            positions=positions,
            logs=frozenset(broker for at, broker in enumerate(logs, first_log) if bits >> at & 1),
        ), sends


def _distinct(columns: Sequence[Ints]) -> Ints:
    """Return the distinct offsets; most are in each column."""
    found = np.unique(columns[0][columns[0] >= 0])
    for column in columns[1:]:
        more = column[(column >= 0) & (positions_in(found, column) < 0)]
        found = np.union1d(found, more) if more.size else found
    return found


class Judging(NamedTuple):
    """What decides whether a range may stay: the rows outside of all plain ranges, and what checks compare them with.

    ``floors``: by broker, the offset from which its log must have all records; ``ends``: to which it was read.
    ``edges``: offsets at which a check begins or ends. ``short_ns``: times below min.insync.replicas.
    """

    rows: Rows
    seeks: Seeks
    names: Names
    floors: Mapping[int, int]
    ends: Mapping[int, int]
    edges: Sequence[int]
    short_ns: Sequence[tuple[int, int]]

    @property
    def readers(self) -> set[tuple[str, int]]:
        polls = self.rows.polls
        found = np.unique(np.stack([polls.consumer, polls.pass_]), axis=1).T.tolist()
        return {(self.names.listed[consumer], pass_) for consumer, pass_ in found if consumer >= 0}


def contradicted(plain: Sequence[PlainRange], of: Judging) -> list[PlainRange]:
    """Return the plain ranges that other rows, or each other, contradict."""
    if not plain:
        return []
    found = _Contradictions(plain, of)
    found.mark_unchecked()
    found.mark_overtaken()
    for name in {name for each in plain for name in each.numbers}:
        found.mark_numbers(name)
    for consumer, pass_ in of.readers | {reader for each in plain for reader in each.positions}:
        found.mark_reads(consumer, pass_)
    return [each for each, out in zip(plain, found.wrong.tolist(), strict=True) if out]


class _Contradictions:
    """Marks plain ranges as ``wrong``."""

    def __init__(self, plain: Sequence[PlainRange], of: Judging) -> None:
        self._plain, self._of = plain, of
        self._first = np.array([each.first for each in plain], dtype=np.int64)
        self._last = np.array([each.last for each in plain], dtype=np.int64)
        self.wrong = np.zeros(len(plain), dtype=np.bool_)

    def mark_unchecked(self) -> None:
        """Mark plain ranges in which a check of the logs begins, that a log lacks, or that met a short ISR."""
        of = self._of
        edges = [*of.edges, *of.floors.values()]
        for number, each in enumerate(self._plain):
            has = [broker for broker in each.logs if each.last < of.ends.get(broker, ENDLESS)]
            absent = [floor for broker, floor in of.floors.items() if broker not in has]
            self.wrong[number] = (
                any(each.first < edge <= each.last for edge in edges)
                or any(floor <= each.first for floor in absent)
                or any(begun <= max(each.times) and min(each.times) <= ended for begun, ended in of.short_ns)
            )

    def mark_overtaken(self) -> None:
        """Mark plain ranges that were sent after a higher offset was known, or known before a lower one was sent."""
        sends, polls = self._of.rows.sends, self._of.rows.polls
        acked = np.flatnonzero((sends.outcome == OK) & (sends.offset >= 0))
        done = acked[sends.done_ns[acked] != NULL]
        least = np.array([each.known_ns[0] for each in self._plain], dtype=np.int64)
        most = np.array([each.sent_ns[1] for each in self._plain], dtype=np.int64)
        offsets = np.concatenate([self._first, sends.offset[done], polls.offset])
        known_ns = np.concatenate([least, sends.done_ns[done], polls.received_ns])
        order = np.argsort(offsets, kind="stable")
        later = np.append(np.minimum.accumulate(known_ns[order][::-1])[::-1], ENDLESS)
        self.wrong |= most > later[np.searchsorted(offsets[order], self._last, side="right")]
        sent_at = np.concatenate([self._last, sends.offset[acked]])
        sent_ns = np.concatenate([most, sends.sent_ns[acked]])
        order = np.argsort(sent_at, kind="stable")
        earlier = np.concatenate([[NULL], np.maximum.accumulate(sent_ns[order])])
        self.wrong |= earlier[np.searchsorted(sent_at[order], self._first)] > least

    def mark_numbers(self, name: str) -> None:
        """Mark plain ranges whose numbers of a producer others have, or that are not in the order of the offsets."""
        own = np.flatnonzero([name in each.numbers for each in self._plain])
        low, high, top_at = np.array([self._plain[at].numbers[name] for at in own.tolist()], dtype=np.int64).T
        code, rows = self._of.names.code(name), self._of.rows
        values = [rows.sends.value, rows.polls.value, *(log.value for log in rows.logs.values())]
        others = np.sort(joined(seq_of(each[producer_of(each) == code]) for each in values))
        self.wrong[own] |= _inside(others, low, high) | _overlapping(low, high)
        placed = np.flatnonzero((producer_of(rows.sends.value) == code) & (rows.sends.offset >= 0))
        number, offset = seq_of(rows.sends.value[placed]), rows.sends.offset[placed]
        below = _Tops(np.concatenate([high, number]), np.concatenate([top_at, offset]))
        self.wrong[own] |= below.offset[below.place(low)] >= self._first[own]
        ranges = _Tops(high, top_at)  # the range with the largest offset that has lower numbers
        passed = ranges.place(np.concatenate([low, number]))
        at = np.concatenate([self._first[own], offset])
        overtaken = ranges.row[passed[ranges.offset[passed] >= at]]
        self.wrong[own[overtaken[overtaken >= 0]]] = True

    def mark_reads(self, consumer: str, pass_: int) -> None:
        """Mark plain ranges between whose reads others are, or that a step of the reader passed over."""
        own = np.flatnonzero([(consumer, pass_) in each.positions for each in self._plain])
        ranges = [self._plain[at].positions[consumer, pass_] for at in own.tolist()]
        low, high = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
        polls, seeks, code = self._of.rows.polls, self._of.seeks, self._of.names.code(consumer)
        rows = (polls.consumer == code) & (polls.pass_ == pass_)
        sought = seeks.position[(seeks.consumer == code) & (seeks.pass_ == pass_)]
        places = np.sort(np.concatenate([polls.position[rows], sought]))
        self.wrong[own] |= _inside(places, low + 1, high - 1) | np.isin(high, sought) | _overlapping(low, high)
        is_range = np.repeat([0, 1], [int(rows.sum()), own.size])
        in_turn = np.lexsort((is_range, np.concatenate([polls.position[rows], low])))
        since = np.concatenate([polls.offset[rows], self._last[own]])[in_turn][:-1]
        until = np.concatenate([polls.offset[rows], self._first[own]])[in_turn][1:]
        by_offset = np.argsort(self._first, kind="stable")
        begin = np.searchsorted(self._first[by_offset], since, side="right")
        end = np.searchsorted(self._first[by_offset], until)
        for step in np.flatnonzero(begin < end).tolist():
            self.wrong[by_offset[begin[step] : end[step]]] = True


class _Tops:
    """The largest offset of all lower numbers, with its row."""

    def __init__(self, number: Ints, offset: Ints) -> None:
        order = np.argsort(number, kind="stable")
        self._number = number[order]
        highest = np.maximum.accumulate(offset[order])
        self.offset = np.concatenate([[NULL], highest])
        places = np.maximum.accumulate(np.where(offset[order] == highest, np.arange(order.size), 0))
        self.row = np.concatenate([[-1], order[places]])

    def place(self, number: Ints) -> Ints:
        return np.searchsorted(self._number, number)


def _inside(ordered: Ints, low: Ints, high: Ints) -> Bools:
    found: Bools = np.searchsorted(ordered, high, side="right") > np.searchsorted(ordered, low)
    return found


def _overlapping(low: Ints, high: Ints) -> Bools:
    """Return which ranges meet another."""
    order = np.argsort(low, kind="stable")
    furthest = np.concatenate([[NULL], np.maximum.accumulate(high[order])[:-1]])
    nearest = np.concatenate([low[order][1:], [ENDLESS]])
    found = np.zeros(low.size, dtype=np.bool_)
    found[order] = (low[order] <= furthest) | (high[order] >= nearest)
    return found
