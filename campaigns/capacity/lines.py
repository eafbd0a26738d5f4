"""A capacity plan as a table."""

from __future__ import annotations

from collections.abc import Iterator

from campaigns.capacity.words import amount, seconds
from history.results.capacity import CapacityResult, Interval, Plan, PlanLine, Throttle


def plan_table(result: CapacityResult, plan: Plan) -> Iterator[PlanLine]:
    """Yield a line per figure, with interval and source."""
    yield _line("peak load today", _rate(plan.peak_mb_per_s), "load times burst")
    yield _line(f"peak load in {result.question.horizon_months} months", _rate(plan.later_mb_per_s), "growth")
    yield from _safe_lines(result, plan)
    yield from _catch_up_lines(result, plan)
    yield from _disk_lines(result, plan)
    yield from _partition_lines(result, plan)
    throttled = result.throttle or Throttle(progress=None, target=None, latency=None)
    yield _line("replication throttle, above", _rate(throttled.progress), "progress: w")
    yield _line("replication throttle, target", _rate(throttled.target), "target recovery")
    yield _line("replication throttle, below", _rate(throttled.latency), "spare of the peers")
    if ends := result.exhaustion:
        yield _line("safe load is used up", ends.first or "–", "growth", f"to {ends.last}" if ends.last else "")


def _safe_lines(result: CapacityResult, plan: Plan) -> Iterator[PlanLine]:
    steps, healthy = "load steps, by each broker's share", "healthy less a rack" if result.question.racks else "healthy"
    yield _of("healthy knee", plan.healthy_knee, "MB/s", steps)
    yield _of("degraded knee, one broker away", plan.degraded_knee, "MB/s", steps)
    yield _line("what the others take over", f"× {amount(plan.failure_factor)}", _taken_over(result))
    if plan.rack_factor:
        yield _line("what the others take over, a rack away", f"× {amount(plan.rack_factor)}", "racks / (racks - 1)")
    least = f"the least lower bound of degraded and {healthy}"
    yield _line("safe by latency", _rate(plan.safe_latency_mb_per_s), least)
    yield _line("safe by recovery", _rate(plan.safe_recovery_mb_per_s), "upper bound of T, tried")


def _catch_up_lines(result: CapacityResult, plan: Plan) -> Iterator[PlanLine]:
    catch_up, away = result.catch_up, seconds(result.question.downtime_s)
    runs = f"{catch_up.fitted_runs} runs with a broker away"
    yield _of("R, largest catch-up ingest at the peak load", plan.rate_mb_per_s, "MB/s", runs)
    yield _of("T0, start until it fetches", catch_up.start_s, "s", runs)
    if catch_up.cold_rate is not None:
        yield _of("R from disk", catch_up.cold_rate, "MB/s", "cold runs")
        yield _of(f"T after {away} away, cold", plan.cold_catch_up_s, "s", "cold runs")
    yield _of(f"T after {away} away", plan.catch_up_s, "s", "model, one new run")
    yield _of("under-replicated window D + T", plan.window_s, "s", "model, one new run")
    kept = f"target less {catch_up.leadership_s:.1f} s for leadership"
    yield _of("longest tolerable downtime", plan.longest_down_s, "s", kept)
    needed = f"needed {amount(plan.needed_headroom)}"
    yield _line("headroom R/w", amount(plan.headroom), "(T* + D) / (T* - T0)", needed)
    yield _line("spare of each peer for it", _rate(plan.peer_spare_mb_per_s), "(R - w) / (B - 1)")


def _taken_over(result: CapacityResult) -> str:
    question = result.question
    own_rack = question.racks == question.replication_factor and question.brokers > question.racks
    return "n / (n - 1), n brokers in its rack" if own_rack else "B / (B - 1)"


def _disk_lines(result: CapacityResult, plan: Plan) -> Iterator[PlanLine]:
    question, disk = result.question, plan.disk
    rule = "retention by size, segments" if disk.by_size else "W · RF · retention / B, segments"
    yield _line("stored on each broker", f"{amount(disk.retained_gb + disk.segments_gb)} GB", rule)
    away = "a broker or a rack, the worse" if question.racks else "a broker"
    yield _line("the same with one away", f"{amount(disk.needed_gb)} GB", f"{away}; replicas made again")
    if disk.disk_gb is not None:
        of_disk = f"of {amount(disk.disk_gb)} GB"
        yield _line(f"the same in {question.horizon_months} months", f"{amount(disk.later_gb)} GB", of_disk)
        full, last = f"{_rate(disk.full_mb_per_s)} on average", f"to {disk.last}" if disk.last else ""
        yield _line("disk is full", disk.first or "never", full, last)
    yield _line("rebuild of an empty broker", seconds(plan.rebuild_s), "stored / (R - w), R no more than its disk")


def _partition_lines(result: CapacityResult, plan: Plan) -> Iterator[PlanLine]:
    yield _line("partitions on each broker", f"{plan.partitions_on_each:.0f}", "replicas: partitions · RF / B")
    if result.partitions is None or result.partitions.at_asked is None:
        return
    cost, source = result.partitions.at_asked, f"interpolated, at {result.partitions.write_mb_per_s:g} MB/s"
    yield _line("CPU with so many partitions", f"{amount(cost.cpu_s_per_mb)} s per MB", source)
    yield _line("p99 with so many partitions", f"{amount(cost.p99_ms)} ms", source)
    yield _line("recovery with so many partitions", seconds(cost.recovery_s), source)


def _rate(mb_per_s: float | None) -> str:
    return f"{amount(mb_per_s)} MB/s"


def _line(what: str, value: str, source: str, interval: str = "") -> PlanLine:
    return PlanLine(what=what, value=value, interval=interval, source=source)


def _of(what: str, interval: Interval | None, unit: str, source: str) -> PlanLine:
    if interval is None:
        return _line(what, amount(None), source)
    low, high = (amount(bound) if bound is not None else "open" for bound in (interval.low, interval.high))
    value = "none finite" if interval.estimate is None else f"{amount(interval.estimate)} {unit}"
    return _line(what, value, source, f"{low} to {high}")
