"""The archive's metrics: direction, unit and description."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple


class Metric(NamedTuple):
    """A metric, judged if it has ``better``; a ``time`` may be censored.

    Above ``limit``, the host disturbed what was measured in that phase.
    """

    better: Literal["lower", "higher"] | None
    unit: str
    words: str
    kind: Literal["value", "time", "count"] = "value"
    of_run: bool = False
    limit: float | None = None


# Not all are archived: ``isr_full`` mostly reflects the fault's duration.
RECOVERY = {
    "detect": "time until a fault was noticed",
    "elect": "time until a new leader was elected",
    "isr_shrink": "time until the ISR shrank",
    "isr_full": "time from the fault until the ISR was full again",
    "catch_up": "time from the heal until the ISR was full again",
    "rebalanced": "time from the heal until leadership was balanced again",
    "write_unavailable": "time in which nothing was acknowledged",
    "hw_stall": "time in which the high watermark stood still",
}
_REQUESTS = {"produce": "produce requests", "fetch_follower": "followers' fetch requests"}
_REQUEST_PARTS = {
    "": "time of {}",
    "_queue": "time of {} in the request queue",
    "_local": "time of {} at the leader",
    "_remote": "time of {} waiting for other brokers",
    "_send": "time of {} in sending the response",
}
METRICS: dict[str, Metric] = {
    "latency_p50_ms": Metric("lower", "ms", "median latency"),
    "latency_p99_ms": Metric("lower", "ms", "p99 latency"),
    "latency_p999_ms": Metric("lower", "ms", "p99.9 latency"),
    "end_to_end_p50_ms": Metric("lower", "ms", "median end-to-end latency"),
    "end_to_end_p99_ms": Metric("lower", "ms", "p99 end-to-end latency"),
    "end_to_end_p999_ms": Metric("lower", "ms", "p99.9 end-to-end latency"),
    "sustainable_rate_per_s": Metric("higher", "/s", "sustainable rate at the p99 limit", of_run=True),
    "broker_cpu_s_per_gb": Metric("lower", "s/GB", "broker CPU per GB"),
    "broker_memory_peak_mb": Metric("lower", "MB", "peak memory of the brokers", of_run=True),
    **{f"{name}_s": Metric("lower", "s", words, "time") for name, words in RECOVERY.items() if name != "isr_full"},
    "loss_ratio": Metric("lower", "", "share of acknowledged records lost", "count", of_run=True),
    "duplication_ratio": Metric("lower", "", "share of records that are copies", "count", of_run=True),
    "down_s": Metric(None, "s", "time from the order to stop a broker until the order to start it"),
    "offered_per_s": Metric(None, "/s", "offered load"),
    "acked_per_s": Metric(None, "/s", "acknowledged load"),
    "achieved_ratio": Metric(None, "", "share of the offered load that was achieved"),
    "network_in_mb_per_s": Metric(None, "MB/s", "network in"),
    "network_out_mb_per_s": Metric(None, "MB/s", "network out"),
    "disk_read_mb_per_s": Metric(None, "MB/s", "disk read"),
    "disk_write_mb_per_s": Metric(None, "MB/s", "disk written"),
    "gc_ms": Metric(None, "ms", "garbage collection of the brokers"),
    **{
        f"request_{request}{part}_ms": Metric(None, "ms", words.format(whose))
        for request, whose in _REQUESTS.items()
        for part, words in _REQUEST_PARTS.items()
    },
    "others_per_s": Metric(None, "/s", "records that others wrote to the cluster"),
    "host_pressure_cpu_ratio": Metric(None, "", "share of time in which something waited for a CPU"),
    "host_pressure_io_ratio": Metric(None, "", "share of time in which something waited for a disk", limit=0.20),
    "host_other_cpu_ratio": Metric(
        None, "", "share of CPU time that was neither idle nor any node's of the run", limit=0.25
    ),
    "host_steal_ratio": Metric(None, "", "share of CPU time taken by other machines", limit=0.05),
}


def disturbed(row: Mapping[str, Any]) -> bool:
    """Return whether a row of the archive or of ``metrics`` shows that the host disturbed the run."""
    limit = metric_of(row["metric"]).limit
    return limit is not None and (row["value"] or 0) > limit


def metric_of(name: str) -> Metric:
    """Return a metric, unjudged if unknown."""
    return METRICS.get(name, Metric(None, "", name))


def why_not_in(name: str, phase: str, phases: Collection[str]) -> str | None:
    """Return why a metric has no value in a phase ("": the run)."""
    known = ", ".join(phases)
    if metric_of(name).of_run:
        return f"{name} is measured over the whole run; name no phase" if phase else None
    if not phase:
        return f"{name} is measured in each phase; name one of {known}"
    return None if phase in phases else f"there is no phase {phase!r}, known: {known}"
