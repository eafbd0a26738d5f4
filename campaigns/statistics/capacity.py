"""The capacity model: catch-up of a returned broker, load within the target latency, and the plan.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from history.errors import BadInput

Array = NDArray[np.float64]
CONFIDENCE = 0.90  # two-sided: one new run in twenty exceeds the upper bound
FEWEST_RUNS = 4  # three unknowns, and one for noise
CELLS, SIGMAS, SHARES, ROUNDS = 26, 9, 6, 4
NEGLIGIBLE = 9.0  # parameters e^9 times less likely than the best
LONGEST_S = 1e7
FASTEST = 1e6  # represents an unlimited rate
DAYS_A_MONTH = 365.25 / 12
MOST_BROKERS = 10_000  # above the largest known clusters
MOST_RUNS = 1_000


class Interval(NamedTuple):
    """An estimate and its bounds; ``inf`` means no upper bound."""

    estimate: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        return Interval(*(value * factor for value in self))


# --- catching up ---------------------------------------------------------------------------------


class Point(NamedTuple):
    """A run with a broker down; ``took_s`` runs from its start command to the full ISR (``censored``: at least)."""

    load: float
    down_s: float
    took_s: float
    censored: bool = False
    run_id: str = ""


def catch_up_s(load: float, down_s: float, rate: float, start_s: float = 0.0) -> float:
    """Return T = T0 + w (D + T0) / (R - w): backlog caught up during live load; infinity if R <= w."""
    if rate <= load:
        return math.inf
    return start_s + load * (down_s + start_s) / (rate - load)


def rebuild_s(stored_mb: float, load: float, rate: float) -> float:
    """Return T for an empty disk, or after downtime past the retention."""
    return math.inf if rate <= load else stored_mb / (rate - load)


def needed_headroom(down_s: float, target_s: float, start_s: float = 0.0) -> float:
    """Return the least R/w within the target: (T* + D) / (T* - T0)."""
    return math.inf if target_s <= start_s else (target_s + down_s) / (target_s - start_s)


@dataclass(frozen=True)
class CatchUp:
    """Estimates of R, T0 and noise as weighted sets of parameters.

    R = 1 / ``slowness`` - ``shared`` w, since peers serve both; slowness 0 is unlimited. ln T is normal about the
    model's with ``sigma``; priors are flat in slowness, shared, T0 and ln sigma.
    """

    slowness: Array
    shared: Array
    start_s: Array
    sigma: Array
    weight: Array
    runs: int
    censored: int
    rate_is_bounded: bool  # the runs exclude an unlimited R

    def rate(self, load: float, confidence: float = CONFIDENCE) -> Interval:
        """Return R at a load; without upper bound if the start alone explains all runs."""
        with np.errstate(divide="ignore"):
            rates = np.maximum(np.minimum(1 / self.slowness, FASTEST) - self.shared * load, 0)
        middle, low, high = (_quantile(rates, self.weight, p) for p in _levels(confidence))
        return Interval(middle, low, high if self.rate_is_bounded else math.inf)

    def shared_with(self, confidence: float = CONFIDENCE) -> Interval:
        return Interval(*(_quantile(self.shared, self.weight, p) for p in _levels(confidence)))

    def start(self, confidence: float = CONFIDENCE) -> Interval:
        return Interval(*(_quantile(self.start_s, self.weight, p) for p in _levels(confidence)))

    def noise(self) -> float:
        return _quantile(self.sigma, self.weight, 0.5)

    def predict(self, load: float, down_s: float, confidence: float = CONFIDENCE) -> Interval:
        """Predict T of a new run; bounds are infinite if that weight never catches up."""
        middle, low, high = (self._predicted(load, down_s, p) for p in _levels(confidence))
        return Interval(middle, low, high)

    def chance(self, load: float, down_s: float, target_s: float) -> float:
        log_t, sigma, weight = self._finite(load, down_s)
        return float(weight @ special.ndtr((math.log(target_s) - log_t) / sigma)) if len(weight) else 0.0

    def longest_down_s(self, load: float, target_s: float, confidence: float = CONFIDENCE) -> Interval:
        """Return the longest downtime within the target; 0 if even an instant restart misses it."""
        return self._largest(lambda down_s: self.chance(load, down_s, target_s), LONGEST_S, confidence)

    def largest_load(self, down_s: float, target_s: float, confidence: float = CONFIDENCE) -> Interval:
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
    """Estimate R and T0; a censored run counts as "at least".

    The likelihood's grid narrows to where it matters; the pole at R = w is harmless. The error is log-normal, since T
    is a product of rates. ``most_shared`` limits R's fall per MB/s.

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
    net = 1 - (1 + shared) * load * slowness
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(net > 0, np.log(start_s + load * slowness * (down_s + start_s) / net), np.inf)


def _log_likelihood(points: Iterable[Point], slowness: Array, shared: Array, start_s: Array, sigma: Array) -> Array:
    """Axes: slowness, shared, start, sigma."""
    total = np.zeros((len(slowness), len(shared), len(start_s), len(sigma)))
    axes = slowness[:, None, None], shared[None, :, None], start_s[None, None, :]
    for point in points:
        expected = _log_took(point.load, point.down_s, *axes)[..., None]
        with np.errstate(invalid="ignore"):
            off = (math.log(point.took_s) - expected) / sigma
            total += special.log_ndtr(-off) if point.censored else -(off**2) / 2 - np.log(sigma)
    return np.nan_to_num(total, nan=-np.inf, neginf=-np.inf)


def _ends(axis: Array, used: NDArray[np.bool_]) -> tuple[float, float]:
    cells = np.flatnonzero(used)
    return float(axis[max(cells[0] - 1, 0)]), float(axis[min(cells[-1] + 1, len(axis) - 1)])


def _levels(confidence: float) -> tuple[float, float, float]:
    return 0.5, (1 - confidence) / 2, (1 + confidence) / 2


def _quantile(values: Array, weight: Array, level: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(level, below, values[order]))


def _last_above(chance: Callable[[float], float], level: float, limit: float) -> float:
    if chance(0.0) < level:
        return 0.0
    if chance(limit) >= level:
        return math.inf
    return float(optimize.brentq(lambda value: chance(value) - level, 0.0, limit, xtol=1e-6))


# --- load and latency ------------------------------------------------------------------------------


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


def knee(steps: Iterable[Step], target_ms: float, confidence: float = CONFIDENCE) -> Knee:
    """Return where the t interval of mean ln p99 crosses the target; a single run has safe load 0.

    Each run's p99 is one observation; percentiles are never averaged. Raises BadInput without steps.
    """
    by_load: dict[float, list[float]] = defaultdict(list)
    for step in steps:
        by_load[step.load].append(step.p99_ms)
    if not by_load:
        raise BadInput("Without measured load steps there is no knee; run the load steps first.")
    curve = [{"load": load, **_p99(found, confidence), "runs": len(found)} for load, found in sorted(by_load.items())]
    crossings = {name: _crossing(curve, name, target_ms) for name in ("estimate", "low", "high")}
    return Knee(
        load=Interval(crossings["estimate"], crossings["high"], crossings["low"]),
        offered=curve[-1]["load"],
        runs=min(len(found) for load, found in by_load.items() if load <= max(crossings["estimate"], min(by_load))),
        curve=curve,
    )


def _p99(found: Sequence[float], confidence: float) -> dict[str, float]:
    """Unbounded if only some runs missed the load."""
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


def runs_to_decide(
    estimate: float, target: float, spread: float, *, of_one_run: bool = False, confidence: float = CONFIDENCE
) -> int | None:
    """Return the fewest runs whose t interval, of the mean or ``of_one_run``, excludes the target; None: too many."""
    runs = np.arange(2, MOST_RUNS + 1)
    reach = stats.t.ppf((1 + confidence) / 2, runs - 1) * spread * np.sqrt(of_one_run + 1 / runs)
    enough = np.flatnonzero(reach < abs(math.log(target / estimate)))
    return int(runs[enough[0]]) if enough.size else None


# --- what a plan follows from ------------------------------------------------------------------------


def load_of_a_broker(write: float, replication_factor: int, brokers: int) -> float:
    """Return w: the write load into a broker's replicas, evenly spread."""
    return write * replication_factor / brokers


class Away(NamedTuple):
    """One of ``units`` is away; ``remade``: the others recreate its replicas."""

    units: int
    remade: bool

    def taken_over(self, times: float, lost: int) -> float:
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

    Bytes arrive RF and leave G + RF - 1 times (Amazon MSK's sizing equation). With a broker away, the others of the
    cluster or, with RF racks, its rack take B/(B-1); if B is RF, nothing can move: bytes arrive RF - 1 times and leave
    G + RF - 2 times. ``old_reads`` is the share of groups' reads from disk.
    """
    share = 1 / brokers
    spare = max(catch_up - load_of_a_broker(write, replication_factor, brokers), 0.0)
    copies, outs = replication_factor, consumer_groups + replication_factor - 1
    told: list[tuple[str, str, float | None, int, str]] = [  # passes of a byte; fewer without one copy
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
        """Live traffic includes the returning ones'."""
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
    """Return bounds by progress, target, and the peers' spare capacity; ``unthrottled`` is R.

    Kafka's operations guide: no progress while max(BytesInPerSec) > throttle. KIP-73 throttles only replicas outside
    the ISR.
    """
    return Throttle(load, load * needed_headroom(down_s, target_s, start_s), min(load + max(spare_out, 0), unthrottled))


class Ledger(NamedTuple):
    """A line of the headroom ledger, in MB/s of write load."""

    item: str
    amount: float
    left: float


def ledger(knee_load: float, reserves: Sequence[tuple[str, float]]) -> list[Ledger]:
    """List each reserve taken from the healthy knee, and the remainder."""
    lines = [Ledger("healthy knee", knee_load, knee_load)]
    for item, amount in reserves:
        lines.append(Ledger(item, amount, lines[-1].left - amount))
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

    def safe_latency_load(self, brokers: int, racks: int | None = None) -> float:
        """Return the load; after a rack's recreation, the others carry racks / (racks - 1)."""
        rest = (racks - 1) / racks if racks else 1.0
        return min(self.degraded.safe, self.healthy.safe * rest) * brokers / self.brokers

    def safe_recovery_load(self, brokers: int, down_s: float, target_s: float) -> float:
        """Return the load by T's upper bound, at most the tried load."""
        safe = min(self.catch_up.largest_load(down_s, target_s).low, self.tried)
        return safe * brokers / self.replication_factor

    def safe_load(self, brokers: int, down_s: float, target_s: float, racks: int | None = None) -> float:
        return min(self.safe_latency_load(brokers, racks), self.safe_recovery_load(brokers, down_s, target_s))

    def possible_latency_load(self, brokers: int, racks: int | None = None) -> float:
        """Return the load above which even p99's lower bound misses its target."""
        rest = (racks - 1) / racks if racks else 1.0
        return min(self.degraded.load.high, self.healthy.load.high * rest) * brokers / self.brokers

    def possible_recovery_load(self, brokers: int, down_s: float, target_s: float) -> float:
        return self.catch_up.largest_load(down_s, target_s).high * brokers / self.replication_factor

    def possible_load(self, brokers: int, down_s: float, target_s: float, racks: int | None = None) -> float:
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
        """Return the fewest brokers, a multiple of ``racks``; ``fits`` must hold for more brokers, too."""
        carried = self.safe_load if for_sure else self.possible_load  # both grow with the brokers
        step = racks or 1
        options = range(step * math.ceil(max(self.replication_factor, 2) / step), MOST_BROKERS + 1, step)
        place = bisect_left(
            options, True, key=lambda count: carried(count, down_s, target_s, racks) >= write and fits(count)
        )
        return options[place] if place < len(options) else None


def as_json(interval: Interval) -> dict[str, Any]:
    """Convert an interval; null for infinite bounds."""
    return {name: value if math.isfinite(value) else None for name, value in interval._asdict().items()}
