"""The measurements of a run (docs/metrics.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

from evidence.faults import FaultSpan
from history.events import Event
from history.manifest import Manifest
from history.metrics import METRICS, disturbed, metric_of
from history.tables import PHASE_START
from judge.checks.delivery import gone
from judge.measures.latency import QUANTILES

Row = Mapping[str, Any]

MIN_ACHIEVED = 0.995  # below it, latencies are of a smaller load than stated
_NEVER = "so many of the sends were never {} that there is no such percentile"
# The success-failure condition n (1 - q) >= 10 of OpenIntro Statistics.
MIN_BEYOND = 10
MIN_SAMPLES = {name: round(MIN_BEYOND / (1 - share)) for name, share in QUANTILES.items()}
_LATENCIES = (  # prefixes, the samples, and the event that a missing time lacks
    ("latency_", "", "acked", "acknowledged"),
    ("end_to_end_", "end_to_end_", "received", "received"),
)
_OF_STEADY_STATE = ("latency_", "end_to_end_", "broker_cpu_")
_MB = 1e6
_GB = 1e9


@dataclass(frozen=True)
class Measured:
    """What the metrics are computed from."""

    manifest: Manifest
    events: Sequence[Event]
    faults: Sequence[FaultSpan]
    latency: Sequence[Row]
    recovery: Sequence[Row]
    delivery: Mapping[str, int]
    usage: Sequence[Row] = field(default_factory=list)
    unsteady: Mapping[str, str] = field(default_factory=dict)  # phase → reason


def least_load(metric: str) -> int:
    """Return how many records a metric needs in a phase."""
    of_percentile = {f"{kind}{name}": least for (kind, *_), (name, least) in product(_LATENCIES, MIN_SAMPLES.items())}
    return of_percentile.get(metric, int(metric == "broker_cpu_s_per_gb"))


def metrics(run: Measured) -> list[dict[str, Any]]:
    """Return rows of ``history.tables.METRICS``."""
    found = [
        *_load(run),
        *_sustainable(run),
        *_times(run.recovery),
        *_downtimes(run.faults),
        *_records(run.delivery),
        *_used(run),
    ]
    return _distrusted(_without_steady_state(found, run.unsteady), _pressure(found))


def _row(metric: str, value: float | None, phase: str = "", **more: Any) -> dict[str, Any]:
    usual = {"samples": None, "censored": False, "trusted": True, "note": None}
    return {"metric": metric, "phase": phase, "value": value, **usual, **more}


# --- load and latency ----------------------------------------------------------------------------


def _load(run: Measured) -> Iterator[dict[str, Any]]:
    for row in run.latency:
        phase, seconds = row["phase"], row["seconds"]
        yield _row("offered_per_s", row["due"] / seconds, phase, samples=row["due"])
        yield _row("acked_per_s", row["arrived"] / seconds, phase, samples=row["arrived"])
        yield _row("achieved_ratio", _achieved(row), phase, samples=row["owed"])
        for (metric, column, counted, done), (name, least) in product(_LATENCIES, MIN_SAMPLES.items()):
            value, samples = row[f"{column}{name}"], row[counted]
            why = _no_latency(row, samples, least) or (_NEVER.format(done) if value is None else None)
            yield _row(f"{metric}{name}", value, phase, samples=samples, trusted=why is None, note=why)


def _achieved(row: Row) -> float:
    """Return the share of required sends acknowledged within the phase."""
    return float(row["kept"] / row["owed"]) if row["owed"] else 1.0


def _no_latency(row: Row, samples: int, least: int) -> str | None:
    if (achieved := _achieved(row)) < MIN_ACHIEVED:
        return f"{achieved:.1%} of the offered load was acknowledged in time; {MIN_ACHIEVED:.1%} is needed"
    if samples < least:
        return f"{samples} samples; {least} are needed"
    return None


def _sustainable(run: Measured) -> Iterator[dict[str, Any]]:
    """Yield the largest offered rate whose p99 stays within the scenario's limit.

    Log p99 is linear between rates. Slow phases at lower rates are ignored: the JVM still compiles.
    """
    limit_s = next((load.get("p99_limit") for load in run.manifest.loads.values()), None)  # needs a single load
    stepped = {event.phase for event in run.events if event.kind == "rate_set"}
    steps = [row for row in run.latency if row["phase"] in stepped and row["due"]]
    if limit_s is None or not steps:
        return
    never = math.inf  # p99 of unacknowledged records
    points = sorted(
        (row["due"] / row["seconds"], never if row["phase"] in run.unsteady else row["p99_ms"] or never)
        for row in steps
    )
    rate, censored, note = crossing(points, 1000 * limit_s)
    name, samples = "sustainable_rate_per_s", sum(row["due"] for row in steps)
    yield _row(name, rate, samples=samples, censored=censored, trusted=rate is not None and not censored, note=note)


def crossing(points: Sequence[tuple[float, float]], limit_ms: float) -> tuple[float | None, bool, str | None]:
    """Return (rate at the limit, whether it is a lower bound, why there is none)."""
    kept = [at for at, (_, p99_ms) in enumerate(points) if p99_ms <= limit_ms]
    if not kept:
        return None, False, f"p99 is above {limit_ms:g} ms, or in no steady state, at every rate that was offered"
    (low, low_ms), *beyond = points[kept[-1] :]
    if not beyond:
        return low, True, f"p99 stayed within {limit_ms:g} ms at the highest rate that was offered"
    high, high_ms = beyond[0]
    return low + math.log(limit_ms / low_ms) / math.log(high_ms / low_ms) * (high - low), False, None


# --- recovery and records ------------------------------------------------------------------------


def _times(recovery: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield each phase's longest time.

    An unknown time removes the value; an upper bound makes it unfit for comparison.
    """
    by_phase: dict[tuple[str, str], list[Row]] = {}
    for row in recovery:
        if f"{row['metric']}_s" in METRICS:
            by_phase.setdefault((f"{row['metric']}_s", row["phase"]), []).append(row)
    for (metric, phase), rows in by_phase.items():
        known = [row["value_ms"] / 1000 for row in rows if row["value_ms"] is not None]
        value = max(known) if len(known) == len(rows) else None
        bounds = [row["note"] for row in rows if row["source"] == "metadata"]
        about = {"trusted": not bounds, "note": next(iter(bounds), None)}
        yield _row(metric, value, phase, samples=len(rows), censored=any(row["censored"] for row in rows), **about)


def _downtimes(faults: Iterable[FaultSpan]) -> Iterator[dict[str, Any]]:
    longest: dict[str, float] = {}
    for fault in faults:
        if fault.step in {"kill", "stop"} and "heal" in fault.events:
            down_s = (fault.at_ns("heal") - fault.from_ns) / 1e9
            longest[fault.phase] = max(longest.get(fault.phase, 0.0), down_s)
    for phase, seconds in longest.items():
        yield _row("down_s", seconds, phase)


def _records(delivery: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    if acked := delivery.get("acked"):
        yield _row("loss_ratio", gone(delivery) / acked, samples=acked)
        yield _row("duplication_ratio", delivery["duplicate_copies"] / acked, samples=acked)


# --- resource use --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stretch:
    phase: str
    seconds: float
    grown: Mapping[tuple[str, str], float]

    def of(self, name: str, sources: Iterable[str]) -> float | None:
        """Return a counter's growth over all sources, if known."""
        found = [self.grown.get((source, name)) for source in sources]
        known = [value for value in found if value is not None]
        return math.fsum(known) if known and len(known) == len(found) else None


def _used(run: Measured) -> Iterator[dict[str, Any]]:
    brokers = [node.name for node in run.manifest.brokers]
    record_bytes = {producer.record_bytes for producer in run.manifest.producers if producer.rate_per_s}
    one_size = record_bytes.pop() if len(record_bytes) == 1 else 0  # unknown if record sizes differ
    bytes_of = {row["phase"]: row["arrived"] * one_size for row in run.latency}
    phases = {event.phase for event in run.events if event.kind == "phase_started"}
    for stretch in (found for found in _stretches(run.usage) if found.phase in phases):
        yield from _rates(stretch, brokers)
        yield from _requests(stretch, brokers)
        yield from _of_host(stretch)
        yield from _of_others(stretch)
        cpu_ns, written = stretch.of("cpu_ns", brokers), bytes_of.get(stretch.phase, 0)
        if cpu_ns is not None and written:
            yield _row("broker_cpu_s_per_gb", cpu_ns / 1e9 / (written / _GB), stretch.phase)
    peaks = [row["value"] for row in run.usage if row["name"] == "memory_peak_bytes" and row["source"] in brokers]
    if peaks:
        yield _row("broker_memory_peak_mb", max(peaks) / _MB, samples=len(peaks))


def _stretches(usage: Sequence[Row]) -> Iterator[_Stretch]:
    """Yield the times between boundaries; a restarted counter has no growth."""
    labels: dict[str, int] = {}
    for row in usage:
        labels.setdefault(row["label"], row["t_ns"])
    values = {(row["label"], row["source"], row["name"]): row["value"] for row in usage}
    in_order = sorted(labels, key=lambda label: labels[label])
    for before, after in pairwise(in_order):
        keys = [(source, name) for label, source, name in values if label == after and (before, source, name) in values]
        grown = {key: values[after, *key] - values[before, *key] for key in keys}
        if after.endswith(PHASE_START):
            continue  # between phases
        seconds = (labels[after] - labels[before]) / 1e9
        yield _Stretch(after, seconds, {key: value for key, value in grown.items() if value >= 0})


def _rates(stretch: _Stretch, brokers: Sequence[str]) -> Iterator[dict[str, Any]]:
    for counter in ("network_in", "network_out", "disk_read", "disk_write"):
        grown = stretch.of(f"{counter}_bytes", brokers)
        if grown is not None:
            yield _row(f"{counter}_mb_per_s", grown / _MB / stretch.seconds, stretch.phase)
    if (gc_ms := stretch.of("gc_ms", brokers)) is not None:
        yield _row("gc_ms", gc_ms, stretch.phase)


_REQUESTS = {"produce": "Produce", "fetch_follower": "FetchFollower"}
_PARTS = {"": "total", "_queue": "request_queue", "_local": "local", "_remote": "remote", "_send": "response_send"}


def _requests(stretch: _Stretch, brokers: Sequence[str]) -> Iterator[dict[str, Any]]:
    for ours, theirs in _REQUESTS.items():
        count = stretch.of(f"request_count{{{theirs}}}", brokers)
        for part, name in _PARTS.items():
            total_ms = stretch.of(f"request_{name}_ms{{{theirs}}}", brokers)
            if count and total_ms is not None:
                yield _row(f"request_{ours}{part}_ms", total_ms / count, stretch.phase, samples=int(count))


def _of_host(stretch: _Stretch) -> Iterator[dict[str, Any]]:
    for name, metric in (("psi_cpu_some_us", "host_pressure_cpu_ratio"), ("psi_io_some_us", "host_pressure_io_ratio")):
        waited = stretch.of(name, ["host"])
        if waited is not None:
            yield _row(metric, waited / 1e6 / stretch.seconds, stretch.phase)
    steal, busy, idle = (stretch.of(name, ["host"]) for name in ("steal_ns", "busy_ns", "idle_ns"))
    if steal is None or busy is None or idle is None or not (capacity := steal + busy + idle):
        return
    yield _row("host_steal_ratio", steal / capacity, stretch.phase)
    own = [value for (source, name), value in stretch.grown.items() if name == "cpu_ns" and source != "host"]
    if own:
        yield _row("host_other_cpu_ratio", max(busy - math.fsum(own), 0.0) / capacity, stretch.phase)


def _of_others(stretch: _Stretch) -> Iterator[dict[str, Any]]:
    """Yield what others wrote, unless topics came or went meanwhile."""
    written = stretch.of("records", ["others"])
    if written is not None and stretch.of("partitions", ["others"]) == 0:
        yield _row("others_per_s", written / stretch.seconds, stretch.phase, samples=round(written))


# --- untrusted measurements ----------------------------------------------------------------------


def _pressure(found: Iterable[Row]) -> dict[str, str]:
    """Return phase → why the host disturbed it.

    CPU pressure does not count: brokers under a quota cause it.
    """
    return {
        row["phase"]: f"the {metric.words} was {row['value']:.0%}, above {metric.limit:.0%}"
        for row in found
        if disturbed(row) and (metric := metric_of(row["metric"]))
    }


def _without_steady_state(found: list[dict[str, Any]], unsteady: Mapping[str, str]) -> list[dict[str, Any]]:
    for row in found:
        if row["trusted"] and row["phase"] in unsteady and row["metric"].startswith(_OF_STEADY_STATE):
            row["trusted"], row["note"] = False, unsteady[row["phase"]]
    return found


def _distrusted(found: list[dict[str, Any]], pressed: Mapping[str, str]) -> list[dict[str, Any]]:
    anywhere = next(iter(pressed.values()), None)
    for row in found:
        why = pressed.get(row["phase"]) if row["phase"] else anywhere
        if why and not row["metric"].startswith(("loss", "duplication", "host", "others")):
            row["trusted"], row["note"] = False, why
    return found
