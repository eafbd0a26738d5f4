"""Samples of one partition's replicas, and which of them later checks need.

A run of any length is checked window by window. From one window to the next, the samples are carried that a check may
look back at: the first, last, lowest and highest of each replica between the moments at which checks look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.columns import NULL, Bools, Columns, Ints, Names, column, groups, joined, made
from evidence.facts import FOREVER_NS


@dataclass(frozen=True)
class Samples(Columns):
    """The probe's valid responses, by request time and broker.

    ``carried``: rows that an earlier window has already checked. A window that cached itself would outlive its use.
    """

    order = ("sent_ns", "broker")
    broker: Ints = field(metadata=column("broker_id"))
    incarnation: Ints
    epoch: Ints = field(metadata=column("leader_epoch"))
    sent_ns: Ints
    received_ns: Ints
    log_start: Ints = field(metadata=column("log_start_offset"))
    hw: Ints = field(metadata=column("high_watermark"))
    lso: Ints = field(metadata=column("last_stable_offset"))
    leo: Ints = field(metadata=column("log_end_offset"))
    single_reply: Bools
    carried: Bools = field(metadata=made(lambda table, _: np.zeros(table.num_rows, dtype=np.bool_)))

    @classmethod
    def of(cls, table: pa.Table, names: Names | None = None) -> Self:
        """Convert rows of ``history.tables.REPLICAS`` with HW, LEO and no error."""
        known = pc.and_(pc.is_valid(table["high_watermark"]), pc.is_valid(table["log_end_offset"]))
        return super().of(table.filter(pc.and_(pc.is_null(table["error"]), known)), names)

    @classmethod
    def nothing(cls) -> Self:
        return cls(**{each.name: np.empty(0, np.bool_ if each.type == "Bools" else np.int64) for each in fields(cls)})

    @property
    def with_epoch(self) -> Samples:
        return self if (self.epoch != NULL).all() else self._with_epoch

    @cached_property
    def _with_epoch(self) -> Samples:
        return self.take(self.epoch != NULL)

    @property
    def answered(self) -> Samples:
        return self if (self.received_ns[1:] >= self.received_ns[:-1]).all() else self._answered

    @cached_property
    def _answered(self) -> Samples:
        return self.take(np.argsort(self.received_ns, kind="stable"))

    @cached_property
    def highest(self) -> Ints:
        return np.maximum.accumulate(self.hw)

    @cached_property
    def rows_of_broker(self) -> dict[int, Ints]:
        return {broker: rows for (broker,), rows in groups(self.broker)}

    @cached_property
    def _of_broker(self) -> dict[int, Samples]:
        return {broker: self.take(rows) for broker, rows in self.rows_of_broker.items()}

    @cached_property
    def _of_epoch(self) -> dict[tuple[int, int], Samples]:
        return {
            (broker, epoch): of_broker.take(rows)
            for broker, of_broker in self._of_broker.items()
            for (epoch,), rows in groups(of_broker.epoch)
        }

    def of_broker(self, broker: int) -> Samples:
        return self._of_broker.get(broker) or self.take(slice(0))

    def of_epoch(self, broker: int, epoch: int) -> Samples:
        return self._of_epoch.get((broker, epoch)) or self.take(slice(0))

    @cached_property
    def before(self) -> Ints:
        """Return the row of the same broker's, incarnation's and epoch's previous sample, or -1."""
        found = np.full(len(self), -1, dtype=np.int64)
        for of_broker in self.rows_of_broker.values():
            for _, rows in groups(self.incarnation[of_broker], self.epoch[of_broker]):
                found[of_broker[rows[1:]]] = of_broker[rows[:-1]]
        return found

    def of_leaders(self, leaders: Iterable[tuple[int, int]]) -> Bools:
        pairs = set(leaders)
        found = np.zeros(len(self), dtype=np.bool_)
        for broker, rows in self.rows_of_broker.items():
            led = np.array(sorted(epoch for epoch, leader in pairs if leader == broker), dtype=np.int64)
            found[rows] = np.isin(self.epoch[rows], led)
        return found


@dataclass(frozen=True)
class Looks:
    """At what checks look after the last window.

    ``moments``: bounds of intervals. ``spans``: intervals whose samples all count. ``levels``: offsets that a high
    watermark passes. ``standing_ns``: for how long the last stable offset may stand still.
    """

    moments: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    spans: Sequence[tuple[int, int]] = ()
    levels: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    standing_ns: int = FOREVER_NS

    @cached_property
    def cuts(self) -> Ints:
        return cuts(self.moments)


def cuts(moments: Ints) -> Ints:
    """Return times that separate what is before, at and after each moment."""
    return np.unique(np.concatenate([moments - 1, moments]))


def thinned(samples: Samples, looks: Looks, settled_ns: int = FOREVER_NS) -> Samples:
    """Return the samples that later windows and checks need, as ``carried``.

    Every later sample is sent after ``settled_ns``; an answer after it may still be the highest or the last. Samples of
    a replica that overlap stay, since their order depends on the check.
    """
    open_ones = samples.received_ns > settled_ns
    keep = open_ones.copy()
    for from_ns, to_ns in looks.spans:
        keep |= (samples.sent_ns >= from_ns) & (samples.sent_ns <= to_ns)
    pieces = [np.searchsorted(looks.cuts, times) for times in (samples.sent_ns, samples.received_ns)]
    pieces.append(open_ones.astype(np.int64))
    if looks.levels.size:
        pieces.append(np.searchsorted(looks.levels, samples.hw - 1, side="right"))
    replica = (samples.broker, samples.incarnation, samples.epoch)
    for _, rows in groups(*replica, *pieces):
        keep[_extremes(samples, rows)] = True
    for rows in samples.rows_of_broker.values():
        keep[_around_falls(samples.leo, rows)] = True
        keep[_overlapping(samples, rows)] = True
    ends_ns = samples.sent_ns[open_ones].tolist()
    for _, rows in groups(*replica):
        keep[_around_falls(samples.hw, rows)] = True
        keep[_standing(samples, rows, looks.standing_ns)] = True
        settled = rows[~open_ones[rows]]
        if not settled.size:
            continue
        still = settled[_last_run(samples.leo[settled])]
        for _, own in groups(*(piece[still] for piece in pieces)):
            reached = still[own][samples.hw[still[own]] == samples.leo[still[own]]]
            keep[_extremes(samples, still[own])] = True
            keep[reached[np.argsort(samples.received_ns[reached], kind="stable")[:1]]] = True
        ends_ns.append(int(samples.sent_ns[still[-1]]))
    keep[_last_answers(samples, ends_ns)] = True
    kept = samples.take(keep)
    return replace(kept, carried=np.ones(len(kept), dtype=np.bool_))


def _extremes(samples: Samples, rows: Ints) -> list[int]:
    """Return the first and last by request and by answer, the lowest, and of the highest the first and last."""
    hw, answer_ns = samples.hw[rows], samples.received_ns[rows]
    top = np.flatnonzero(hw == hw.max())
    first, last = int(np.argmin(answer_ns)), answer_ns.size - 1 - int(np.argmax(answer_ns[::-1]))
    of_top = answer_ns[top]
    tops = top[0], top[np.argmin(of_top)], top[of_top.size - 1 - int(np.argmax(of_top[::-1]))]
    return [int(rows[place]) for place in (0, -1, first, last, int(np.argmin(hw)), *tops)]


def _overlapping(samples: Samples, rows: Ints) -> Ints:
    """Return the samples that were sent before an earlier one was answered, this one, and their neighbours."""
    answered_ns = np.maximum.accumulate(samples.received_ns[rows])
    late = np.flatnonzero(answered_ns[:-1] > samples.sent_ns[rows][1:]) + 1
    if not late.size:
        return rows[:0]
    both = np.concatenate([late, np.searchsorted(answered_ns, answered_ns[late - 1])])
    found: Ints = rows[np.unique(np.clip([both - 1, both, both + 1], 0, rows.size - 1))]
    return found


def _around_falls(values: Ints, rows: Ints) -> Ints:
    fell = np.flatnonzero(np.diff(values[rows]) < 0)
    return joined([rows[fell], rows[fell + 1]])


def _last_run(values: Ints) -> slice:
    changed = np.flatnonzero(values[1:] != values[:-1])
    return slice(int(changed[-1]) + 1 if changed.size else 0, None)


def _standing(samples: Samples, rows: Ints, limit_ns: int) -> Ints:
    """Return the ends and highest of each run in which a last stable offset stood still, or may go on to."""
    held: Ints = rows[(samples.lso[rows] != NULL) & (samples.lso[rows] < samples.hw[rows])]
    if not held.size:
        return held
    first = np.flatnonzero(np.diff(samples.lso[held], prepend=NULL))
    ends = np.append(first[1:], held.size)
    stood_ns = samples.sent_ns[held[ends - 1]] - samples.received_ns[held[first]]
    asked = {0, first.size - 1, *np.flatnonzero(stood_ns > limit_ns).tolist()}
    return np.array([row for run in asked for row in _extremes(samples, held[first[run] : ends[run]])], dtype=np.int64)


def _last_answers(samples: Samples, ends_ns: Iterable[int]) -> Ints:
    """Return each broker's last answer by each time."""
    times, found = np.array(sorted(set(ends_ns)), dtype=np.int64), []
    for rows in samples.rows_of_broker.values():
        own = rows[np.argsort(samples.received_ns[rows], kind="stable")]
        last = np.searchsorted(samples.received_ns[own], times, side="right") - 1
        found.append(own[last[last >= 0]])
    return joined(found)
