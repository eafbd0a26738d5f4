"""Intervals for rates over runs; a run is the unit, never a record."""

from __future__ import annotations

from scipy import stats

from history.errors import BadInput


def clopper_pearson(events: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return a rate's exact interval, [0, 1] without trials; raise BadInput for impossible counts."""
    if not 0 <= events <= trials:
        raise BadInput(f"{events} events in {trials} trials is no count: events must lie between 0 and the trials.")
    if trials == 0:
        return 0.0, 1.0
    interval = stats.binomtest(events, trials).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)


def none_in(trials: int, confidence: float = 0.95) -> float:
    """Return a rate's one-sided upper bound after zero events (the exact rule of three)."""
    return 1.0 if trials == 0 else float(1 - (1 - confidence) ** (1 / trials))
