"""Export metrics of active runs from their clients' records."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from prometheus_client.metrics_core import CounterMetricFamily as Counter
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import HistogramMetricFamily as Histogram
from prometheus_client.metrics_core import InfoMetricFamily as Info
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from clusters.clients.ledger import acknowledged_times
from history.events import Event
from history.folder import RunFolder
from history.manifest import read_manifest
from history.streams import StreamTails
from reports.timeline import Span, faults
from service.load_rates import accounts
from service.progress import Tail

LIVE_S = 15.0  # clients report each second
FRESH_NS = 10_000_000_000  # older replicas and views are left out
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BUCKETS_NS = np.array([int(edge * 1e9) for edge in BUCKETS_S])
_REPLICA = ["topic", "partition", "broker_id"]
_VIEW = ["topic", "partition", "observer"]
# A client's count (``so_far``) → metric.
_COUNTS = {
    "due": "plimsoll_records_offered",
    "sent": "plimsoll_records_sent",
    "acked": "plimsoll_records_acknowledged",
    "received": "plimsoll_records_received",
}
_RUN, _CLIENT, _PARTITION = ["run"], ["run", "client"], ["run", "topic", "partition"]
_ONE_REPLICA, _FAULT = [*_PARTITION, "broker"], ["run", "phase", "fault", "target"]
_FAMILIES = (
    (Info, "plimsoll_run", "An active run", _RUN),
    (Counter, "plimsoll_records_offered", "Records that were due", _CLIENT),
    (Counter, "plimsoll_records_sent", "Records handed to the client library", _CLIENT),
    (Counter, "plimsoll_records_acknowledged", "Records acknowledged by the brokers", _CLIENT),
    (Counter, "plimsoll_records_received", "Records that the live consumer read", _CLIENT),
    (Histogram, "plimsoll_produce_latency_seconds", "Time from when a record was due until acknowledged", _CLIENT),
    (Gauge, "plimsoll_group_lag_records", "Consumer lag of a member's partitions", _CLIENT),
    (Gauge, "plimsoll_replica_high_watermark", "High watermark of a replica", _ONE_REPLICA),
    (Gauge, "plimsoll_replica_log_end_offset", "Log end offset of a replica", _ONE_REPLICA),
    (Gauge, "plimsoll_replica_lag_records", "Distance from the partition's furthest log end offset", _ONE_REPLICA),
    (Gauge, "plimsoll_partition_isr_size", "In-sync replicas of a partition", _PARTITION),
    (Gauge, "plimsoll_fault_active", "1 from a fault's injection until it is cleared, then 0", _FAULT),
    (Gauge, "plimsoll_fault_injected_timestamp_seconds", "When a fault was last injected", _FAULT),
)


def families(declared: Iterable[tuple[Any, str, str, list[str]]]) -> dict[str, Any]:
    """Return metrics without samples."""
    return {
        name: kind(name, words, labels=labels, **({"unit": "seconds"} if name.endswith("_seconds") else {}))
        for kind, name, words, labels in declared
    }


class LiveRuns(Collector):
    """Collect metrics of a folder's active runs; a scrape reads only new data."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._followed: dict[Path, LiveRun] = {}
        self._scraping = Lock()

    def collect(self) -> Iterable[Metric]:
        metrics = families(_FAMILIES)
        with self._scraping:
            live = {run: self._followed.get(run) or LiveRun(RunFolder(run)) for run in _live(self._runs)}
            self._followed = live
            for run in live.values():
                with suppress(FileNotFoundError):  # being sealed: streams became tables
                    run.add_to(metrics)
        return metrics.values()


def _live(runs: Path) -> Iterator[Path]:
    for work in sorted(runs.glob("*/work")):
        told_s = [_modified_s(file) for file in RunFolder(work.parent).clients.glob("*.json")]
        if max(told_s, default=0.0) > time.time() - LIVE_S:
            yield work.parent


def _modified_s(file: Path) -> float:
    with suppress(FileNotFoundError):
        return file.stat().st_mtime
    return 0.0


class LiveRun:
    """Follow a run in its files."""

    def __init__(self, folder: RunFolder) -> None:
        self.events: list[Event] = []
        self._folder = folder
        self._manifest = read_manifest(folder.manifest)
        self._new_events = Tail(folder.events)
        self._streams = StreamTails(folder.work / "streams")
        self._latency = defaultdict[str, _Latency](_Latency)
        self._replicas: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        self._views: dict[tuple[Any, ...], Mapping[str, Any]] = {}

    def seconds(self, t_ns: int) -> float:
        return (t_ns - self.events[0].t_ns) / 1e9

    def add_to(self, families: Mapping[str, Any]) -> None:
        run, manifest = self._folder.run_id, self._manifest
        about = {"scenario": manifest.scenario_name, "kafka_version": manifest.kafka_version}
        families["plimsoll_run"].add_metric([run], about | {"runtime": manifest.runtime or ""})
        for client, counts in accounts(self._folder.clients):
            for name in _COUNTS.keys() & counts.keys():
                families[_COUNTS[name]].add_metric([run, client], counts[name])
            if "lag" in counts:
                families["plimsoll_group_lag_records"].add_metric([run, client], counts["lag"])
        self._add_latency(families)
        self._add_replicas(families)
        self._add_isr(families)
        self._add_faults(families)

    def _add_latency(self, families: Mapping[str, Any]) -> None:
        for client, batches in self._streams.new("sends"):
            for batch in batches:
                self._latency[client].add(batch)
        for client, latency in self._latency.items():
            families["plimsoll_produce_latency_seconds"].add_metric(
                [self._folder.run_id, client], latency.buckets(), latency.sum_s
            )

    def _add_replicas(self, families: Mapping[str, Any]) -> None:
        for _, batches in self._streams.new("replicas"):
            self._replicas |= _newest(batches, _REPLICA)
        seen = [row for row in _fresh(self._replicas) if row["error"] is None]
        ends = defaultdict[tuple[str, int], int](int)
        for row in seen:
            where = row["topic"], row["partition"]
            ends[where] = max(ends[where], row["log_end_offset"])
        for row in seen:
            labels = [self._folder.run_id, row["topic"], str(row["partition"]), str(row["broker_id"])]
            lag = ends[row["topic"], row["partition"]] - row["log_end_offset"]
            families["plimsoll_replica_high_watermark"].add_metric(labels, row["high_watermark"])
            families["plimsoll_replica_log_end_offset"].add_metric(labels, row["log_end_offset"])
            families["plimsoll_replica_lag_records"].add_metric(labels, lag)

    def _add_isr(self, families: Mapping[str, Any]) -> None:
        """Add the newest leader's view, else the last one."""
        for _, batches in self._streams.new("isr"):
            self._views |= _newest(batches, _VIEW)
        best: dict[tuple[str, int], Mapping[str, Any]] = {}
        for view in sorted(_fresh(self._views), key=_authority):
            best[view["topic"], view["partition"]] = view
        for (topic, partition), view in best.items():
            labels = [self._folder.run_id, topic, str(partition)]
            families["plimsoll_partition_isr_size"].add_metric(labels, len(view["isr"] or []))

    def _add_faults(self, families: Mapping[str, Any]) -> None:
        self.events += [Event(**event) for event in self._new_events.events()]
        ended = {event.phase for event in self.events if event.kind == "phase_ended"}
        last: dict[tuple[str, str, str, str], Span] = {}
        active = set()
        for span in faults(self):
            fault = self._folder.run_id, span.phase, span.label, span.target
            last[fault] = span
            if not span.is_over and span.phase not in ended:
                active.add(fault)
        for fault, span in last.items():
            began_s = datetime.fromisoformat(self.events[0].wall).timestamp() + span.start_s
            families["plimsoll_fault_active"].add_metric(fault, fault in active)
            families["plimsoll_fault_injected_timestamp_seconds"].add_metric(fault, began_s)


class _Latency:
    """Count a run's acknowledgement times by bucket."""

    def __init__(self) -> None:
        self.sum_s = 0.0
        self._counts = np.zeros(len(BUCKETS_S) + 1, np.int64)

    def add(self, sends: pa.RecordBatch) -> None:
        """Add acknowledged sends that have a due time."""
        due_ns, done_ns = acknowledged_times(sends)
        times_ns = done_ns - due_ns
        held = np.searchsorted(_BUCKETS_NS, times_ns, side="left")
        self._counts += np.bincount(held, minlength=self._counts.size)
        self.sum_s += float(times_ns.sum()) / 1e9

    def buckets(self) -> Sequence[tuple[str, float]]:
        """Return each bucket's upper edge, and the number of times up to it."""
        return list(zip([*map(str, BUCKETS_S), "+Inf"], map(float, self._counts.cumsum()), strict=True))


def _newest(batches: list[pa.RecordBatch], key: list[str]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Return each key's last row."""
    table = pa.Table.from_batches(batches)
    numbered = table.append_column("number", pa.array(np.arange(table.num_rows)))
    last = numbered.group_by(key).aggregate([("number", "max")])["number_max"]
    return {tuple(row[name] for name in key): row for row in table.take(last).to_pylist()}


def _fresh(rows: Mapping[Any, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    since_ns = time.monotonic_ns() - FRESH_NS
    return (row for row in rows.values() if row["received_ns"] > since_ns)


def _authority(view: Mapping[str, Any]) -> tuple[int, bool, int]:
    """Return views' sort key: brokers in older leader epochs know less."""
    return view["leader_epoch"] or 0, view["observer"] == str(view["leader"]), view["received_ns"]
