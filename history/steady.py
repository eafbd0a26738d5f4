"""When a load counts as answered steadily.

The rule is that of SNIA's Solid State Storage Performance Test Specification, which asks it of five rounds: within the
windows of a phase the range of a figure is at most 20 % of its mean. SNIA bounds the slope of a line through them, too,
by 10 %. That is for disks: brokers on two cores go on drifting by 7 to 15 % for minutes, on both sides of a comparison
(docs/dev/adr/0019). CPU is not tested: its counters are read at the boundaries of phases alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

Row = Mapping[str, Any]
WINDOWS = 5
MIN_SECONDS = 50  # windows of less than ten seconds follow every pause of a collector
MAX_RANGE = 0.20  # as a share of the mean


def why_unsteady(seconds: Sequence[Row]) -> str | None:
    """What changed over seconds that follow each other: at least ``MIN_SECONDS`` of them, as rows of
    ``history.tables.TIMELINE_SENDS``; None if they were in steady state.
    """
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
            told = f"the range of {what} over {WINDOWS} windows is {wide:.0%} of its mean, above {MAX_RANGE:.0%}"
            return f"no steady state: {told}"
    return None
