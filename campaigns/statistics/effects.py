"""Effects: means of log-ratios, head to base; the unit is a run. See docs/comparison.md."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal, NamedTuple

import numpy as np
from scipy import optimize, stats

from history.errors import BadInput

ALPHA = 0.05
MAX_PAIRS = 200  # more are impractical
POWER = 0.8  # detected in four of five comparisons
Verdict = Literal["regression", "improvement", "equivalent", "inconclusive"]
Better = Literal["lower", "higher"]


class Effect(NamedTuple):
    """Mean and standard deviation of ``n`` log-ratios, t interval at 1 - ALPHA, two-sided p."""

    n: int
    mean: float
    sd: float
    low: float
    high: float
    p: float


_BEYOND = math.log(10_000)  # limit for two pairs' intervals; pages print "beyond" from 1,000


def log_ratio(base: float, head: float) -> float:
    """Return ln(head / base); raise BadInput unless both are above 0."""
    if not (base > 0 and head > 0):
        raise BadInput(f"{head:g} against {base:g} is no ratio that has a logarithm: both must be above 0.")
    return math.log(head) - math.log(base)


def percent(log: float) -> float:
    """Convert a log-ratio to percent, up to a factor of 10,000."""
    return 100 * math.expm1(min(log, _BEYOND))


def paired_effect(log_ratios: Sequence[float]) -> Effect | None:
    """Return one log-ratio per pair as an effect; None for fewer than two."""
    n = len(log_ratios)
    if n < 2:
        return None
    mean, sd = fmean(log_ratios), stdev(log_ratios)
    error = sd / math.sqrt(n)
    half = float(stats.t.ppf(1 - ALPHA / 2, n - 1)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    return Effect(n, mean, sd, mean - half, mean + half, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return a family's p-values, adjusted by Holm, in the given order."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.sort(p_values) * np.arange(len(p_values), 0, -1)
    return list(map(float, np.maximum.accumulate(np.minimum(adjusted, 1.0))[np.argsort(order)]))


def verdict_of(effect: Effect, *, margin: float, better: Better, p_adjusted: float) -> Verdict:
    """Return the verdict; ``margin`` is a ratio's distance from 1.

    A difference needs an interval without 0, an estimate beyond the margin, and an adjusted p below ALPHA; equivalence
    the interval inside the margins: two one-sided tests at ALPHA / 2.
    """
    bound = math.log1p(margin)
    excludes_0 = effect.low > 0 or effect.high < 0
    if excludes_0 and abs(effect.mean) > bound and p_adjusted < ALPHA:
        return _direction(effect.mean, better)
    return "equivalent" if -bound < effect.low and effect.high < bound else "inconclusive"


def _direction(log: float, better: Better) -> Verdict:
    return "regression" if (log > 0) == (better == "lower") else "improvement"


def sd_interval(sd: float, n: int) -> tuple[float, float]:
    """Return the interval, at 1 - ALPHA, of a standard deviation of ``n`` values."""
    low, high = (sd * math.sqrt((n - 1) / float(stats.chi2.ppf(tail, n - 1))) for tail in (1 - ALPHA / 2, ALPHA / 2))
    return low, high


def detection_rate(log: float, *, sd: float, pairs: int, margin: float, tests: int = 1) -> float:
    """Return how often a true ``log`` is called a regression; ``tests`` counts primary metrics (Holm)."""
    if sd == 0:
        return float(log > math.log1p(margin))
    error = sd / math.sqrt(pairs)
    needed = float(stats.t.ppf(1 - ALPHA / (2 * tests), pairs - 1))
    # mean and variance are independent: integrate over the mean
    means = np.linspace(0, 1, 2_001) * 16 * error + max(math.log1p(margin), log - 8 * error)
    small_enough = stats.chi2.cdf((pairs - 1) * (means / (needed * error)) ** 2, pairs - 1)
    return float(np.trapezoid(stats.norm.pdf(means, log, error) * small_enough, means))


def smallest_effect(*, sd: float, pairs: int, margin: float, tests: int = 1) -> float | None:
    """Return the smallest log-ratio called a regression with POWER; None for fewer than two pairs."""
    if pairs < 2:
        return None
    bound = math.log1p(margin)
    if sd == 0:
        return bound
    top = bound + sd
    while detection_rate(top, sd=sd, pairs=pairs, margin=margin, tests=tests) < POWER:
        top *= 2
    return float(
        optimize.brentq(
            lambda log: detection_rate(log, sd=sd, pairs=pairs, margin=margin, tests=tests) - POWER, 0.0, top
        )
    )


def pairs_needed(log: float, *, sd: float, margin: float, tests: int = 1) -> int | None:
    """Return the fewest pairs that detect ``log`` with POWER; None beyond MAX_PAIRS or within the margin."""

    def found(pairs: int) -> bool:
        return detection_rate(log, sd=sd, pairs=pairs, margin=margin, tests=tests) >= POWER

    return bisect_left(range(2, MAX_PAIRS + 1), True, key=found) + 2 if found(MAX_PAIRS) else None


def fisher(head_events: int, head_runs: int, base_events: int, base_runs: int) -> float:
    """Return Fisher's exact two-sided p; 1 if an arm has no run."""
    table = [[head_events, head_runs - head_events], [base_events, base_runs - base_events]]
    return float(stats.fisher_exact(table).pvalue) if head_runs and base_runs else 1.0


class Times(NamedTuple):
    """An arm's times: ended ones, Kaplan-Meier median (None: not reached), mean up to a common limit."""

    runs: int
    ended: int
    median: float | None
    restricted_mean: float


class CensoredEffect(NamedTuple):
    """Both arms up to the commonly observed ``limit``: log-rank p, and ``log`` of restricted means (None: one is 0)."""

    base: Times
    head: Times
    limit: float
    log: float | None
    p: float


def censored_effect(base: Sequence[tuple[float, bool]], head: Sequence[tuple[float, bool]]) -> CensoredEffect | None:
    """Compare (value, censored) per run, as whole arms, since a censored ratio is no value."""
    if not base or not head:
        return None
    limit = min(_observed_to(base), _observed_to(head))
    if math.isinf(limit):
        limit = max(value for value, _ in (*base, *head))
    of_base, of_head = _times(base, limit), _times(head, limit)
    known = of_base.restricted_mean > 0 and of_head.restricted_mean > 0
    log = log_ratio(of_base.restricted_mean, of_head.restricted_mean) if known else None
    with np.errstate(invalid="ignore"):  # 0 / 0 if the log-rank variance is 0
        p = float(stats.logrank(_data(head), _data(base)).pvalue)
    return CensoredEffect(of_base, of_head, limit, log, 1.0 if math.isnan(p) else p)


def censored_verdict(effect: CensoredEffect, *, margin: float, better: Better, p_adjusted: float) -> Verdict:
    """A difference needs log-rank and the margin; equivalence is never shown."""
    beyond = effect.log is None or abs(effect.log) > math.log1p(margin)
    difference = effect.head.restricted_mean - effect.base.restricted_mean
    return _direction(difference, better) if beyond and difference and p_adjusted < ALPHA else "inconclusive"


def _observed_to(arm: Sequence[tuple[float, bool]]) -> float:
    value, censored = max(arm)
    return value if censored else math.inf


def _data(arm: Sequence[tuple[float, bool]]) -> stats.CensoredData:
    return stats.CensoredData(
        uncensored=[value for value, censored in arm if not censored],
        right=[value for value, censored in arm if censored],
    )


def _times(arm: Sequence[tuple[float, bool]], limit: float) -> Times:
    survival = stats.ecdf(_data(arm)).sf
    steps = [(float(t), float(s)) for t, s in zip(survival.quantiles, survival.probabilities, strict=True)]
    median = next((t for t, still in steps if still <= 0.5), None)
    inside = [(0.0, 1.0), *((t, still) for t, still in steps if t < limit)]
    ends = [t for t, _ in inside[1:]] + [limit]
    mean = sum(still * (end - start) for (start, still), end in zip(inside, ends, strict=True))
    return Times(len(arm), sum(not censored for _, censored in arm), median, mean)
