"""Decide the outcome of every send of one partition, in linear time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evidence.columns import (
    FAIL,
    FINAL,
    INCOMPLETE,
    INFO,
    NULL,
    OK,
    Bools,
    Ints,
    Log,
    Polls,
    Sends,
    covered,
    largest,
    positions_in,
    smallest,
    smallest_of_equal,
)
from evidence.facts import Drain
from evidence.pieces import PlainRange

FATES = (
    "",  # no guarantee
    "read",
    "lost_write",
    "truncated_ack",
    "invisible_ack",
    "undrained",
    "unknown_offset_ack",
    "undecided",
)
NOTHING, READ, LOST, TRUNCATED, INVISIBLE, UNDRAINED, UNKNOWN_OFFSET, UNDECIDED = range(len(FATES))
UNSEEN = (TRUNCATED, INVISIBLE, UNDRAINED, UNKNOWN_OFFSET, UNDECIDED)
GONE = (LOST, TRUNCATED, UNKNOWN_OFFSET)


@dataclass(frozen=True)
class Groups:
    """The sends' distinct values, and each send's and read's place in them (-1: none)."""

    values: Ints
    of_send: Ints
    of_read: Ints

    @classmethod
    def of(cls, sends: Ints, reads: Ints) -> Groups:
        if sends.size and np.all(sends[1:] > sends[:-1]):  # no repetition
            values, of_send = sends, np.arange(sends.size)
        else:
            values, of_send = np.unique(sends, return_inverse=True)
        return cls(values, of_send, positions_in(values, reads))


@dataclass(frozen=True)
class Account:
    """Columns parallel to the sends.

    The final drain returned a ``read`` record first at ``found_at``, at ``copies`` offsets; ``seen_at`` is any reader's
    largest. ``committed``: the log must have it. ``held_at``: an unseen record's offset in a log. ``all_found``:
    offsets of records at several.
    """

    groups: Groups
    read: Bools
    found_at: Ints
    copies: Ints
    seen: Bools
    seen_at: Ints
    committed: Bools
    fate: NDArray[np.int8]
    held_at: Ints
    all_found: Mapping[int, list[int]]  # by place in ``groups.values``

    def offsets(self, send: int) -> list[int]:
        several = self.all_found.get(int(self.groups.of_send[send]))
        if several is not None:
            return several
        return [int(self.found_at[send])] if self.read[send] else []


def account(
    sends: Sends,
    polls: Polls,
    logs: Mapping[int, Log],
    *,
    drain: Drain | None,
    whole: bool,
    ended_at: int | None = None,
    deleted_before: int | None = None,
    kept: bool = True,
    siblings: Ints | None = None,
    since: Ints | None = None,
    drained_to: int = NULL,
) -> Account:
    """Decide the fate of every send.

    Absence needs logs that were read from end to end (``whole``), or ended below (``ended_at``: all replicas), without
    compaction (``kept``). ``siblings``: other records of their transactions were read. ``since``: from which offset
    each read's reader had read everything. ``drained_to``: a read of the final drain that is not among the ``polls``.
    """
    groups = Groups.of(sends.value, polls.value)
    found = _found(groups, polls)
    known = groups.of_read >= 0
    seen_at = largest(groups.of_read[known], polls.offset[known], groups.values.size)
    seen = seen_at != NULL
    of_send = groups.of_send
    committed = _committed(sends, seen[of_send], siblings)
    lost = _passed(sends, polls, groups, committed, since=since, drained_to=drained_to)
    read = (found.copies > 0)[of_send]
    unseen = committed & ~read & ~lost
    held_at = _held(sends, np.flatnonzero(unseen), logs)
    above = _above_the_bound(held_at, drain, _absent(sends.offset, ended_at, whole=whole))
    fate = np.select([~committed, read, lost], [NOTHING, READ, LOST], above).astype(np.int8)
    if deleted_before is not None:
        place = np.where(sends.offset >= 0, sends.offset, np.where(seen[of_send], seen_at[of_send], held_at))
        fate = _without_deleted(fate, place, deleted_before)
    if not kept:
        fate[np.isin(fate, GONE)] = UNDECIDED
    at, copies = found.first[of_send], found.copies[of_send]
    return Account(groups, read, at, copies, seen[of_send], seen_at[of_send], committed, fate, held_at, found.several)


def _committed(sends: Sends, seen: Bools, siblings: Ints | None) -> Bools:
    committed: Bools = (sends.outcome == OK) | ((sends.outcome == INFO) & seen)
    if siblings is not None and siblings.size:
        committed |= (sends.outcome == INFO) & (positions_in(np.unique(siblings), sends.value) >= 0)
    return committed


@dataclass(frozen=True)
class _Found:
    first: Ints
    copies: Ints
    several: Mapping[int, list[int]]


def _found(groups: Groups, polls: Polls) -> _Found:
    """Return where the final pass returned each value.

    A failed imported read proves only its own record.
    """
    rows = np.flatnonzero(((polls.pass_ == FINAL) | (polls.pass_ == INCOMPLETE)) & (groups.of_read >= 0))
    of_value, offsets = groups.of_read[rows], polls.offset[rows]
    first = smallest(of_value, offsets, groups.values.size)
    last = largest(of_value, offsets, groups.values.size)
    copies = (last >= first).astype(np.int64)
    several: dict[int, list[int]] = {}
    twice = last > first
    if twice.any():
        repeated = np.flatnonzero(twice[of_value])
        pairs = np.unique(np.stack([of_value[repeated], offsets[repeated]]), axis=1)
        for value, offset in pairs.T.tolist():
            several.setdefault(value, []).append(offset)
        for value, found_at in several.items():
            copies[value] = len(found_at)
    return _Found(np.where(copies > 0, first, NULL), copies, several)


def _passed(
    sends: Sends, polls: Polls, groups: Groups, committed: Bools, *, since: Ints | None, drained_to: int
) -> Bools:
    """Return which sends a final reader has passed.

    A send is passed if its last place lies between a final read's ``since`` and its value's first place. An offset that
    was read with another value proves nothing.
    """
    ours = groups.of_read >= 0
    placed = committed & (sends.offset != NULL)
    of_value = np.concatenate([groups.of_read[ours], groups.of_send[placed]])
    offsets = np.concatenate([polls.offset[ours], sends.offset[placed]])
    first = smallest(of_value, offsets, groups.values.size)
    last = largest(of_value, offsets, groups.values.size)
    at = last[groups.of_send]
    unsent = (polls.value >= 0) & ~ours
    if since is None and not unsent.any():
        final = first[groups.of_read[ours & (polls.pass_ == FINAL)]]
        passed: Bools = (at != NULL) & (at <= final.max(initial=drained_to))
        return passed
    until = np.full(len(polls), NULL)
    until[ours] = first[groups.of_read[ours]]
    until[unsent] = smallest_of_equal(polls.value[unsent], polls.offset[unsent])
    drained = (polls.pass_ == FINAL) & (polls.value >= 0)
    if since is None:
        ends = np.append(until[drained], drained_to)
        return covered(np.zeros_like(ends), ends, at)
    return covered(since[drained], until[drained], at) & ~np.isin(at, polls.offset[polls.value < 0])


def _held(sends: Sends, unseen: Ints, logs: Mapping[int, Log]) -> Ints:
    """Return each unseen send's smallest offset in a log; a known offset must match."""
    held_at = np.full(len(sends), NULL)
    if not unseen.size:
        return held_at
    wanted = np.unique(sends.value[unseen])
    for log in logs.values():
        rows = np.flatnonzero(positions_in(wanted, log.value) >= 0)
        rows = rows[np.lexsort((log.offset[rows], log.value[rows]))]
        values, offsets = log.value[rows], log.offset[rows]
        begin = np.searchsorted(values, sends.value[unseen])
        end = np.searchsorted(values, sends.value[unseen], side="right")
        for turn in range(int((end - begin).max(initial=0))):
            more = begin + turn < end
            asked, offset = unseen[more], offsets[begin[more] + turn]
            own, known = sends.offset[asked], held_at[asked]
            fits = ((own == NULL) | (own == offset)) & ((known == NULL) | (offset < known))
            held_at[asked[fits]] = offset[fits]
    return held_at


def _absent(offset: Ints, ended_at: int | None, *, whole: bool) -> NDArray[np.int64]:
    """Return ``truncated_ack``: on no replica at its offset; ``unknown_offset_ack``: on none at any."""
    if whole:
        return np.where(offset == NULL, UNKNOWN_OFFSET, TRUNCATED)
    beyond = offset >= (np.iinfo(np.int64).max if ended_at is None else ended_at)
    return np.where(beyond, TRUNCATED, UNDECIDED)


def _above_the_bound(held_at: Ints, drain: Drain | None, absent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Decide the fate of records above the bound.

    ``invisible_ack``: on a replica, not below the high watermark. ``undrained``: below it, and the drain stopped early,
    else ``lost_write``.
    """
    if drain is None or drain.end_offset is None:
        return np.where(held_at == NULL, absent, UNDECIDED)
    passed_to = drain.position if drain.complete and drain.position is not None else NULL
    return np.select(
        [held_at == NULL, held_at >= drain.end_offset, held_at < passed_to], [absent, INVISIBLE, LOST], UNDRAINED
    )


def _without_deleted(fate: NDArray[np.int8], place: Ints, deleted_before: int) -> NDArray[np.int8]:
    """Clear the fate of deleted records; without a known offset it is undecided."""
    owed = (fate != NOTHING) & (fate != READ)
    decided = np.select([owed & (place == NULL), owed & (place < deleted_before)], [UNDECIDED, NOTHING], fate)
    return decided.astype(np.int8)


def counts(sends: Sends, account: Account, plain: Sequence[PlainRange] = ()) -> dict[str, int]:
    """Return columns of ``history.tables.DELIVERY``; those of ``plain`` ranges were acknowledged."""
    more, drained = sum(each.records for each in plain), sum(each.records for each in plain if each.drained)
    of_fate = np.bincount(account.fate, minlength=len(FATES)).tolist()
    return {
        "sent": len(sends) + more,
        "acked": int((sends.outcome == OK).sum()) + more,
        "indeterminate": int((sends.outcome == INFO).sum()),
        "failed": int((sends.outcome == FAIL).sum()),
        "read": int(account.read.sum()) + drained,
        "lost": of_fate[LOST],
        "unseen": sum(of_fate[fate] for fate in UNSEEN),
        "truncated_ack": of_fate[TRUNCATED],
        "invisible_ack": of_fate[INVISIBLE],
        "undrained": of_fate[UNDRAINED],
        "unknown_offset_ack": of_fate[UNKNOWN_OFFSET],
        "duplicated": int((account.copies > 1).sum()),
        "duplicate_copies": int(np.maximum(account.copies - 1, 0).sum()),
    }
