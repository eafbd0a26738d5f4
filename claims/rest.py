"""Intervals in which only the observed quantity changed.

Rows are those of ``samples.answered``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from claims.answer import Evidence, decided, saw
from claims.recording import Recording
from evidence.columns import Bools, Ints
from evidence.facts import FOREVER_NS, Row
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from kafka_files.states import State

SILENCE_NS = 150_000_000  # a paused replica's last answer is at most three probes old
REST_NS = 700_000_000  # longer than replica.fetch.wait.max.ms (500)
_NO_ROWS = np.empty(0, dtype=np.int64)


def first(rows: Ints, wanted: Bools) -> int | None:
    """Return the first wanted row."""
    chosen = rows[wanted]
    return int(chosen[0]) if chosen.size else None


def last(rows: Ints, wanted: Bools) -> int | None:
    """Return the last wanted row."""
    return first(rows[::-1], wanted[::-1])


def leads(of: PartitionEvidence) -> Bools:
    """Return which samples are of leaders."""
    return of.samples.answered.of_leaders(of.leaders.items())


def led(of: PartitionEvidence) -> Ints:
    """Return the leaders' rows."""
    return np.flatnonzero(leads(of))


def rows_of(of: PartitionEvidence, broker: int) -> Ints:
    """Return a broker's rows."""
    return of.samples.answered.rows_of_broker.get(broker, _NO_ROWS)


def lines(of: PartitionEvidence, kind: str, broker: int | None = None) -> list[Row]:
    """Return the dated log lines of one kind."""
    own = (line for line in of.lines if line["kind"] == kind and line["t_ns"] is not None)
    return sorted((line for line in own if broker in (None, line["broker_id"])), key=itemgetter("t_ns"))


def state_at(of: PartitionEvidence, t_ns: int) -> State | None:
    """Return the last state decided by then."""
    place = bisect_right([state.t_ns or 0 for state in of.dated], t_ns)
    return of.dated[place - 1] if place else None


class Rest(NamedTuple):
    """An interval in which a leader's HW and LEO and its partition's state did not change.

    ``row`` is the leader's last. ``live`` has the last rows of replicas that answered, ``known`` also those of silent
    replicas whose last answer shows their position. ``heard``: replicas that answered long enough to have fetched.
    ``appended``: the leader had appended.
    """

    of: PartitionEvidence
    state: State
    from_ns: int
    row: int
    known: dict[int, int]
    live: dict[int, int]
    heard: frozenset[int]
    appended: bool

    @property
    def seen(self) -> Samples:
        return self.of.samples.answered

    @property
    def hw(self) -> int:
        return int(self.seen.hw[self.row])

    @property
    def leo(self) -> int:
        return int(self.seen.leo[self.row])

    @property
    def to_ns(self) -> int:
        return int(self.seen.received_ns[self.row])

    @property
    def least(self) -> int:
        return min(int(self.seen.leo[self.known[member]]) for member in self.state.isr)

    @property
    def whole(self) -> bool:
        """Return whether every ISR member's position is known.

        A leader does not know the last records of a member that fell silent before its next fetch.
        """
        isr = set(self.state.isr)
        return isr <= self.known.keys() and (isr <= self.heard or self.hw >= self.least)

    @property
    def alone(self) -> bool:
        """Return whether the only ISR member of several replicas appended."""
        return self.appended and self.state.isr == (self.state.leader,) and len(self.state.replicas) > 1

    @property
    def followers(self) -> list[int]:
        return [row for broker, row in self.live.items() if broker != self.state.leader]

    @property
    def evidence(self) -> list[Evidence]:
        others = [row for broker, row in self.known.items() if broker != self.state.leader]
        return [saw(self.of, self.row, ", leads"), *(saw(self.of, row) for row in others), *decided(self.state)]


def at_rest(recording: Recording, least_ns: int = REST_NS) -> Iterator[Rest]:
    """Yield all rests of at least ``least_ns``, by partition."""
    for of in recording.all:
        seen, rows, states = of.samples.answered, led(of), of.dated
        place = np.searchsorted([state.t_ns or 0 for state in states], seen.sent_ns[rows], side="right") - 1
        leaders = np.array([*(state.leader for state in states), -1])
        own = (place >= 0) & (leaders[place] == seen.broker[rows])
        rows, place = rows[own], place[own]
        changed = np.zeros(max(rows.size - 1, 0), dtype=np.bool_)
        for column in (place, seen.hw[rows], seen.leo[rows]):
            changed |= column[1:] != column[:-1]
        begun: dict[int, int] = {}  # partition epoch → LEO when that state began
        for part in np.split(np.arange(rows.size), np.flatnonzero(changed) + 1) if rows.size else ():
            state, since, until = states[place[part[0]]], int(rows[part[0]]), int(rows[part[-1]])
            begins_at = begun.setdefault(state.partition_epoch, int(seen.leo[since]))
            if seen.received_ns[until] - seen.sent_ns[since] >= least_ns:
                yield _rest(of, state, since, until, appended=bool(seen.leo[since] > begins_at))


def _rest(of: PartitionEvidence, state: State, since: int, until: int, *, appended: bool) -> Rest:
    seen = of.samples.answered
    from_ns, to_ns = int(seen.sent_ns[since]), int(seen.received_ns[until])
    # a follower gets the new HW when a waiting fetch returns
    late_ns = to_ns - (to_ns - from_ns) // 3
    latest = {b: last(own, seen.received_ns[own] <= to_ns) for b, own in seen.rows_of_broker.items()}
    known = {broker: row for broker, row in latest.items() if row is not None}
    live = {broker: row for broker, row in known.items() if seen.sent_ns[row] >= late_ns}
    late = (seen.sent_ns >= late_ns) & (seen.sent_ns <= (late_ns + to_ns) // 2)
    heard = frozenset(live.keys() & set(seen.broker[late].tolist()))
    known = {broker: row for broker, row in known.items() if broker in live or _had_all(of, row, state.leader)}
    return Rest(of, state, from_ns, until, known, live, heard, appended)


def _had_all(of: PartitionEvidence, silent: int, leader: int) -> bool:
    seen, own = of.samples.answered, rows_of(of, leader)
    after = first(own, seen.sent_ns[own] > seen.received_ns[silent] + SILENCE_NS)
    return after is not None and bool(seen.leo[after] == seen.leo[silent])


class Shrink(NamedTuple):
    """A shrink to ``state``, with the leader's rows before and after."""

    of: PartitionEvidence
    state: State
    before: int
    after: int

    @property
    def moved(self) -> bool:
        """Return whether the HW reached the least LEO of the remaining ISR."""
        seen = self.of.samples.answered
        rows = (rows_of(self.of, member) for member in self.state.isr)
        latest = (last(own, own <= self.after) for own in rows)
        return bool(seen.hw[self.after] >= min(seen.leo[row] for row in latest if row is not None))

    @property
    def evidence(self) -> list[Evidence]:
        after = saw(self.of, self.after, ", after it")
        return [saw(self.of, self.before, ", before the shrink"), *decided(self.state), after]


def shrinks_at_rest(recording: Recording) -> Iterator[Shrink]:
    """Yield shrinks that could release records, followed by no appends."""
    for of in recording.all:
        seen, rows, states = of.samples.answered, led(of), of.dated
        until_ns = [state.t_ns or 0 for state in states[2:]] + [FOREVER_NS]
        for (state, after), end_ns in zip(pairwise(states), until_ns, strict=False):
            t_ns = after.t_ns or 0
            before = last(rows, seen.received_ns[rows] <= t_ns)
            shrunk = set(after.isr) < set(state.isr) and after.leader == state.leader >= 0
            if not shrunk or before is None or len(after.isr) < of.effective_min_isr:
                continue
            still = rows[(seen.sent_ns[rows] >= t_ns + REST_NS) & (seen.received_ns[rows] < end_ns)]
            still = still[(seen.leo[still] == seen.leo[before]) & (seen.hw[before] < seen.leo[before])]
            # A returning member's first fetch moves the HW, before it rejoins the ISR.
            row = last(still, seen.hw[still] == seen.hw[still[:1]])
            if row is not None:
                yield Shrink(of, after, before, row)
