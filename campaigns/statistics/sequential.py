"""Sequential tests that call a build good or bad; stopping after any run is allowed.

Each direction's e-process has an expected value of at most 1 if the answer is wrong, so it reaches ``1 / ERROR`` in at
most ``ERROR`` of such cases (Ville, 1939; Ramdas et al., 2023, "Game-theoretic statistics and safe anytime-valid
inference"). Evidence is its logarithm: above 0 for bad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy import special

ERROR = 0.01  # per direction
ENOUGH = -math.log(ERROR)
FALSE_ALARM = 0.01  # highest share of a good build's violating runs; none was observed (docs/trust.md)
_SPREAD = 4.0  # prior variance of an effect in standard deviations: few pairs detect large and small effects


def evidence_of_events(seen: Sequence[bool], least: float) -> float:
    """Return the evidence for an event in a share of at least ``least``.

    Against a good build: the likelihood ratio, averaged over shares from ``least`` to 1. Against a bad one: the largest
    of them, which stays below the true share's, a martingale.
    """
    runs, events = len(seen), sum(seen)
    if not runs:
        return 0.0
    good = events * math.log(FALSE_ALARM) + (runs - events) * math.log1p(-FALSE_ALARM)
    upto = (events + 1, runs - events + 1)
    average = float(special.betaln(*upto)) + math.log(special.betaincc(*upto, least) / (1 - least)) - good
    if average > 0:
        return average
    likeliest = max(events / runs, least)
    largest = special.xlogy(events, likeliest) + special.xlog1py(runs - events, -likeliest) - good
    return min(float(largest), 0.0)


def clean_runs(least: float) -> int:
    """Return how many runs without the event call a build good."""
    return math.ceil(ENOUGH / math.log((1 - FALSE_ALARM) / (1 - least)))


def evidence_of_effects(log_ratios: Sequence[float], least: float) -> float:
    """Return the evidence of pairs: a bad build's log-ratios are around or beyond ``least``, a good one's around 0.

    One-sided t tests, a normal prior on the effect in standard deviations, the right Haar prior on these (Rouder et
    al., 2009). A true effect beyond the bound only lowers its t.
    """
    side = math.copysign(1.0, least)
    worse = [side * log_ratio for log_ratio in log_ratios]
    bad, good = _beyond(worse), _beyond([abs(least) - each for each in worse])
    return bad if bad >= good else -good


def _beyond(values: Sequence[float]) -> float:
    """Return the log evidence that normal values' mean is above 0."""
    n = len(values)
    if n < 2 or fmean(values) <= 0:
        return 0.0
    error = stdev(values) / math.sqrt(n)
    square = (fmean(values) / error) ** 2 / (n - 1) if error else math.inf
    shrunk = 1 + n * _SPREAD
    gain = math.log1p(square) - math.log1p(square / shrunk) if math.isfinite(square) else math.log(shrunk)
    return max(0.0, n / 2 * gain - math.log(shrunk) / 2)
