"""The cost of partitions: medians of runs, interpolated linearly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np


class Cost(NamedTuple):
    """CPU seconds of all brokers per MB, p99, and time from a killed broker's start to full ISRs."""

    partitions: float
    cpu_s_per_mb: float | None
    p99_ms: float | None
    recovery_s: float | None
    runs: int = 1
    run_id: str = ""


def curve(runs: Iterable[Cost]) -> list[Cost]:
    """Return median costs, fewest partitions first."""
    by_count: dict[float, list[Cost]] = defaultdict(list)
    for run in runs:
        by_count[run.partitions].append(run)
    return [
        Cost(
            count,
            cpu_s_per_mb=_median(cost.cpu_s_per_mb for cost in found),
            p99_ms=_median(cost.p99_ms for cost in found),
            recovery_s=_median(cost.recovery_s for cost in found),
            runs=len(found),
        )
        for count, found in sorted(by_count.items())
    ]


def at(partitions: float, costs: Sequence[Cost]) -> Cost | None:
    """Interpolate a cost; None outside the measured range."""
    if not costs or not costs[0].partitions <= partitions <= costs[-1].partitions:
        return None
    return Cost(
        partitions,
        cpu_s_per_mb=_between(partitions, [(cost.partitions, cost.cpu_s_per_mb) for cost in costs]),
        p99_ms=_between(partitions, [(cost.partitions, cost.p99_ms) for cost in costs]),
        recovery_s=_between(partitions, [(cost.partitions, cost.recovery_s) for cost in costs]),
        runs=0,
    )


def _between(partitions: float, values: Sequence[tuple[float, float | None]]) -> float | None:
    known = [(count, value) for count, value in values if value is not None]
    if not known or not known[0][0] <= partitions <= known[-1][0]:
        return None
    return float(np.interp(partitions, [count for count, _ in known], [value for _, value in known]))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
