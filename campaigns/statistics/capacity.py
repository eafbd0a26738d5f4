"""The capacity model: load within the target latency, and the plan.

The unit is a run; loads and rates are MB/s (10^6 bytes) after compression. See docs/capacity.md and
docs/dev/adr/0009-capacity-model.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy import stats

from campaigns.statistics.catch_up import CONFIDENCE, CatchUp, Interval, needed_headroom
from history.errors import BadInput
from history.results.capacity import PartitionCost, Reserve

DAYS_A_MONTH = 365.25 / 12
MOST_BROKERS = 10_000  # above the largest known clusters
MOST_RUNS = 1_000


class Step(NamedTuple):
    """A run's offered load; a missed one has infinite p99."""

    load: float
    p99_ms: float
    run_id: str = ""


@dataclass(frozen=True)
class Knee:
    """The largest offered load with p99 within its target.

    ``load.low``: p99's upper bound exceeds the target. Beyond ``offered``, the largest tried load, an open interval
    means unknown. ``runs`` is the fewest of any step.
    """

    load: Interval
    offered: float
    runs: int
    curve: list[dict[str, float]]  # by load: estimate, low, high of p99 in ms, runs

    @property
    def safe(self) -> float:
        return min(self.load.low, self.offered)


def knee(steps: Iterable[Step], target_ms: float) -> Knee:
    """Return where the t interval of mean ln p99 crosses the target; a single run has safe load 0.

    Each run's p99 is one observation; percentiles are never averaged. Raises BadInput without steps.
    """
    by_load: dict[float, list[float]] = defaultdict(list)
    for step in steps:
        by_load[step.load].append(step.p99_ms)
    if not by_load:
        raise BadInput("Without measured load steps there is no knee; run the load steps first.")
    curve = [{"load": load, **_p99(found), "runs": len(found)} for load, found in sorted(by_load.items())]
    crossings = {name: _crossing(curve, name, target_ms) for name in ("estimate", "low", "high")}
    return Knee(
        load=Interval(crossings["estimate"], crossings["high"], crossings["low"]),
        offered=curve[-1]["load"],
        runs=min(len(found) for load, found in by_load.items() if load <= max(crossings["estimate"], min(by_load))),
        curve=curve,
    )


def _p99(found: Sequence[float]) -> dict[str, float]:
    """Unbounded if only some runs missed the load."""
    missed = sum(map(math.isinf, found))
    if missed:
        return {"estimate": math.inf, "low": math.inf if missed == len(found) else 0.0, "high": math.inf}
    logs = np.log(found)
    middle = float(logs.mean())
    if len(found) == 1:
        return {"estimate": math.exp(middle), "low": 0.0, "high": math.inf}
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(found) - 1) * logs.std(ddof=1) / math.sqrt(len(found)))
    return {"estimate": math.exp(middle), "low": math.exp(middle - reach), "high": math.exp(middle + reach)}


def _crossing(curve: Sequence[dict[str, float]], name: str, target_ms: float) -> float:
    """Linear in ln p99: 0 if exceeded at once, infinity if never."""
    held = 0.0, 0.0
    for row in curve:
        load, p99 = row["load"], row[name]
        if p99 > target_ms:
            if held[0] == 0.0 or not math.isfinite(p99):
                return held[0]
            rise = math.log(p99) - math.log(held[1])
            return held[0] + (load - held[0]) * (math.log(target_ms) - math.log(held[1])) / rise
        held = load, max(p99, 1e-9)
    return math.inf


def p99_at(curve: Sequence[Mapping[str, float]], load: float) -> dict[str, float] | None:
    """Return p99 (ms) and bounds at a load, linear in ln p99; None above the last step."""
    loads = [row["load"] for row in curve]
    if load > loads[-1]:
        return None
    above = min(bisect_left(loads, load), len(curve) - 1)
    if loads[above] <= load or above == 0:
        return {name: curve[above][name] for name in ("estimate", "low", "high")}
    share = (load - loads[above - 1]) / (loads[above] - loads[above - 1])
    names = ("estimate", "low", "high")
    return {name: _between(curve[above - 1][name], curve[above][name], share) for name in names}


def _between(first: float, last: float, share: float) -> float:
    unbounded = [end for end in (first, last) if end <= 0 or math.isinf(end)]
    return unbounded[0] if unbounded else math.exp((1 - share) * math.log(first) + share * math.log(last))


def spread_of(steps: Iterable[Step]) -> float | None:
    """Return the pooled standard deviation of ln p99 at one load; None without repeated loads."""
    by_load: dict[float, list[float]] = defaultdict(list)
    for step in steps:
        if math.isfinite(step.p99_ms):
            by_load[step.load].append(math.log(step.p99_ms))
    freedom = sum(len(logs) - 1 for logs in by_load.values())
    squares = sum(float(np.var(logs)) * len(logs) for logs in by_load.values())
    return math.sqrt(squares / freedom) if freedom else None


def runs_to_decide(estimate: float, target: float, spread: float, *, of_one_run: bool = False) -> int | None:
    """Return the fewest runs whose t interval, of the mean or ``of_one_run``, excludes the target; None: too many."""
    runs = np.arange(2, MOST_RUNS + 1)
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, runs - 1) * spread * np.sqrt(of_one_run + 1 / runs)
    enough = np.flatnonzero(reach < abs(math.log(target / estimate)))
    return int(runs[enough[0]]) if enough.size else None


def partition_curve(runs: Iterable[PartitionCost]) -> list[PartitionCost]:
    """Return median costs, fewest partitions first."""
    by_count: dict[float, list[PartitionCost]] = defaultdict(list)
    for run in runs:
        by_count[run.partitions].append(run)
    return [_partition_cost(count, len(found), partial(_median, found)) for count, found in sorted(by_count.items())]


def partition_cost_at(partitions: float, costs: Sequence[PartitionCost]) -> PartitionCost | None:
    """Interpolate a cost; None outside the measured range."""
    if not costs or not costs[0].partitions <= partitions <= costs[-1].partitions:
        return None

    def interpolated(name: str) -> float | None:
        known = [(cost.partitions, value) for cost in costs if (value := getattr(cost, name)) is not None]
        if not known or not known[0][0] <= partitions <= known[-1][0]:
            return None
        return float(np.interp(partitions, [count for count, _ in known], [value for _, value in known]))

    return _partition_cost(partitions, 0, interpolated)


def _partition_cost(partitions: float, runs: int, of: Callable[[str], float | None]) -> PartitionCost:
    costs = {name: of(name) for name in ("cpu_s_per_mb", "p99_ms", "recovery_s")}
    return PartitionCost.model_validate({"partitions": partitions, "runs": runs, **costs})


def _median(costs: Sequence[PartitionCost], name: str) -> float | None:
    known = [value for cost in costs if (value := getattr(cost, name)) is not None]
    return median(known) if known else None


def load_of_a_broker(write: float, replication_factor: int, brokers: int) -> float:
    """Return w: the write load into a broker's replicas, evenly spread."""
    return write * replication_factor / brokers


class Away(NamedTuple):
    """One of ``units`` is away; ``remade``: the others recreate its replicas."""

    units: int
    remade: bool

    def load_factor(self, times: float, lost: int) -> float:
        """Return U / (U - 1); without recreation, a byte passes ``lost`` of ``times`` times less."""
        return self.units / (self.units - 1) * (1.0 if self.remade else 1 - lost / times)


def broker_away(brokers: int, copies: int, racks: int | None = None) -> Away:
    """Return the units among brokers, or within a rack if each rack holds a full copy."""
    if racks == copies and brokers > racks:
        return Away(brokers // racks, remade=True)
    return Away(brokers, remade=brokers > copies)


def rack_away(racks: int, copies: int) -> Away:
    """Return the units among racks; as many racks as copies recreate nothing."""
    return Away(racks, remade=racks > copies)


class Demand(NamedTuple):
    """A broker's need of a resource: ``healthy``, ``degraded`` (a broker is away), ``rack_away`` (None: no racks)."""

    resource: str
    unit: str
    healthy: float
    degraded: float
    limit: float | None
    rule: str
    rack_away: float | None = None

    @property
    def use(self) -> float | None:
        return None if self.limit is None else max(self.degraded, self.rack_away or 0.0) / self.limit


def demands(
    write: float,
    *,
    brokers: int,
    replication_factor: int,
    consumer_groups: int,
    cpu_s_per_mb: float | None,
    catch_up: float,
    limits: dict[str, float],
    old_reads: float = 0.0,
    racks: int | None = None,
) -> list[Demand]:
    """Return demands per broker: CPU, network, disk, and what peers spare for a catch-up at R (``catch_up``).

    Bytes arrive RF and leave G + RF - 1 times (Amazon MSK's sizing equation), once less with a broker away if B is RF.
    """
    share, spare = 1 / brokers, max(catch_up - load_of_a_broker(write, replication_factor, brokers), 0.0)
    copies, outs, reads = replication_factor, consumer_groups + replication_factor - 1, consumer_groups * old_reads
    broker, rack = broker_away(brokers, copies, racks), rack_away(racks, copies) if racks else None

    def live(name: str, times: float, lost: int, rule: str, unit: str = "MB/s") -> Demand:
        each = write * times * share
        degraded, rack_away = (each * away.load_factor(times, lost) if away else None for away in (broker, rack))
        return Demand(name, unit, each, degraded or 0.0, limits.get(name), rule, rack_away)

    def catching_up(name: str, limit: str, times: float, rule: str) -> Demand:
        each = write * times * share  # live traffic includes the returning ones'
        degraded, rack_away = (each * n / (n - 1) + spare / (n - 1) if n else None for n in (brokers, racks))
        return Demand(name, "MB/s", 0.0, degraded or 0.0, limits.get(limit), rule, rack_away)

    cold = f"{'disk read + ' if reads else ''}(R - w) / (B - 1), cold"
    return [
        *([live("cpu", cpu_s_per_mb, 0, "CPU s per MB · W / B", "cores")] if cpu_s_per_mb is not None else []),
        live("network_in", copies, 1, "W · RF / B"),
        live("network_out", outs, 1, "W · (G + RF - 1) / B"),
        live("disk_write", copies, 1, "W · RF / B"),
        *([live("disk_read", reads, 0, "W · G · old reads / B")] if reads else []),
        catching_up("catch_up_out", "network_out", outs, "network out + (R - w) / (B - 1)"),
        catching_up("catch_up_disk_read", "disk_read", reads, cold),
    ]


def bottleneck(rows: Iterable[Demand]) -> Demand | None:
    """Return the resource nearest to its limit, if any."""
    return max((row for row in rows if row.use is not None), key=lambda row: row.use or 0.0, default=None)


class Throttle(NamedTuple):
    """Bounds of ``follower.replication.throttled.rate``, MB/s into the broker."""

    progress: float  # at or below, it never catches up
    target: float  # the least for the target recovery
    latency: float  # above, peers may miss the target latency


def throttle(
    load: float, *, down_s: float, target_s: float, start_s: float, spare_out: float, unthrottled: float
) -> Throttle:
    """Return bounds by progress (Kafka's operations guide), target, and the peers' spare; ``unthrottled`` is R."""
    return Throttle(load, load * needed_headroom(down_s, target_s, start_s), min(load + max(spare_out, 0), unthrottled))


def ledger(knee_load: float, reserves: Sequence[tuple[str, float]]) -> list[Reserve]:
    """List each reserve taken from the healthy knee, and the remainder, in MB/s of write load."""
    lines = [Reserve(item="healthy knee", amount=knee_load, left=knee_load)]
    for item, amount in reserves:
        lines.append(Reserve(item=item, amount=amount, left=lines[-1].left - amount))
    return lines


def months_until(load: float, limit: float, growth: float) -> float:
    """Return months until a load growing monthly by 1 + ``growth`` reaches a limit."""
    if load >= limit:
        return 0.0
    return math.log(limit / load) / math.log1p(growth) if growth > 0 else math.inf


def exhaustion(
    today: date, load: float, limit: Interval, growth: tuple[float, float]
) -> tuple[date | None, date | None]:
    """Return when the limit may be reached, with fast and with slow growth."""
    ends = months_until(load, limit.low, max(growth)), months_until(load, limit.high, min(growth))
    first, last = (today + timedelta(days=months * DAYS_A_MONTH) if months < 1200 else None for months in ends)
    return first, last


@dataclass(frozen=True)
class Measured:
    """Measurements on ``brokers``, scaled per broker to other numbers."""

    brokers: int
    replication_factor: int
    healthy: Knee
    degraded: Knee
    catch_up: CatchUp
    tried: float  # largest load into a broker that caught up

    def healthy_knee(self, brokers: int) -> Interval:
        return self.healthy.load.scaled(brokers / self.brokers)

    def degraded_knee(self, brokers: int) -> Interval:
        """Assume that its replicas did not move: the others' write load stays the same."""
        return self.degraded.load.scaled(brokers / self.brokers)

    def latency_load(self, brokers: int, racks: int | None = None, *, sure: bool = True) -> float:
        """Return the safe load, or that above which even p99's lower bound misses its target.

        After a rack's recreation, the others carry racks / (racks - 1).
        """
        degraded, healthy = (knee.safe if sure else knee.load.high for knee in (self.degraded, self.healthy))
        rest = (racks - 1) / racks if racks else 1.0
        return min(degraded, healthy * rest) * brokers / self.brokers

    def recovery_load(self, brokers: int, down_s: float, target_s: float, *, sure: bool = True) -> float:
        """Return the load by T's upper bound, at most the tried load; or the largest possible load."""
        largest = self.catch_up.largest_load(down_s, target_s)
        return (min(largest.low, self.tried) if sure else largest.high) * brokers / self.replication_factor

    def load(
        self, brokers: int, down_s: float, target_s: float, racks: int | None = None, *, sure: bool = True
    ) -> float:
        recovery = self.recovery_load(brokers, down_s, target_s, sure=sure)
        return min(self.latency_load(brokers, racks, sure=sure), recovery)

    def brokers_for(
        self,
        write: float,
        down_s: float,
        target_s: float,
        *,
        racks: int | None = None,
        fits: Callable[[int], bool] = lambda _: True,
        sure: bool = True,
    ) -> int | None:
        """Return the fewest brokers, a multiple of ``racks``; ``fits`` must hold for more brokers, too."""
        step = racks or 1
        options = range(step * math.ceil(max(self.replication_factor, 2) / step), MOST_BROKERS + 1, step)

        def carries(count: int) -> bool:  # the load grows with the brokers
            return self.load(count, down_s, target_s, racks, sure=sure) >= write and fits(count)

        place = bisect_left(options, True, key=carries)
        return options[place] if place < len(options) else None
