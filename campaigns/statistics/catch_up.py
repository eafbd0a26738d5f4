"""The model of a returned broker's catch-up, fitted on runs (docs/dev/adr/0009-capacity-model.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from history.errors import BadInput

Array = NDArray[np.float64]
CONFIDENCE = 0.90  # two-sided: one new run in twenty exceeds the upper bound
_LEVELS = 0.5, (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
FEWEST_RUNS = 4  # three unknowns, and one for noise
CELLS, SIGMAS, SHARES, ROUNDS = 26, 9, 6, 4
NEGLIGIBLE = 9.0  # parameters e^9 times less likely than the best
LONGEST_S = 1e7
FASTEST = 1e6  # represents an unlimited rate


class Interval(NamedTuple):
    """An estimate and its bounds; ``inf`` means no upper bound."""

    estimate: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        return Interval(*(value * factor for value in self))


def as_json(interval: Interval) -> dict[str, Any]:
    """Convert an interval; null for infinite bounds."""
    return {name: value if math.isfinite(value) else None for name, value in interval._asdict().items()}


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

    def rate(self, load: float) -> Interval:
        """Return R at a load; without upper bound if the start alone explains all runs."""
        with np.errstate(divide="ignore"):
            rates = np.maximum(np.minimum(1 / self.slowness, FASTEST) - self.shared * load, 0)
        middle, low, high = (_quantile(rates, self.weight, p) for p in _LEVELS)
        return Interval(middle, low, high if self.rate_is_bounded else math.inf)

    def shared_with(self) -> Interval:
        return Interval(*(_quantile(self.shared, self.weight, p) for p in _LEVELS))

    def start(self) -> Interval:
        return Interval(*(_quantile(self.start_s, self.weight, p) for p in _LEVELS))

    def noise(self) -> float:
        return _quantile(self.sigma, self.weight, 0.5)

    def predict(self, load: float, down_s: float) -> Interval:
        """Predict T of a new run; bounds are infinite if that weight never catches up."""
        middle, low, high = (self._predicted(load, down_s, p) for p in _LEVELS)
        return Interval(middle, low, high)

    def chance(self, load: float, down_s: float, target_s: float) -> float:
        log_t, sigma, weight = self._finite(load, down_s)
        if target_s <= 0:
            return 0.0
        return float(weight @ special.ndtr((math.log(target_s) - log_t) / sigma)) if len(weight) else 0.0

    def longest_down_s(self, load: float, target_s: float) -> Interval:
        """Return the longest downtime within the target; 0 if even an instant restart misses it."""
        return self._largest(lambda down_s: self.chance(load, down_s, target_s), LONGEST_S)

    def largest_load(self, down_s: float, target_s: float) -> Interval:
        fastest = 1 / max(float(self.slowness.min()), 1e-6)
        return self._largest(lambda load: self.chance(load, down_s, target_s), fastest)

    def _largest(self, chance: Callable[[float], float], limit: float) -> Interval:
        middle, sure, hopeful = (_last_above(chance, p, limit) for p in (0.5, *_LEVELS[:0:-1]))
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

    ``most_shared`` limits R's fall per MB/s (docs/dev/adr/0009-capacity-model.md has the method).

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
