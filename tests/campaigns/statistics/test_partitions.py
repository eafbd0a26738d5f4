"""The curve of what partitions cost: medians, straight lines in between, and nothing beyond."""

from campaigns.statistics.partitions import at, curve
from history.results.capacity import PartitionCost


def cost(
    partitions: float, cpu_s_per_mb: float, p99_ms: float, recovery_s: float | None, *, runs: int = 1
) -> PartitionCost:
    """Return the cost of partitions in one run or more."""
    return PartitionCost(
        partitions=partitions, cpu_s_per_mb=cpu_s_per_mb, p99_ms=p99_ms, recovery_s=recovery_s, runs=runs
    )


RUNS = [cost(1000, 0.3, 60, 20), cost(100, 0.1, 20, 10), cost(100, 0.2, 30, None), cost(100, 0.12, 22, 12)]


def test_a_number_of_partitions_has_the_median_of_its_runs() -> None:
    """Of three CPU times the middle one; a run that was given up has no recovery, and the others have."""
    assert curve(RUNS) == [cost(100, 0.12, 22, 11, runs=3), cost(1000, 0.3, 60, 20, runs=1)]


def test_between_two_numbers_the_cost_lies_on_a_straight_line() -> None:
    """550 lies half way; an end is the end's own."""
    half, end = at(550, curve(RUNS)), at(1000, curve(RUNS))

    assert half is not None
    assert (round(half.cpu_s_per_mb or 0, 9), half.p99_ms, half.recovery_s) == (0.21, 41, 15.5)
    assert end is not None
    assert (end.cpu_s_per_mb, end.p99_ms, end.recovery_s) == (0.3, 60, 20)


def test_beyond_what_was_run_there_is_no_cost() -> None:
    """Neither above the most nor below the fewest, nor where nothing was run; nor of a measure that ends earlier."""
    assert at(1001, curve(RUNS)) is None
    assert at(99, curve(RUNS)) is None
    assert at(100, []) is None
    found = at(550, curve([cost(100, 0.1, 20, 10), cost(1000, 0.3, 60, None)]))
    assert found is not None
    assert (found.p99_ms, found.recovery_s) == (40, None)
