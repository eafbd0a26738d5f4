"""Sequential tests that call a build good or bad; looking after every run is allowed.

A bad build is known only by a least share of runs, or a least change of a metric. Each direction has an e-process,
whose expected value is at most 1 at any stopping time if the answer is wrong. So it reaches ``1 / ERROR`` in at most
``ERROR`` of such cases, however long the test goes on (Ville, 1939; Ramdas et al., 2023, "Game-theoretic statistics and
safe anytime-valid inference"). Evidence is the logarithm: above 0 for bad, below 0 for good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy import special

ERROR = 0.01  # of each direction
ENOUGH = -math.log(ERROR)
FALSE_ALARM = 0.01  # highest share of a good build's runs with a violation; none was observed (docs/trust.md)
_SPREAD = 4.0  # prior variance of an effect in standard deviations: few pairs detect large and small effects


def evidence_of_events(seen: Sequence[bool], least: float) -> float:
    """Return the evidence of runs with or without an event that a bad build shows in a share of at least ``least``.

    Against a good build (the event in at most FALSE_ALARM of runs): the likelihood ratio, averaged over all shares from
    ``least`` to 1. Against a bad one: the largest likelihood ratio of those shares. Whichever share is true, the
    process stays below that share's own, which is a martingale.
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
    """Return the evidence of pairs with a good build: a bad one's log-ratios lie around or beyond ``least``.

    A good build's lie around 0 or have the other sign. The pairs' scatter is unknown: each direction is a one-sided t
    test with a normal prior on the effect in standard deviations and the right Haar prior on the standard deviation
    (Rouder et al., 2009). A true effect beyond the bound only lowers its t.
    """
    side = math.copysign(1.0, least)
    worse = [side * log_ratio for log_ratio in log_ratios]
    bad, good = _beyond(worse), _beyond([abs(least) - each for each in worse])
    return bad if bad >= good else -good


def _beyond(values: Sequence[float]) -> float:
    """Return the log of the evidence that the mean of normal values is above 0; 0.0 without any."""
    n = len(values)
    if n < 2 or fmean(values) <= 0:
        return 0.0
    error = stdev(values) / math.sqrt(n)
    square = (fmean(values) / error) ** 2 / (n - 1) if error else math.inf
    shrunk = 1 + n * _SPREAD
    gain = math.log1p(square) - math.log1p(square / shrunk) if math.isfinite(square) else math.log(shrunk)
    return max(0.0, n / 2 * gain - math.log(shrunk) / 2)
