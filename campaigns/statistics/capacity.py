"""Capacity: how long a returned broker needs to catch up, up to which load latency holds, and what follows for a plan.

Pure functions over a few dozen numbers; a run is the unit. Loads and rates are in MB/s (10^6 bytes) after compression.
The model, its error and its limits are argued in docs/capacity.md and docs/dev/adr/0009-capacity-model.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from history.errors import BadInput

Array = NDArray[np.float64]
CONFIDENCE = 0.90  # of both sides together: an upper bound is passed by one new run in twenty
FEWEST_RUNS = 4  # three unknowns and something left to judge the noise by
CELLS, SIGMAS, SHARES, ROUNDS = 26, 9, 6, 4
NEGLIGIBLE = 9.0  # a parameter set less likely than the best one by e^9 changes no figure that is shown
LONGEST_S = 1e7
FASTEST = 1e6  # MB/s: stands for a rate without bound
DAYS_A_MONTH = 365.25 / 12
MOST_BROKERS = 10_000  # beyond the largest clusters that are known
MOST_RUNS = 1_000  # that a plan suggests


class Interval(NamedTuple):
    """An estimate between two bounds; ``inf`` says that there is none from above."""

    estimate: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        return Interval(*(value * factor for value in self))


# --- catching up ---------------------------------------------------------------------------------


class Point(NamedTuple):
    """One run: a broker was down for ``down_s`` at a load into its own replicas, and needed ``took_s`` to catch up.

    ``took_s`` counts from the order to start it until the ISR was full; ``censored``: at least so long.
    """

    load: float
    down_s: float
    took_s: float
    censored: bool = False
    run_id: str = ""


def catch_up_s(load: float, down_s: float, rate: float, start_s: float = 0.0) -> float:
    """T = T0 + w (D + T0) / (R - w): what was missed until fetching began, worked off beside the live load.

    Returns infinity where R <= w: there is no finite catch-up.
    """
    if rate <= load:
        return math.inf
    return start_s + load * (down_s + start_s) / (rate - load)


def rebuild_s(stored_mb: float, load: float, rate: float) -> float:
    """T with an empty disk, or down past the retention: everything that is stored, beside the live load."""
    return math.inf if rate <= load else stored_mb / (rate - load)


def needed_headroom(down_s: float, target_s: float, start_s: float = 0.0) -> float:
    """The least R/w that keeps T within the target: (T* + D) / (T* - T0), which is 1 + D/T* without a start-up."""
    return math.inf if target_s <= start_s else (target_s + down_s) / (target_s - start_s)


@dataclass(frozen=True)
class CatchUp:
    """What measured runs say of R, T0 and their noise: sets of parameters, each with its weight.

    R falls with the load into the broker where peers serve both: R = 1 / ``slowness`` - ``shared`` w. A slowness of 0:
    nothing limits the catch-up. ln T of a run is normal about ln of the model's T with standard deviation ``sigma``.
    The weights are likelihoods under priors that are flat in slowness, shared, T0 and ln sigma, summing to 1.
    """

    slowness: Array
    shared: Array
    start_s: Array
    sigma: Array
    weight: Array
    runs: int
    censored: int
    rate_is_bounded: bool  # the runs exclude that nothing limits R

    def rate(self, load: float, confidence: float = CONFIDENCE) -> Interval:
        """R at a load, with its interval; no upper bound where the start alone explains every run."""
        with np.errstate(divide="ignore"):
            rates = np.maximum(np.minimum(1 / self.slowness, FASTEST) - self.shared * load, 0)
        middle, low, high = (_quantile(rates, self.weight, p) for p in _levels(confidence))
        return Interval(middle, low, high if self.rate_is_bounded else math.inf)

    def shared_with(self, confidence: float = CONFIDENCE) -> Interval:
        """By how much R falls for each MB/s of load."""
        return Interval(*(_quantile(self.shared, self.weight, p) for p in _levels(confidence)))

    def start(self, confidence: float = CONFIDENCE) -> Interval:
        """T0 with its interval, in seconds."""
        return Interval(*(_quantile(self.start_s, self.weight, p) for p in _levels(confidence)))

    def noise(self) -> float:
        """The spread of a run about the model, as a standard deviation of ln T."""
        return _quantile(self.sigma, self.weight, 0.5)

    def predict(self, load: float, down_s: float, confidence: float = CONFIDENCE) -> Interval:
        """T of one new run; infinite bounds where so much of the weight has no finite catch-up."""
        middle, low, high = (self._predicted(load, down_s, p) for p in _levels(confidence))
        return Interval(middle, low, high)

    def chance(self, load: float, down_s: float, target_s: float) -> float:
        """How probably a new run catches up within the target."""
        log_t, sigma, weight = self._finite(load, down_s)
        return float(weight @ special.ndtr((math.log(target_s) - log_t) / sigma)) if len(weight) else 0.0

    def longest_down_s(self, load: float, target_s: float, confidence: float = CONFIDENCE) -> Interval:
        """The longest downtime after which T stays within the target; 0 where not even an instant restart does."""
        return self._largest(lambda down_s: self.chance(load, down_s, target_s), LONGEST_S, confidence)

    def largest_load(self, down_s: float, target_s: float, confidence: float = CONFIDENCE) -> Interval:
        """The largest load into the broker at which T stays within the target after such a downtime."""
        fastest = 1 / max(float(self.slowness.min()), 1e-6)
        return self._largest(lambda load: self.chance(load, down_s, target_s), fastest, confidence)

    def _largest(self, chance: Callable[[float], float], limit: float, confidence: float) -> Interval:
        middle, sure, hopeful = (_last_above(chance, p, limit) for p in (0.5, *_levels(confidence)[:0:-1]))
        return Interval(middle, sure, hopeful)

    def _finite(self, load: float, down_s: float) -> tuple[Array, Array, Array]:
        log_t = _log_took(load, down_s, self.slowness, self.shared, self.start_s)
        finite = np.isfinite(log_t)
        return log_t[finite], self.sigma[finite], self.weight[finite]

    def _predicted(self, load: float, down_s: float, level: float) -> float:
        log_t, sigma, weight = self._finite(load, down_s)
        if weight.sum() <= level + 1e-9:
            return math.inf
        reach = 9 * float(sigma.max())
        ends = float(log_t.min()) - reach, float(log_t.max()) + reach
        return math.exp(optimize.brentq(lambda x: weight @ special.ndtr((x - log_t) / sigma) - level, *ends))


def fit(points: Sequence[Point], most_shared: float = 0.0) -> CatchUp:
    """R and T0 from measured runs; one whose observation ended first counts as "at least so long".

    The likelihood is evaluated on a grid that closes in on where it lies: no start values, no random numbers, and a
    pole at R = w that needs no care. A log-normal error, because T is a product of rates and never negative.
    ``most_shared`` is the most that R can fall for each MB/s of load: what peers send to others meanwhile.

    Raises:
        BadInput: fewer than FEWEST_RUNS runs caught up.
    """
    seen = [point for point in points if not point.censored]
    if len(seen) < FEWEST_RUNS:
        raise BadInput(f"{len(seen)} runs that caught up do not determine R and T0; measure at least {FEWEST_RUNS}.")
    axes = [
        np.linspace(0.0, 1 / max(point.load for point in seen), CELLS),
        np.linspace(0.0, most_shared, SHARES if most_shared else 1),
        np.linspace(0.0, max(point.took_s for point in seen), CELLS),
        np.geomspace(0.005, 2.0, SIGMAS),
    ]
    likelihood = _log_likelihood(points, *axes)
    for _ in range(ROUNDS):
        kept = likelihood > likelihood.max() - NEGLIGIBLE
        axes[0] = np.linspace(*_ends(axes[0], kept.any(axis=(1, 2, 3))), CELLS)
        axes[2] = np.linspace(*_ends(axes[2], kept.any(axis=(0, 1, 3))), CELLS)
        axes[3] = np.geomspace(*_ends(axes[3], kept.any(axis=(0, 1, 2))), SIGMAS)
        likelihood = _log_likelihood(points, *axes)
    kept = likelihood > likelihood.max() - NEGLIGIBLE
    weight = np.exp(likelihood[kept] - likelihood.max())
    slowness, shared, start_s, sigma = (cells[kept] for cells in np.meshgrid(*axes, indexing="ij"))
    unlimited = likelihood[0].max() if axes[0][0] == 0 else -math.inf
    return CatchUp(
        slowness=slowness,
        shared=shared,
        start_s=start_s,
        sigma=sigma,
        weight=weight / weight.sum(),
        runs=len(points),
        censored=len(points) - len(seen),
        rate_is_bounded=bool(likelihood.max() - unlimited > stats.chi2.ppf(CONFIDENCE, 1) / 2),
    )


def _log_took(load: float, down_s: float, slowness: Array, shared: Array, start_s: Array) -> Array:
    """ln T; infinite where R <= w."""
    net = 1 - (1 + shared) * load * slowness
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(net > 0, np.log(start_s + load * slowness * (down_s + start_s) / net), np.inf)


def _log_likelihood(points: Iterable[Point], slowness: Array, shared: Array, start_s: Array, sigma: Array) -> Array:
    """Of every set of parameters; its axes are slowness, shared, start and sigma."""
    total = np.zeros((len(slowness), len(shared), len(start_s), len(sigma)))
    axes = slowness[:, None, None], shared[None, :, None], start_s[None, None, :]
    for point in points:
        expected = _log_took(point.load, point.down_s, *axes)[..., None]
        with np.errstate(invalid="ignore"):
            off = (math.log(point.took_s) - expected) / sigma
            total += special.log_ndtr(-off) if point.censored else -(off**2) / 2 - np.log(sigma)
    return np.nan_to_num(total, nan=-np.inf, neginf=-np.inf)


def _ends(axis: Array, used: NDArray[np.bool_]) -> tuple[float, float]:
    """The used part of an axis, a cell wider on both sides."""
    cells = np.flatnonzero(used)
    return float(axis[max(cells[0] - 1, 0)]), float(axis[min(cells[-1] + 1, len(axis) - 1)])


def _levels(confidence: float) -> tuple[float, float, float]:
    """Middle, lower and upper quantile."""
    return 0.5, (1 - confidence) / 2, (1 + confidence) / 2


def _quantile(values: Array, weight: Array, level: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(level, below, values[order]))


def _last_above(chance: Callable[[float], float], level: float, limit: float) -> float:
    """The last value at which a falling chance is at least the level."""
    if chance(0.0) < level:
        return 0.0
    if chance(limit) >= level:
        return math.inf
    return float(optimize.brentq(lambda value: chance(value) - level, 0.0, limit, xtol=1e-6))


# --- load and latency ------------------------------------------------------------------------------


class Step(NamedTuple):
    """One offered load of one run; a load that was missed has an infinite p99."""

    load: float
    p99_ms: float
    run_id: str = ""


@dataclass(frozen=True)
class Knee:
    """The largest offered load at which p99 stays within its target.

    ``load.low`` is where the upper bound of p99 leaves the target; ``offered`` the largest load that was tried: where
    the interval has no end there, nothing is known beyond it. ``runs`` is the fewest of any step up to the knee.
    """

    load: Interval
    offered: float
    runs: int
    curve: list[dict[str, float]]  # per offered load: load, estimate, low, high of p99 in ms, runs

    @property
    def safe(self) -> float:
        """What may be counted on: never more than was offered."""
        return min(self.load.low, self.offered)


def knee(steps: Iterable[Step], target_ms: float, confidence: float = CONFIDENCE) -> Knee:
    """The knee over repeated runs: p99 of each step with a t interval of its mean logarithm, then where it crosses.

    Percentiles are never averaged as such: each run's p99 is one observation. One run has no interval, so its safe
    load is 0.

    Raises:
        BadInput: there is no step.
    """
    by_load: dict[float, list[float]] = defaultdict(list)
    for step in steps:
        by_load[step.load].append(step.p99_ms)
    if not by_load:
        raise BadInput("No load step was measured, so there is no knee; run the load steps first.")
    curve = [{"load": load, **_p99(found, confidence), "runs": len(found)} for load, found in sorted(by_load.items())]
    crossings = {name: _crossing(curve, name, target_ms) for name in ("estimate", "low", "high")}
    return Knee(
        load=Interval(crossings["estimate"], crossings["high"], crossings["low"]),
        offered=curve[-1]["load"],
        runs=min(len(found) for load, found in by_load.items() if load <= max(crossings["estimate"], min(by_load))),
        curve=curve,
    )


def _p99(found: Sequence[float], confidence: float) -> dict[str, float]:
    """Return the mean of ln p99 with its t interval; runs that disagree whether the load was missed bound nothing."""
    missed = sum(map(math.isinf, found))
    if missed:
        return {"estimate": math.inf, "low": math.inf if missed == len(found) else 0.0, "high": math.inf}
    logs = np.log(found)
    middle = float(logs.mean())
    if len(found) == 1:
        return {"estimate": math.exp(middle), "low": 0.0, "high": math.inf}
    reach = float(stats.t.ppf((1 + confidence) / 2, len(found) - 1) * logs.std(ddof=1) / math.sqrt(len(found)))
    return {"estimate": math.exp(middle), "low": math.exp(middle - reach), "high": math.exp(middle + reach)}


def _crossing(curve: Sequence[dict[str, float]], name: str, target_ms: float) -> float:
    """Where the curve first leaves the target, linear in ln p99: 0 if at once, infinity if never."""
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
    """Return estimate, low and high of p99 (ms) at a load, linear in ln p99 between steps; None above the last step."""
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
    """Return the value at a share of the way, linear in the logarithm; where one end is unbounded, so is the value."""
    unbounded = [end for end in (first, last) if end <= 0 or math.isinf(end)]
    return unbounded[0] if unbounded else math.exp((1 - share) * math.log(first) + share * math.log(last))


def spread_of(steps: Iterable[Step]) -> float | None:
    """Return the standard deviation of ln p99 between runs of one load, pooled; None if no load has two runs."""
    by_load: dict[float, list[float]] = defaultdict(list)
    for step in steps:
        if math.isfinite(step.p99_ms):
            by_load[step.load].append(math.log(step.p99_ms))
    freedom = sum(len(logs) - 1 for logs in by_load.values())
    squares = sum(float(np.var(logs)) * len(logs) for logs in by_load.values())
    return math.sqrt(squares / freedom) if freedom else None


def runs_to_decide(
    estimate: float, target: float, spread: float, *, of_one_run: bool = False, confidence: float = CONFIDENCE
) -> int | None:
    """Return the fewest runs whose t interval, at this estimate and spread of the logarithm, leaves out the target.

    The interval is of the mean, or of a new run. None: not even ``MOST_RUNS`` would do.
    """
    runs = np.arange(2, MOST_RUNS + 1)
    reach = stats.t.ppf((1 + confidence) / 2, runs - 1) * spread * np.sqrt(of_one_run + 1 / runs)
    enough = np.flatnonzero(reach < abs(math.log(target / estimate)))
    return int(runs[enough[0]]) if enough.size else None


# --- what a plan follows from ------------------------------------------------------------------------


def load_of_a_broker(write: float, replication_factor: int, brokers: int) -> float:
    """w: what the replicas of one broker take in, evenly spread."""
    return write * replication_factor / brokers


class Away(NamedTuple):
    """One of so many units is away; ``remade``: its replicas can be made again on the others."""

    units: int
    remade: bool

    def taken_over(self, times: float, lost: int) -> float:
        """By what each of the others multiplies its share: U / (U - 1).

        Where no replica is made again, ``lost`` of the ``times`` that a byte passes the resource no longer happen.
        """
        return self.units / (self.units - 1) * (1.0 if self.remade else 1 - lost / times)


def broker_away(brokers: int, copies: int, racks: int | None = None) -> Away:
    """Among brokers, or among those of its rack where each rack has a replica of everything."""
    if racks == copies and brokers > racks:
        return Away(brokers // racks, remade=True)
    return Away(brokers, remade=brokers > copies)


def rack_away(racks: int, copies: int) -> Away:
    """Among racks; with as many as copies none can be made again, as each rest has one already."""
    return Away(racks, remade=racks > copies)


class Demand(NamedTuple):
    """What one broker needs of one resource; ``degraded`` is with another one away, ``limit`` what it may use.

    ``rack_away`` is with a whole rack away, None where no racks were named.
    """

    resource: str
    unit: str
    healthy: float
    degraded: float
    limit: float | None
    rule: str
    rack_away: float | None = None

    @property
    def use(self) -> float | None:
        """The larger of the demands with something away as a share of the limit."""
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
    """Per broker: CPU, network, disk, and what a peer must spare while another catches up at a rate R.

    With one broker away the others take B/(B-1) of their share, as if its replicas had been moved to them, and those of
    its rack alone where there are RF racks. Where B is RF nothing can be moved: bytes then arrive RF - 1 times and
    leave G + RF - 2 times. A rack away is the same with racks in the place of brokers. ``catch_up`` is R; ``limits`` is
    by resource; ``old_reads`` the share of what groups read that has left the page cache. Rules of the traffic: bytes
    arrive RF times and leave G + RF - 1 times (the sizing equation of Amazon MSK counts the same way).
    """
    share = 1 / brokers
    spare = max(catch_up - load_of_a_broker(write, replication_factor, brokers), 0.0)
    copies, outs = replication_factor, consumer_groups + replication_factor - 1
    told: list[tuple[str, str, float | None, int, str]] = [  # how often a byte passes it; how often not without a copy
        ("cpu", "cores", cpu_s_per_mb, 0, "CPU s per MB · W / B"),
        ("network_in", "MB/s", copies, 1, "W · RF / B"),
        ("network_out", "MB/s", outs, 1, "W · (G + RF - 1) / B"),
        ("disk_write", "MB/s", copies, 1, "W · RF / B"),
        ("disk_read", "MB/s", consumer_groups * old_reads or None, 0, "W · G · old reads / B"),
    ]

    broker = broker_away(brokers, copies, racks)
    rack = rack_away(racks, copies) if racks else None

    def with_away(away: Away, times: float, lost: int) -> float:
        return write * times * share * away.taken_over(times, lost)

    rows = [
        Demand(
            name,
            unit,
            write * times * share,
            with_away(broker, times, lost),
            limits.get(name),
            rule,
            with_away(rack, times, lost) if rack else None,
        )
        for name, unit, times, lost, rule in told
        if times is not None
    ]

    def catching_up(units: int, times: float) -> float:
        """Live traffic to those that come back as well, and what each of the others sends them of the backlog."""
        return write * times * share * units / (units - 1) + spare / (units - 1)

    def row(name: str, limit: str, times: float, rule: str) -> Demand:
        whole_rack = catching_up(racks, times) if racks else None
        return Demand(name, "MB/s", 0.0, catching_up(brokers, times), limits.get(limit), rule, whole_rack)

    reads = consumer_groups * old_reads
    return [
        *rows,
        row("catch_up_out", "network_out", outs, "network out + (R - w) / (B - 1)"),
        row("catch_up_disk_read", "disk_read", reads, f"{'disk read + ' if reads else ''}(R - w) / (B - 1), cold"),
    ]


def bottleneck(rows: Iterable[Demand]) -> Demand | None:
    """The resource that is nearest to its limit; None where no limit was set."""
    return max((row for row in rows if row.use is not None), key=lambda row: row.use or 0.0, default=None)


class Throttle(NamedTuple):
    """Bounds of ``follower.replication.throttled.rate``, in MB/s into the returning broker."""

    progress: float  # at or below, it never catches up
    target: float  # at least this for the target recovery
    latency: float  # above, the peers may leave the target latency


def throttle(
    load: float, *, down_s: float, target_s: float, start_s: float, spare_out: float, unthrottled: float
) -> Throttle:
    """Lower bounds by progress and target, upper bound by what the peers can spare together (``spare_out``).

    Kafka's own operations guide gives the first: no progress while max(BytesInPerSec) > throttle. The throttle of
    KIP-73 holds for replicas outside the ISR only. ``unthrottled`` is R.
    """
    return Throttle(load, load * needed_headroom(down_s, target_s, start_s), min(load + max(spare_out, 0), unthrottled))


class Ledger(NamedTuple):
    """One line of the headroom ledger, in MB/s of write load."""

    item: str
    amount: float
    left: float


def ledger(knee_load: float, reserves: Sequence[tuple[str, float]]) -> list[Ledger]:
    """From the healthy knee down: what each reserve takes, and what is left after it."""
    lines = [Ledger("healthy knee", knee_load, knee_load)]
    for item, amount in reserves:
        lines.append(Ledger(item, amount, lines[-1].left - amount))
    return lines


def months_until(load: float, limit: float, growth: float) -> float:
    """Months until a load that grows by a factor 1 + ``growth`` each month reaches a limit; infinity: never."""
    if load >= limit:
        return 0.0
    return math.log(limit / load) / math.log1p(growth) if growth > 0 else math.inf


def exhaustion(
    today: date, load: float, limit: Interval, growth: tuple[float, float]
) -> tuple[date | None, date | None]:
    """From when and until when the limit may be reached: early bound with fast growth, late bound with slow growth."""
    ends = months_until(load, limit.low, max(growth)), months_until(load, limit.high, min(growth))
    first, last = (today + timedelta(days=months * DAYS_A_MONTH) if months < 1200 else None for months in ends)
    return first, last


@dataclass(frozen=True)
class Measured:
    """What was measured on a cluster of ``brokers``; scaled to other numbers of brokers by per-broker shares."""

    brokers: int
    replication_factor: int
    healthy: Knee
    degraded: Knee
    catch_up: CatchUp
    tried: float  # the largest load into one broker under which it was seen to catch up

    def healthy_knee(self, brokers: int) -> Interval:
        """Of the cluster's write load."""
        return self.healthy.load.scaled(brokers / self.brokers)

    def degraded_knee(self, brokers: int) -> Interval:
        """With one broker away whose replicas stay where they are: the others take in what they took in before."""
        return self.degraded.load.scaled(brokers / self.brokers)

    def safe_latency_load(self, brokers: int, racks: int | None = None) -> float:
        """The write load at which the upper bound of p99 stays within its target with one broker away.

        With racks also with a whole rack away, whose replicas were made again on the rest: these are then a healthy
        cluster with racks / (racks - 1) of its load. Until then a rack away is to partitions what one of RF brokers is.
        """
        rest = (racks - 1) / racks if racks else 1.0
        return min(self.degraded.safe, self.healthy.safe * rest) * brokers / self.brokers

    def safe_recovery_load(self, brokers: int, down_s: float, target_s: float) -> float:
        """The write load at which the upper bound of T stays within its target; never more than was tried."""
        safe = min(self.catch_up.largest_load(down_s, target_s).low, self.tried)
        return safe * brokers / self.replication_factor

    def safe_load(self, brokers: int, down_s: float, target_s: float, racks: int | None = None) -> float:
        """Both targets hold in the degraded state, by their upper bounds."""
        return min(self.safe_latency_load(brokers, racks), self.safe_recovery_load(brokers, down_s, target_s))

    def possible_latency_load(self, brokers: int, racks: int | None = None) -> float:
        """Return the write load above which even the lower bound of p99 misses its target with one broker away."""
        rest = (racks - 1) / racks if racks else 1.0
        return min(self.degraded.load.high, self.healthy.load.high * rest) * brokers / self.brokers

    def possible_recovery_load(self, brokers: int, down_s: float, target_s: float) -> float:
        """Return the write load above which even the lower bound of T misses its target."""
        return self.catch_up.largest_load(down_s, target_s).high * brokers / self.replication_factor

    def possible_load(self, brokers: int, down_s: float, target_s: float, racks: int | None = None) -> float:
        """Return the write load above which one target is missed; up to it, and above the safe load, is undecided."""
        recovery = self.possible_recovery_load(brokers, down_s, target_s)
        return min(self.possible_latency_load(brokers, racks), recovery)

    def brokers_for(
        self,
        write: float,
        down_s: float,
        target_s: float,
        *,
        racks: int | None = None,
        fits: Callable[[int], bool] = lambda _: True,
        for_sure: bool = True,
    ) -> int | None:
        """Return the fewest brokers that carry ``write`` for sure, or that may; None: not even ``MOST_BROKERS``.

        A multiple of ``racks``; ``fits`` says of a number, and of every larger one, that their disks suffice.
        """
        carried = self.safe_load if for_sure else self.possible_load  # both grow with the brokers
        step = racks or 1
        options = range(step * math.ceil(max(self.replication_factor, 2) / step), MOST_BROKERS + 1, step)
        place = bisect_left(
            options, True, key=lambda count: carried(count, down_s, target_s, racks) >= write and fits(count)
        )
        return options[place] if place < len(options) else None


def as_json(interval: Interval) -> dict[str, Any]:
    """Bounds that do not exist become null."""
    return {name: value if math.isfinite(value) else None for name, value in interval._asdict().items()}
