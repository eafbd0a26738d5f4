"""Down-sample one partition's replica series for plots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from evidence.columns import NULL, Bools, Ints, groups, joined
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from history.partition import TopicPartition
from history.tables import CONTROLLER, TIMELINE_ISR, TIMELINE_REPLICAS

BUCKETS = 900  # two points each: about 2,000 per replica
GAP_NS = 300_000_000


def gap_limit_ns(probe_hz: float) -> int:
    """Return after how long without a sample a replica is unobserved."""
    return max(GAP_NS, int(3e9 / probe_hz)) if probe_hz else GAP_NS


class ReplicaSeries:
    """HW and LEO of every replica: first and last sample per bucket, both sides of each fall and epoch change, and each
    gap (nulls). Each broker's last sample waits for the next one, which decides whether it is kept.
    """

    def __init__(self, evidence: PartitionEvidence, probe_hz: float) -> None:
        self._where, self._limit_ns = evidence.where, gap_limit_ns(probe_hz)
        self._observed = sorted(evidence.observed.items())
        self._waiting: dict[int, tuple[Samples, bool]] = {}  # a sample, and whether it is kept already
        self._points: list[tuple[int, Samples, Ints]] = []

    def add(self, samples: Samples) -> None:
        """Add the samples of a window."""
        new = samples.take(~samples.carried)
        for broker_id, span in self._observed:
            own = new.of_broker(broker_id).answered
            if len(own):
                self._add(broker_id, span, own)

    def _add(self, broker_id: int, span: tuple[int, int], own: Samples) -> None:
        before, is_kept = self._waiting.get(broker_id, (own.take(slice(0)), True))
        own = before.then(own)
        kept, gaps = self._decided(own, span, first=not len(before))
        kept[0] |= is_kept
        self._points.append((broker_id, own.take(kept[:-1].nonzero()[0]), gaps))
        self._waiting[broker_id] = own.take(slice(-1, None)), bool(kept[-1])

    def _decided(self, own: Samples, span: tuple[int, int], *, first: bool) -> tuple[Bools, Ints]:
        """Return which samples are kept, the last one if those before it suffice, and the gaps between them."""
        from_ns, to_ns = span
        t_ns, turned = own.received_ns, _turned(own)
        bucket = np.floor((t_ns - from_ns) / ((to_ns - from_ns + 1) / BUCKETS))
        apart = (bucket[1:] != bucket[:-1]) | turned | (np.diff(t_ns) > self._limit_ns)
        kept = np.append(first, apart)
        kept[:-1] |= apart
        gaps = t_ns[:-1][np.diff(t_ns) > self._limit_ns] + 1
        if first and t_ns[0] - from_ns > self._limit_ns:
            gaps = np.append(from_ns, gaps)
        return kept, gaps

    def table(self) -> pa.Table:
        """Return rows of ``history.tables.TIMELINE_REPLICAS``."""
        points = list(self._points)
        for broker_id, (from_ns, to_ns) in self._observed:
            last, _ = self._waiting.get(broker_id, (None, True))
            if last is None:
                points.append((broker_id, Samples.nothing(), np.array([from_ns], dtype=np.int64)))
            else:
                ends_ns = last.received_ns[to_ns - last.received_ns > self._limit_ns] + 1
                points.append((broker_id, last, ends_ns))

        def column(of_samples: str) -> Iterator[Ints]:
            for _, kept, gaps in points:
                yield from (getattr(kept, of_samples), np.full(gaps.size, NULL))

        brokers = (np.full(len(kept) + gaps.size, broker_id) for broker_id, kept, gaps in points)
        moments = (np.concatenate([kept.received_ns, gaps]) for _, kept, gaps in points)
        columns = {"broker_id": brokers, "t_ns": moments, "leader_epoch": column("epoch")}
        columns |= {"high_watermark": column("hw"), "log_end_offset": column("leo")}
        return _table(self._where, columns, TIMELINE_REPLICAS)


def _turned(own: Samples) -> Bools:
    """Return which samples, from the second on, fell or have another epoch."""
    epoch, before = own.epoch[1:], own.epoch[:-1]
    turned: Bools = (epoch != before) & (epoch != NULL) & (before != NULL)
    return turned | (own.hw[1:] < own.hw[:-1]) | (own.leo[1:] < own.leo[:-1])


def _table(where: TopicPartition, columns: dict[str, Iterator[Ints]], schema: pa.Schema) -> pa.Table:
    series = {name: joined(parts) for name, parts in columns.items()}
    rows = series["t_ns"].size
    arrays = {name: pa.array(values, mask=values == NULL) for name, values in series.items()}
    named = {"topic": [where.topic] * rows, "partition": [where.partition] * rows}
    return pa.table({**named, **arrays}).select(schema.names).cast(schema)


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
