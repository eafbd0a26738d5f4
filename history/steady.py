"""Decide whether a load is in steady state.

Over five windows, a figure's range is at most 20 % of its mean (docs/dev/adr/0018-steady-state-is-a-range.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

Row = Mapping[str, Any]
WINDOWS = 5
MIN_SECONDS = 50  # windows under 10 s reflect GC pauses
MAX_RANGE = 0.20  # divided by the mean


def why_unsteady(seconds: Sequence[Row]) -> str | None:
    """Return what changed over consecutive seconds (``history.tables.TIMELINE_SENDS``), or None."""
    length = len(seconds) // WINDOWS
    windows = [seconds[at * length : (at + 1) * length] for at in range(WINDOWS)]
    measured = {
        "acknowledged records a second": [fmean(row["acked"] for row in window) for window in windows],
        "median latency": [median(row["p50_ms"] or 0.0 for row in window) for window in windows],
    }
    for what, figures in measured.items():
        mean = fmean(figures)
        wide = (max(figures) - min(figures)) / mean if mean else 0.0
        if wide > MAX_RANGE:
            change = f"the range of {what} over {WINDOWS} windows is {wide:.0%} of its mean, above {MAX_RANGE:.0%}"
            return f"no steady state: {change}"
    return None
