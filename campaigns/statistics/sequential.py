"""Wald's sequential probability ratio test: observe until one of two answers is as good as certain.

Evidence is the log of how much likelier the observations are if a build is bad than if it is good. It adds up from run
to run, and the test ends at ``ENOUGH`` to either side; each answer is then wrong in at most ``ERROR`` of all cases
(Wald, 1945), as far as what is known of good and bad holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats

ERROR = 0.01
ENOUGH = math.log((1 - ERROR) / ERROR)
FALSE_ALARM = 0.01  # the share of runs of a good build that may show a violation; none was seen (docs/trust.md)
CONFIDENCE = 0.9  # of the bound above a standard deviation that few pairs tell


def share(events: int, runs: int) -> float:
    """An estimate of how often an event happens that is never 0 or 1: Jeffreys' (half an event more of each kind)."""
    return (events + 0.5) / (runs + 1)


def evidence_of_events(seen: Sequence[bool], bad: float) -> float:
    """Of runs, each with or without the event, which a bad build shows in the share ``bad`` of all."""
    of_event, of_none = math.log(bad / FALSE_ALARM), math.log((1 - bad) / (1 - FALSE_ALARM))
    return sum(of_event if event else of_none for event in seen)


def evidence_of_effects(log_ratios: Sequence[float], effect: float, sd: float) -> float:
    """Of pairs beside a good build: a good one has log-ratios around 0, a bad one around ``effect``, both normal."""
    return sum(effect * (log_ratio - effect / 2) for log_ratio in log_ratios) / sd**2


def sd_bound(sd: float, n: int) -> float:
    """What a standard deviation estimated from ``n`` values is hardly above: its one-sided bound at CONFIDENCE."""
    return sd * math.sqrt((n - 1) / float(stats.chi2.ppf(1 - CONFIDENCE, n - 1)))
