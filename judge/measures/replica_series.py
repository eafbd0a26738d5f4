"""Down-sample one partition's replica series for plots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from evidence.columns import NULL, Bools, Ints, Samples, groups, joined
from evidence.partition import PartitionEvidence
from history.tables import CONTROLLER, TIMELINE_ISR, TIMELINE_REPLICAS

BUCKETS = 900  # two points each: about 2,000 per replica
GAP_NS = 300_000_000


def gap_limit_ns(probe_hz: float) -> int:
    """Return after how long without a sample a replica is unobserved."""
    return max(GAP_NS, int(3e9 / probe_hz)) if probe_hz else GAP_NS


def timeline_replicas(evidence: PartitionEvidence, probe_hz: float) -> pa.Table:
    """Return HW and LEO of every replica: first and last sample per bucket, both sides of each fall and epoch change,
    and each gap (nulls).
    """
    limit_ns = gap_limit_ns(probe_hz)
    points: list[tuple[int, Samples, Ints]] = []
    for broker_id, (from_ns, to_ns) in sorted(evidence.observed.items()):
        own = evidence.samples.of_broker(broker_id).answered
        points.append((broker_id, own.take(_kept(own, from_ns, to_ns, limit_ns)), _gaps(own, from_ns, to_ns, limit_ns)))

    def column(of_samples: str) -> Iterator[Ints]:
        for _, kept, gaps in points:
            yield from (getattr(kept, of_samples), np.full(gaps.size, NULL))

    brokers = (np.full(len(kept) + gaps.size, broker_id) for broker_id, kept, gaps in points)
    moments = (np.concatenate([kept.received_ns, gaps]) for _, kept, gaps in points)
    columns = {"broker_id": brokers, "t_ns": moments, "leader_epoch": column("epoch")}
    columns |= {"high_watermark": column("hw"), "log_end_offset": column("leo")}
    return _table(evidence, columns, TIMELINE_REPLICAS)


def _table(evidence: PartitionEvidence, columns: dict[str, Iterator[Ints]], schema: pa.Schema) -> pa.Table:
    series = {name: joined(parts) for name, parts in columns.items()}
    rows = series["t_ns"].size
    where = {"topic": [evidence.where.topic] * rows, "partition": [evidence.where.partition] * rows}
    arrays = {name: pa.array(values, mask=values == NULL) for name, values in series.items()}
    return pa.table({**where, **arrays}).select(schema.names).cast(schema)


def _kept(own: Samples, from_ns: int, to_ns: int, limit_ns: int) -> Bools:
    t_ns = own.received_ns
    if not t_ns.size:
        return np.zeros(0, dtype=np.bool_)
    bucket = np.floor((t_ns - from_ns) / ((to_ns - from_ns + 1) / BUCKETS))
    begins, ends = np.ones(t_ns.size, dtype=np.bool_), np.ones(t_ns.size, dtype=np.bool_)
    begins[1:] = bucket[1:] != bucket[:-1]
    ends[:-1] = begins[1:]
    turned = np.zeros(t_ns.size, dtype=np.bool_)
    epoch, before = own.epoch[1:], own.epoch[:-1]
    turned[1:] = (epoch != before) & (epoch != NULL) & (before != NULL)
    turned[1:] |= (own.hw[1:] < own.hw[:-1]) | (own.leo[1:] < own.leo[:-1])
    kept: Bools = begins | ends | turned
    kept[:-1] |= turned[1:]  # keep the point before a fall
    kept |= np.diff(t_ns, append=to_ns) > limit_ns
    kept |= np.diff(t_ns, prepend=from_ns) > limit_ns
    return kept


def _gaps(own: Samples, from_ns: int, to_ns: int, limit_ns: int) -> Ints:
    t_ns = own.received_ns
    if not t_ns.size:
        return np.array([from_ns], dtype=np.int64)
    unseen = [from_ns] if t_ns[0] - from_ns > limit_ns else []
    return np.concatenate([np.array(unseen, dtype=np.int64), t_ns[np.diff(t_ns, append=to_ns) > limit_ns] + 1])


def timeline_isr(evidence: PartitionEvidence) -> pa.Table:
    """Return the controller's history and observers' changed views."""
    views = evidence.views
    found: list[dict[str, Any]] = [
        {
            "t_ns": change.received_ns,
            "leader": change.leader,
            "leader_epoch": change.leader_epoch,
            "isr": list(change.isr),
            "observer": change.observer,
        }
        for change in evidence.changes
        if change.observer == CONTROLLER
    ]
    for (observer,), rows in groups(views.observer):
        of_observer = views.take(rows)
        for row in np.flatnonzero(of_observer.changed).tolist():
            leader, epoch = (
                None if column[row] == NULL else int(column[row]) for column in (of_observer.leader, of_observer.epoch)
            )
            found.append(
                {
                    "t_ns": int(of_observer.received_ns[row]),
                    "leader": leader,
                    "leader_epoch": epoch,
                    "isr": of_observer.members(row),
                    "observer": evidence.names.listed[observer],
                }
            )
    return pa.Table.from_pylist([{**evidence.where._asdict(), **row} for row in found], TIMELINE_ISR)
