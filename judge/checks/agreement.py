"""Compare replicas' logs batch by batch, and each log with its epoch file.

Windows of offsets bound the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evidence.batches import Batches, ReplicaBatches
from evidence.columns import NULL, Bools, Ints
from evidence.facts import Replica
from evidence.partition import PartitionEvidence
from judge.checks.findings import Checks, columns_of

WINDOW_BATCHES = 1 << 16

_SEQUENCE = ("base_offset", "kafka_producer_id", "producer_epoch", "base_sequence")
_Evidence = Callable[[int], Mapping[str, Any]]


def _checks(checked: int, violations: int, evidence: _Evidence) -> Checks:
    return Checks(checked, np.full(violations, NULL), evidence)


_NO_CHECKS = _checks(0, 0, lambda _: {})


class _Read(NamedTuple):
    """A replica's batches; ``order`` is the running maximum of base offsets."""

    replica: Replica
    batches: Batches
    order: Ints
    cut: bool
    first_offset: int | None


def _read(of: PartitionEvidence) -> list[_Read]:
    found = [(each, of.batches[each.broker_id]) for each in of.replicas if each.broker_id in of.batches]
    return [
        _Read(
            replica, own.batches, np.maximum.accumulate(own.batches.base_offset), _cut(replica, own), own.first_offset
        )
        for replica, own in found
    ]


def _cut(replica: Replica, own: ReplicaBatches) -> bool:
    end = max(int(replica.segments[-1].stem), int(own.batches.last_offset.max(initial=-1)) + 1)
    return own.torn or end < (replica.log_end_offset or 0)


@dataclass(frozen=True)
class _Window:
    """All replicas' batches in a range of offsets, by offset, then replica.

    Each is at ``row`` of the log at ``log``.
    """

    logs: Sequence[_Read]
    rows: Sequence[slice]  # per log
    merged: Ints  # from log by log
    log: Ints
    row: Ints

    def column(self, name: str) -> NDArray[Any]:
        parts = [getattr(each.batches, name)[rows] for each, rows in zip(self.logs, self.rows, strict=True)]
        return np.concatenate(parts)[self.merged]

    @cached_property
    def group(self) -> Ints:
        return _numbered(self.column("base_offset"))

    @cached_property
    def order(self) -> Ints:
        found = [each.order[rows] for each, rows in zip(self.logs, self.rows, strict=True)]
        return np.concatenate(found)[self.merged]


def _windows(logs: Sequence[_Read]) -> Iterator[_Window]:
    """Yield all batches by window; where offsets go back, they follow the largest before."""
    if not logs:
        return
    bounds = np.unique(np.concatenate([each.order[::WINDOW_BATCHES] for each in logs]))
    cuts = [[*np.searchsorted(each.order, bounds).tolist(), len(each.batches)] for each in logs]
    for window in zip(*(pairwise(cut) for cut in cuts), strict=True):
        rows = [slice(*ends) for ends in window]
        order = np.concatenate([each.order[own] for each, own in zip(logs, rows, strict=True)])
        merged = np.argsort(order, kind="stable")
        log = np.repeat(np.arange(len(logs)), [stop - start for start, stop in window])
        row = np.concatenate([np.arange(start, stop) for start, stop in window])
        yield _Window(logs, rows, merged, log[merged], row[merged])


def _numbered(*columns: NDArray[Any]) -> Ints:
    changed = np.zeros(columns[0].size, dtype=np.bool_)
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.cumsum(changed)


def _varies(group: Ints, column: NDArray[Any]) -> Bools:
    found = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    found[group[1:][(group[1:] == group[:-1]) & (column[1:] != column[:-1])]] = True
    return found


def i12_committed_prefix(of: PartitionEvidence) -> Checks:
    """I12 (C6, C27, C40, C46), clean topics with the delete policy. Any two logs between log starts and last captured
    high watermarks, wherever a batch begins. If an export ends early, its last whole batch is not compared either.
    """
    if not (of.clean and of.kept):
        return _NO_CHECKS
    logs, checked = _read(of), 0
    found: list[_Committed] = []
    for window in _windows(logs):
        groups = _committed(logs, window)
        has = groups.knowing & (groups.row >= 0)
        asked = (groups.knowing.sum(axis=0) >= 2) & has.any(axis=0)
        content = np.zeros(has.shape, dtype=np.int64)
        for place, each in enumerate(logs):
            content[place, has[place]] = each.batches.content[groups.row[place, has[place]]]
        first = content[np.argmax(has, axis=0), np.arange(has.shape[1])]
        violated = asked & ((groups.knowing & ~has) | (has & (content != first))).any(axis=0)
        checked += int(asked.sum())
        found.append(groups.take(violated))
    if not found:
        return _NO_CHECKS
    all_found = _Committed(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))

    def evidence(place: int) -> dict[str, Any]:
        rows = all_found.row[:, place].tolist()
        knows = all_found.knowing[:, place]
        knowing = [(each, row) for each, row, knowing in zip(logs, rows, knows, strict=True) if knowing]
        return {
            "base_offset": int(all_found.base_offset[place]),
            "last_offset": int(all_found.last_offset[place]),
            "lacking": [each.replica.broker_id for each, row in knowing if row < 0],
            "epochs": {
                str(each.replica.broker_id): int(each.batches.leader_epoch[row]) for each, row in knowing if row >= 0
            },
        }

    return _checks(checked, all_found.base_offset.size, evidence)


class _Committed(NamedTuple):
    """Offsets at which batches begin.

    ``knowing``: a replica knows all of it as committed; ``row``: its batch (-1: none).
    """

    base_offset: Ints
    last_offset: Ints
    knowing: Bools  # (replicas, offsets)
    row: Ints  # (replicas, offsets)

    def take(self, offsets: Bools) -> _Committed:
        return _Committed(
            self.base_offset[offsets], self.last_offset[offsets], self.knowing[:, offsets], self.row[:, offsets]
        )


def _committed(logs: Sequence[_Read], window: _Window) -> _Committed:
    starts = np.flatnonzero(np.diff(window.group, prepend=-1))
    base_offset = window.column("base_offset")[starts]
    last_offset = np.maximum.reduceat(window.column("last_offset"), starts)
    row = np.full((len(logs), starts.size), -1)
    row[window.log, window.group] = window.row  # of two batches at one offset the later counts
    knowing = np.zeros(row.shape, dtype=np.bool_)
    for place, each in enumerate(logs):
        high_watermark = each.replica.high_watermark
        if high_watermark is not None:
            knowing[place] = (high_watermark > last_offset) & ((each.replica.log_start_offset or 0) <= base_offset)
        if each.cut:
            knowing[place] &= window.order[starts] < (each.order[-1] if each.order.size else NULL)
    return _Committed(base_offset, last_offset, knowing, row)


def i13_log_matching(of: PartitionEvidence) -> Checks:
    """I13 (C9, C29, C45), without compaction. Sound: followers append the batches of an epoch's leader verbatim and in
    order, also above the high watermark, outside the ISR and after an unclean election. KAFKA-18723 violates it.
    """
    if not of.kept:
        return _NO_CHECKS
    logs, checked, violations = _read(of), 0, 0
    first_offsets = np.array([each.first_offset or 0 for each in logs])
    found: list[tuple[Ints, Ints, Ints]] = []  # violation, log, row
    for window in _windows(logs):
        epochs = window.column("leader_epoch")
        in_order = np.lexsort((epochs, window.group))
        group = _numbered(window.group[in_order], epochs[in_order])
        content, chain = (window.column(name)[in_order] for name in ("content", "chain"))
        log, row = window.log[in_order], window.row[in_order]
        violated = _varies(group, content) | (_varies(group, chain) & ~_varies(group, first_offsets[log]))
        checked += int((np.bincount(group) > 1).sum())
        members = violated[group]
        found.append(((violations - 1 + np.cumsum(violated))[group[members]], log[members], row[members]))
        violations += int(violated.sum())
    if not violations:
        return _checks(checked, 0, _NO_CHECKS.evidence)
    violation, log, row = (np.concatenate(parts) for parts in zip(*found, strict=True))

    def evidence(place: int) -> dict[str, Any]:
        members = slice(*np.searchsorted(violation, [place, place + 1]))
        same = [(logs[at], at_row) for at, at_row in zip(log[members].tolist(), row[members].tolist(), strict=True)]
        read, first = same[0]
        contents = {int(each.batches.content[at_row]) for each, at_row in same}
        return {
            "base_offset": int(read.batches.base_offset[first]),
            "leader_epoch": int(read.batches.leader_epoch[first]),
            "brokers": [each.replica.broker_id for each, _ in same],
            "differs": "this batch" if len(contents) > 1 else "a batch before it",
        }

    return _checks(checked, violations, evidence)


def i14_epoch_of_batch(of: PartitionEvidence) -> Checks:
    """I14 (C26, C42). One append writes the batch and its entry in leader-epoch-checkpoint."""
    logs = [each for each in _read(of) if each.replica.epochs]
    checked, found = 0, [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for place, each in enumerate(logs):
        # Deleted records remain in their segment for a while, but not in the epoch file.
        asked = each.batches.base_offset >= _kept_from(each.replica)
        rows = np.flatnonzero(asked & (_epochs_by_file(each) != each.batches.leader_epoch))
        checked += int(asked.sum())
        found.append((each.order[rows], np.full(rows.size, place), rows))
    order, log, row = (np.concatenate(parts) for parts in zip(*found, strict=True))
    in_order = np.argsort(order, kind="stable")

    def evidence(place: int) -> dict[str, Any]:
        each, at_row = logs[log[in_order[place]]], int(row[in_order[place]])
        (file_epoch,) = _epochs_by_file(each, slice(at_row, at_row + 1)).tolist()
        return {
            "broker_id": each.replica.broker_id,
            "base_offset": int(each.batches.base_offset[at_row]),
            "batch_epoch": int(each.batches.leader_epoch[at_row]),
            "file_epoch": None if file_epoch == NULL else file_epoch,
        }

    return _checks(checked, row.size, evidence)


def _kept_from(replica: Replica) -> int:
    """Return the log start offset, else the epoch file's first."""
    if replica.log_start_offset is not None:
        return replica.log_start_offset
    return min((start for _, start in replica.epochs or ()), default=0)


def _epochs_by_file(of: _Read, rows: slice = slice(None)) -> Ints:
    """Return each batch's epoch by the epoch file, ``NULL`` before its start."""
    entries = sorted(of.replica.epochs or (), key=lambda entry: entry[1])
    epochs = np.array([NULL, *(epoch for epoch, _ in entries)], dtype=np.int64)
    starts = np.array([start for _, start in entries], dtype=np.int64)
    return epochs[np.searchsorted(starts, of.batches.base_offset[rows], side="right")]


def i14_epoch_files(of: PartitionEvidence) -> Checks:
    """I14: the epoch file increases in both columns. On clean topics, below the high watermarks, an epoch starts at one
    offset on all replicas, except at a log's own start, which a deletion may have moved.
    """
    found: list[tuple[bool, dict[str, Any]]] = []
    starts: dict[int, dict[int, int]] = {}
    for replica in of.replicas:
        for before, after in pairwise(replica.epochs or ()):
            rises = before[0] < after[0] and before[1] < after[1]
            found.append((not rises, {"broker_id": replica.broker_id, "entries": [list(before), list(after)]}))
        for epoch, start in replica.epochs or ():
            if _kept_from(replica) < start < (replica.high_watermark or 0):
                starts.setdefault(epoch, {})[replica.broker_id] = start
    for epoch, by_broker in sorted(starts.items()):
        if of.clean and len(by_broker) > 1:
            named = {str(broker_id): start for broker_id, start in sorted(by_broker.items())}
            found.append((len(set(by_broker.values())) > 1, {"leader_epoch": epoch, "starts": named}))
    violations = [evidence for violated, evidence in found if violated]
    return _checks(len(found), len(violations), violations.__getitem__)


def i17_sequences(of: PartitionEvidence) -> Checks:
    """I17 (C27), clean topics, idempotent producers. Without gap or repetition for a producer id and epoch: the leader
    rejects every other batch. The first batch may begin anywhere, since earlier ones may be deleted.
    """
    if not (of.clean and of.kept) or of.final is None or of.final not in of.complete:
        return _NO_CHECKS
    batches = of.batches[of.final].batches
    rows = np.flatnonzero(batches.idempotent)
    rows = rows[np.lexsort((batches.producer_epoch[rows], batches.kafka_producer_id[rows]))]
    found = batches.base_sequence[rows].astype(np.int64)
    expected = found.copy()
    expected[1:] = (found[:-1] + batches.record_count[rows[:-1]]) % 2**31
    first = np.diff(_numbered(batches.kafka_producer_id[rows], batches.producer_epoch[rows]), prepend=-1) > 0
    violated = np.flatnonzero(~first & (found != expected))
    violated = violated[np.argsort(rows[violated])]
    evidence = columns_of(
        (np.zeros(violated.size, dtype=np.int64), {"broker_id": [of.final]}),
        (rows[violated], {name: getattr(batches, name) for name in _SEQUENCE}),
        (violated, {"expected": expected}),
    )
    return _checks(rows.size, violated.size, evidence)
