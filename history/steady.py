"""When a load counts as answered steadily.

The rule is that of SNIA's Solid State Storage Performance Test Specification, which asks it of five rounds: within the
windows of a phase the range of a figure is at most 20 % of its mean, and its linear fit rises or falls by at most 10 %.
CPU is not tested: its counters are read at the boundaries of phases alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, linear_regression, median
from typing import Any

Row = Mapping[str, Any]
WINDOWS = 5
MIN_SECONDS = 50  # windows of less than ten seconds follow every pause of a collector
MAX_RANGE, MAX_SLOPE = 0.20, 0.10  # as shares of the mean


def why_unsteady(seconds: Sequence[Row]) -> str | None:
    """What changed over seconds that follow each other: at least ``MIN_SECONDS`` of them, as rows of
    ``history.tables.TIMELINE_SENDS``; None if they were in steady state.
    """
    length = len(seconds) // WINDOWS
    windows = [seconds[at * length : (at + 1) * length] for at in range(WINDOWS)]
    throughput = [fmean(row["acked"] for row in window) for window in windows]
    latency = [median(row["p50_ms"] or 0.0 for row in window) for window in windows]
    changed = (_change("acknowledged records a second", throughput), _change("median latency", latency))
    return next((f"no steady state: {why}" for why in changed if why), None)


def _change(what: str, figures: Sequence[float]) -> str | None:
    mean = fmean(figures)
    wide = (max(figures) - min(figures)) / mean if mean else 0.0
    if wide > MAX_RANGE:
        return f"the range of {what} over {WINDOWS} windows is {wide:.0%} of its mean, above {MAX_RANGE:.0%}"
    drift = abs(linear_regression(range(WINDOWS), figures).slope) * (WINDOWS - 1) / mean if mean else 0.0
    if drift > MAX_SLOPE:
        return f"{what} drifts by {drift:.0%} of its mean over {WINDOWS} windows, above {MAX_SLOPE:.0%}"
    return None
