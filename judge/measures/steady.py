"""Whether a phase was in steady state: whether what came before it was warm-up enough.

The rule is that of SNIA's Solid State Storage Performance Test Specification, which asks it of five rounds: within the
windows of a phase the range of a figure is at most 20 % of its mean, and its linear fit rises or falls by at most 10 %.
CPU is not tested: its counters are read at the boundaries of phases alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, linear_regression, median
from typing import Any

from evidence.facts import Span
from history.events import Event

Row = Mapping[str, Any]
WINDOWS = 5
MIN_SECONDS = 50  # windows of less than ten seconds follow every pause of a collector
MAX_RANGE, MAX_SLOPE = 0.20, 0.10  # as shares of the mean
_SECOND_NS = 1_000_000_000


def unsteady(spans: Iterable[Span], events: Sequence[Event], seconds: Sequence[Row]) -> dict[str, str]:
    """Phase → why it was in no steady state, of those that are long enough to tell and injected no fault.

    ``seconds`` are rows of ``history.tables.TIMELINE_SENDS``.
    """
    faulty = {event.phase for event in events if event.kind == "inject"}
    reasons = {span.phase: next(_reasons(span, seconds), None) for span in spans if span.phase not in faulty}
    return {phase: why for phase, why in reasons.items() if why}


def _reasons(span: Span, seconds: Sequence[Row]) -> Iterator[str]:
    inside = [row for row in seconds if span.from_ns <= row["t_ns"] <= span.to_ns - _SECOND_NS]
    length = len(inside) // WINDOWS
    if len(inside) < MIN_SECONDS:
        return
    windows = [inside[at * length : (at + 1) * length] for at in range(WINDOWS)]
    throughput = [fmean(row["acked"] for row in window) for window in windows]
    latency = [median(row["p50_ms"] or 0.0 for row in window) for window in windows]
    for what, figures in (("acknowledged records a second", throughput), ("median latency", latency)):
        mean = fmean(figures)
        wide = (max(figures) - min(figures)) / mean if mean else 0.0
        rises = abs(linear_regression(range(WINDOWS), figures).slope) * (WINDOWS - 1) / mean if mean else 0.0
        if wide > MAX_RANGE:
            told = f"the range of {what} over {WINDOWS} windows is {wide:.0%} of its mean, above {MAX_RANGE:.0%}"
            yield f"no steady state: {told}"
        elif rises > MAX_SLOPE:
            told = f"{what} drifts by {rises:.0%} of its mean over {WINDOWS} windows, above {MAX_SLOPE:.0%}"
            yield f"no steady state: {told}"
