"""The cost of partitions: medians of runs, interpolated linearly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import median

import numpy as np

from history.results.capacity import PartitionCost


def curve(runs: Iterable[PartitionCost]) -> list[PartitionCost]:
    """Return median costs, fewest partitions first."""
    by_count: dict[float, list[PartitionCost]] = defaultdict(list)
    for run in runs:
        by_count[run.partitions].append(run)
    return [_cost(count, len(found), partial(_median, found)) for count, found in sorted(by_count.items())]


def at(partitions: float, costs: Sequence[PartitionCost]) -> PartitionCost | None:
    """Interpolate a cost; None outside the measured range."""
    if not costs or not costs[0].partitions <= partitions <= costs[-1].partitions:
        return None
    return _cost(
        partitions, 0, lambda name: _between(partitions, [(cost.partitions, getattr(cost, name)) for cost in costs])
    )


def _cost(partitions: float, runs: int, of: Callable[[str], float | None]) -> PartitionCost:
    cpu_s_per_mb, p99_ms, recovery_s = map(of, ("cpu_s_per_mb", "p99_ms", "recovery_s"))
    return PartitionCost(
        partitions=partitions, cpu_s_per_mb=cpu_s_per_mb, p99_ms=p99_ms, recovery_s=recovery_s, runs=runs
    )


def _between(partitions: float, values: Sequence[tuple[float, float | None]]) -> float | None:
    known = [(count, value) for count, value in values if value is not None]
    if not known or not known[0][0] <= partitions <= known[-1][0]:
        return None
    return float(np.interp(partitions, [count for count, _ in known], [value for _, value in known]))


def _median(costs: Sequence[PartitionCost], name: str) -> float | None:
    known = [value for cost in costs if (value := getattr(cost, name)) is not None]
    return median(known) if known else None
