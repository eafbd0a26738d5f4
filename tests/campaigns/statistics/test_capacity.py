"""The catch-up model, the knee and the plan's arithmetic, on literal numbers and simulated runs."""

import math
from datetime import date
from functools import cache

import numpy as np
import pytest

from campaigns.statistics.capacity import (
    Demand,
    Knee,
    Measured,
    Step,
    bottleneck,
    demands,
    exhaustion,
    knee,
    ledger,
    load_of_a_broker,
    months_until,
    p99_at,
    partition_cost_at,
    partition_curve,
    runs_to_decide,
    throttle,
)
from campaigns.statistics.catch_up import (
    CatchUp,
    Interval,
    Point,
    as_json,
    catch_up_s,
    fit,
    needed_headroom,
    rebuild_s,
)
from history.errors import BadInput
from history.results.capacity import PartitionCost

RATE, START_S, NOISE = 20.0, 8.0, 0.1  # the truth of simulated runs
GRID = [(load, down_s) for load in (2.0, 6.0, 10.0) for down_s in (10.0, 30.0, 60.0)]
OUTSIDE = 13.0, 90.0
SIMULATED = 80


def simulated(random: np.random.Generator, limit_s: float = math.inf) -> list[Point]:
    """Return a run for each point of the grid, with noise; runs are given up after ``limit_s``."""
    points = []
    for load, down_s in GRID:
        took_s = catch_up_s(load, down_s, RATE, START_S) * math.exp(random.normal(0, NOISE))
        points.append(Point(load, down_s, min(took_s, limit_s), censored=took_s > limit_s))
    return points


@cache
def one_fit() -> CatchUp:
    """Return a fit of one simulated campaign."""
    return fit(simulated(np.random.default_rng(1)))


# --- the formula -----------------------------------------------------------------------------------


def test_the_catch_up_time_is_the_backlog_over_what_is_left_of_the_rate() -> None:
    """The catch-up time is backlog over the rate minus the load; start-up time adds to the backlog."""
    assert catch_up_s(12, 40, 20) == pytest.approx(60)
    assert catch_up_s(12, 40, 20, start_s=10) == pytest.approx(10 + 12 * 50 / 8)
    assert catch_up_s(12, 0, 20) == 0


def test_no_finite_catch_up_at_or_above_the_rate() -> None:
    """If the load is at or above R, catch-up never ends."""
    assert catch_up_s(20, 1, 20) == math.inf
    assert catch_up_s(21, 1, 20) == math.inf
    assert math.isfinite(catch_up_s(19.9, 1, 20))
    assert rebuild_s(1000, 20, 20) == math.inf
    assert rebuild_s(1000, 10, 20) == 100


def test_the_needed_headroom_meets_its_target_exactly() -> None:
    """The needed headroom meets its target exactly; it is infinite if the start-up alone takes the target."""
    assert needed_headroom(40, 60) == pytest.approx(1 + 40 / 60)
    rate = 12 * needed_headroom(40, 60, start_s=10)
    assert catch_up_s(12, 40, rate, start_s=10) == pytest.approx(60)
    assert needed_headroom(40, 10, start_s=10) == math.inf


# --- the fit ---------------------------------------------------------------------------------------


def test_the_intervals_of_the_fit_cover_the_truth_as_often_as_they_say() -> None:
    """In simulated campaigns, the 90% intervals of R, T0 and new runs cover the truth in about 90%."""
    random = np.random.default_rng(20261121)
    covered = {"rate": 0, "start": 0, "new run": 0}
    for _ in range(SIMULATED):
        fitted = fit(simulated(random))
        new_s = catch_up_s(*OUTSIDE, RATE, START_S) * math.exp(random.normal(0, NOISE))
        covered["rate"] += fitted.rate(6).low <= RATE <= fitted.rate(6).high
        covered["start"] += fitted.start().low <= START_S <= fitted.start().high
        covered["new run"] += fitted.predict(*OUTSIDE).low <= new_s <= fitted.predict(*OUTSIDE).high

    assert {name: 0.81 <= count / SIMULATED <= 0.99 for name, count in covered.items()} == dict.fromkeys(covered, True)


def test_a_rate_that_falls_with_the_load_is_predicted_beyond_the_grid() -> None:
    """If R falls with the load, the shared-rate model predicts times beyond the grid; a constant R is too short."""

    def run(load: float, down_s: float) -> Point:
        took_s = catch_up_s(load, down_s, RATE - 2 * load, START_S) * math.exp(random.normal(0, NOISE))
        return Point(load, down_s, took_s)

    random = np.random.default_rng(5)
    shared, constant = 0, 0
    for _ in range(20):
        points = [run(load, down_s) for load in (1, 3, 5) for down_s in (15, 30, 60)]
        new = run(6, 90)
        found = [fit(points, most).predict(new.load, new.down_s) for most in (3.0, 0.0)]
        shared += found[0].low <= new.took_s <= found[0].high
        constant += found[1].low <= new.took_s <= found[1].high

    assert shared >= 16
    assert constant <= 4


def test_how_much_is_shared_is_only_known_where_loads_differ() -> None:
    """How much rate is shared can only be estimated from different loads; R itself can be."""
    small = [Point(load, down_s, catch_up_s(load, down_s, 8, 5)) for load in (0.1, 0.2) for down_s in (100, 200, 400)]
    found = fit(small, 3.0)

    assert found.shared_with().high - found.shared_with().low > 2
    assert found.rate(0.2).low < 8 < found.rate(0.2).high * 1.05


def test_a_run_that_was_given_up_counts_as_at_least_so_long() -> None:
    """Runs that were given up count as censored; counting them as finished makes R too large."""
    random = np.random.default_rng(3)
    campaigns = [simulated(random, limit_s=50) for _ in range(20)]
    finished = [[point._replace(censored=False) for point in points] for points in campaigns]

    assert sum(point.censored for points in campaigns for point in points) > 20
    assert np.median([fit(points).rate(6).estimate for points in campaigns]) == pytest.approx(RATE, rel=0.04)
    assert np.median([fit(points).rate(6).estimate for points in finished]) > RATE * 1.08


def test_censored_runs_narrow_what_the_others_leave_open() -> None:
    """A censored run bounds R, which quick runs alone leave open."""
    quick = [Point(0.5, 10, took_s) for took_s in (8.1, 8.6, 8.9, 8.4)]
    slow = Point(5, 60, 100, censored=True)

    assert fit(quick).rate(6).high == math.inf
    assert fit([*quick, slow]).rate(6).high < 30


def test_too_few_runs_that_caught_up_determine_nothing() -> None:
    """Four runs that caught up are enough for a fit; three are rejected."""
    points = [Point(load, 30, catch_up_s(load, 30, RATE, START_S)) for load in (2, 4, 6, 8)]

    assert fit(points).rate(6).estimate == pytest.approx(RATE, rel=0.02)
    with pytest.raises(BadInput, match="3 runs that caught up"):
        fit([*points[:3], points[3]._replace(censored=True)])


def test_a_load_above_the_fitted_rate_has_no_finite_catch_up() -> None:
    """A load above R has no finite prediction."""
    assert all(map(math.isfinite, one_fit().predict(13, 90)))
    assert one_fit().predict(25, 90) == (math.inf, math.inf, math.inf)
    assert one_fit().chance(25, 90, 1e6) == 0


def test_a_prediction_for_a_new_run_holds_the_noise_of_runs() -> None:
    """The prediction interval of a new run includes the noise between runs."""
    predicted = one_fit().predict(*OUTSIDE)
    assert predicted.low < catch_up_s(*OUTSIDE, RATE, START_S) < predicted.high
    assert predicted.high / predicted.low > math.exp(2 * 1.645 * one_fit().noise())


def test_the_longest_downtime_is_where_the_upper_bound_meets_the_target() -> None:
    """The longest downtime is where the upper bound of the catch-up time meets the target."""
    longest = one_fit().longest_down_s(8, 60)
    assert longest.low < longest.estimate < longest.high
    assert one_fit().predict(8, longest.low).high == pytest.approx(60, rel=1e-3)
    assert one_fit().longest_down_s(8, 5) == (0, 0, 0)


def test_the_largest_load_is_where_the_upper_bound_meets_the_target() -> None:
    """The largest load is where the upper bound of the catch-up time meets the target, below R."""
    largest = one_fit().largest_load(30, 60)
    assert one_fit().predict(largest.low, 30).high == pytest.approx(60, rel=1e-3)
    assert largest.high < RATE


# --- the knee --------------------------------------------------------------------------------------

STEPS = [Step(load, p99, run) for run, factor in (("a", 1.0), ("b", 1.1), ("c", 0.9)) for load, p99 in (
    (2.0, 10 * factor), (4.0, 20 * factor), (6.0, 80 * factor), (8.0, 400 * factor))]  # fmt: skip


def test_the_knee_lies_between_the_steps_around_the_target() -> None:
    """The knee is interpolated between the load steps around the target, with an interval."""
    found = knee(STEPS, target_ms=100)
    assert 6 < found.load.low < found.load.estimate < found.load.high < 8
    assert (found.offered, found.runs) == (8, 3)
    assert found.safe == found.load.low


def test_a_target_that_is_never_left_has_no_knee_but_a_safe_load() -> None:
    """If the target is never exceeded, the safe load is the largest offered one."""
    found = knee(STEPS, target_ms=10_000)
    assert found.load.estimate == math.inf
    assert found.safe == 8


def test_a_target_below_the_first_step_has_no_safe_load() -> None:
    """If the first step exceeds the target, the safe load is zero."""
    assert knee(STEPS, target_ms=5).load == (0, 0, 0)


def test_a_missed_load_ends_the_curve_where_it_last_held() -> None:
    """A missed load ends the curve at the last load that was held."""
    missed = [step._replace(p99_ms=math.inf) if step.load == 6 else step for step in STEPS]
    assert knee(missed, target_ms=100).load == (4, 4, 4)


def test_a_load_that_one_run_missed_is_neither_held_nor_missed_for_sure() -> None:
    """A load that only some runs missed ends the estimate, but not the upper bound."""
    missed = [step._replace(p99_ms=math.inf) if (step.load, step.run_id) == (6, "b") else step for step in STEPS]
    found = knee(missed, target_ms=100).load

    assert (found.estimate, found.low) == (4, 4)
    assert found.high > 6


def test_runs_that_decide_are_more_the_nearer_the_target() -> None:
    """The nearer the target, the more runs are needed to decide."""
    assert [runs_to_decide(400, target, 0.3) for target in (1000, 600, 450)] == [3, 4, 20]
    assert runs_to_decide(600, 400, 0.3) == 4
    assert runs_to_decide(400, 600, 0.3, of_one_run=True) is None
    assert runs_to_decide(400, 400, 0.3) is None


def test_p99_between_steps_is_linear_in_its_logarithm() -> None:
    """p99 is interpolated linearly in its logarithm; above the last step it is unknown."""
    curve = [{"load": 1.0, "estimate": 10.0, "low": 8.0, "high": 12.0}]
    curve.append({"load": 3.0, "estimate": 1000.0, "low": 0.0, "high": math.inf})

    assert p99_at(curve, 2.0) == {"estimate": pytest.approx(100), "low": 0.0, "high": math.inf}
    assert p99_at(curve, 0.5) == {"estimate": 10.0, "low": 8.0, "high": 12.0}
    assert p99_at(curve, 3.1) is None


def test_one_run_has_a_knee_but_no_interval() -> None:
    """One run gives a knee without an interval, so its safe load is zero."""
    found = knee([step for step in STEPS if step.run_id == "a"], target_ms=100)
    assert 6 < found.load.estimate < 8
    assert (found.safe, found.load.high) == (0, math.inf)


def test_no_step_is_no_knee() -> None:
    """Without load steps the knee is an error."""
    with pytest.raises(BadInput, match="Without measured load steps"):
        knee([], target_ms=100)


# --- demand and limits -----------------------------------------------------------------------------


def test_demands_of_a_broker_follow_the_rules_of_replication() -> None:
    """The demands of a broker follow replication: 12 MB/s on three brokers with RF 3 and one group.

    Each broker has 12 in, 12 out and 12 to disk, and no more with one away. While the third catches up, the others each
    send its share and 4 MB/s of its backlog.
    """
    rows = {row.resource: row for row in _demands(limits={"cpu": 1.0, "network_out": 30.0})}

    assert load_of_a_broker(12, 3, 3) == 12
    assert [rows[name].healthy for name in ("cpu", "network_in", "network_out", "disk_write")] == [0.4, 12, 12, 12]
    assert [rows[name].degraded for name in ("network_in", "network_out", "disk_write")] == pytest.approx([12] * 3)
    assert rows["cpu"].degraded == pytest.approx(0.6)
    assert rows["catch_up_disk_read"].degraded == pytest.approx(4)  # (20 - 12) / 2
    assert rows["catch_up_out"].degraded == pytest.approx(22)
    assert rows["disk_write"].use is None


def test_replicas_that_can_be_moved_are() -> None:
    """On four brokers with RF 3, a missing broker's replicas are moved, so the others get 12 instead of 9."""
    found = demands(12, brokers=4, replication_factor=3, consumer_groups=1, cpu_s_per_mb=None, catch_up=20, limits={})
    rows = {row.resource: row for row in found}

    assert (rows["network_in"].healthy, rows["network_in"].degraded) == (9, pytest.approx(12))
    assert (rows["network_out"].healthy, rows["network_out"].degraded) == (9, pytest.approx(12))


def test_a_whole_rack_away_is_more_than_a_broker_and_old_reads_come_from_disk() -> None:
    """With racks, a missing rack counts more than a missing broker, and old reads come from disk.

    12 MB/s on 12 brokers with RF 3, two groups and a quarter old reads: 3 in, 4 out and 0.5 from disk each. One broker
    away: x 12/11. One of four racks: x 4/3. One of three: 3 in as before, and 4 x 3/2 x 3/4 out.
    """

    def of(racks: int, old_reads: float = 0.25) -> dict[str, Demand]:
        found = demands(
            12, brokers=12, replication_factor=3, consumer_groups=2, cpu_s_per_mb=None, catch_up=7,
            limits={"disk_read": 1.0}, old_reads=old_reads, racks=racks,
        )  # fmt: skip
        return {row.resource: row for row in found}

    names, four, three = ("network_in", "network_out", "disk_read"), of(4), of(3)
    assert [four[name].healthy for name in names] == pytest.approx([3, 4, 0.5])
    assert [four[name].degraded for name in names] == pytest.approx([3 * 12 / 11, 4 * 12 / 11, 0.5 * 12 / 11])
    assert [four[name].rack_away for name in names] == pytest.approx([4, 16 / 3, 2 / 3])
    assert [three[name].rack_away for name in names] == pytest.approx([3, 4.5, 0.75])
    assert [three[name].degraded for name in names] == pytest.approx([4, 16 / 3, 2 / 3])
    assert four["disk_read"].use == pytest.approx(2 / 3)
    assert four["catch_up_disk_read"].rack_away == pytest.approx(2 / 3 + (7 - 3) / 3)
    assert "disk_read" not in of(4, old_reads=0.0)


def test_the_bottleneck_is_the_resource_nearest_to_its_limit() -> None:
    """The bottleneck is the resource nearest to its limit; without limits there is none."""
    found = bottleneck(_demands(limits={"cpu": 1.0, "network_out": 30.0}))
    assert found is not None
    assert (found.resource, round(found.use or 0, 2)) == ("catch_up_out", 0.73)
    assert bottleneck(_demands(limits={})) is None


def _demands(limits: dict[str, float]) -> list:
    return demands(12, brokers=3, replication_factor=3, consumer_groups=1, cpu_s_per_mb=0.1, catch_up=20, limits=limits)


# --- plans -----------------------------------------------------------------------------------------


def test_throttle_bounds() -> None:
    """A throttle must be above the load, above the rate for the target, and below the peers' spare bandwidth."""
    bounds = throttle(12, down_s=40, target_s=60, start_s=0, spare_out=10, unthrottled=40)
    assert bounds == (12, pytest.approx(20), 22)
    assert throttle(12, down_s=40, target_s=60, start_s=0, spare_out=-3, unthrottled=40).latency == 12
    assert throttle(12, down_s=40, target_s=60, start_s=0, spare_out=90, unthrottled=40).latency == 40


def test_the_ledger_takes_each_reserve_from_what_the_one_before_left() -> None:
    """Each line of the ledger subtracts from the one before: 30 less 10 and 12 leave 8 MB/s."""
    lines = ledger(30, [("failure", 10), ("load", 12)])
    assert [line.left for line in lines] == [30, 20, 8]


def test_exhaustion_is_a_range_of_dates() -> None:
    """Exhaustion is a range of dates, from cautious limit and fast growth to the opposite; without growth never."""
    assert months_until(10, 20, 1.0) == 1
    assert months_until(20, 20, 0.1) == 0
    assert months_until(10, 20, 0) == math.inf
    first, last = exhaustion(date(2026, 11, 21), 10, Interval(25, 20, 40), (0.5, 1.0))
    assert first == date(2026, 12, 21)
    assert last is not None
    assert first < last
    assert exhaustion(date(2026, 11, 21), 10, Interval(25, 20, math.inf), (0.0, 0.1))[1] is None


def _measured(degraded: float = 10.0, healthy: float = 18.0, tried: float = 30.0) -> Measured:
    def at(load: float) -> Knee:
        return Knee(Interval(load, load - 1, load + 1), offered=30, runs=3, curve=[])

    knees = {"healthy": at(healthy), "degraded": at(degraded)}
    return Measured(brokers=3, replication_factor=3, **knees, catch_up=one_fit(), tried=tried)


def test_the_safe_load_is_the_smaller_of_latency_and_recovery_in_the_degraded_state() -> None:
    """The safe load is the smaller of the degraded knee's lower bound and the recovery limit."""
    measured = _measured()
    assert measured.latency_load(3) == 9
    assert measured.load(3, 10, 60) == 9
    assert measured.load(3, 120, 60) == measured.recovery_load(3, 120, 60) < 9


def test_recovery_is_safe_no_further_than_it_was_tried() -> None:
    """The recovery limit is bounded by the load at which recovery was tested."""
    model = one_fit().largest_load(30, 60).low

    assert 5 < model < 30
    assert [_measured(tried=5).recovery_load(brokers, 30, 60) for brokers in (3, 6)] == [5, 10]
    assert _measured().recovery_load(3, 30, 60) == model


def test_more_brokers_carry_more_and_the_fewest_are_named() -> None:
    """The fewest sufficient brokers are named: 9 MB/s with one of three away, so 20 MB/s need seven.

    A target below the start-up time is met by no number of brokers.
    """
    measured = _measured(healthy=40)
    assert measured.latency_load(6) == pytest.approx(18)
    assert measured.brokers_for(9, 10, 60) == 3
    assert measured.brokers_for(20, 10, 60) == 7
    assert measured.brokers_for(20, 10, 5) is None
    assert measured.degraded_knee(6).estimate == 20


def test_racks_ask_for_as_many_brokers_each_and_for_a_rack_away() -> None:
    """With racks the number of brokers is a multiple of the racks, and a whole rack may be away.

    20 MB/s need seven brokers, and nine in three racks. Disks may need more.
    """
    measured = _measured(healthy=40)
    assert (measured.latency_load(3), measured.latency_load(3, 3)) == (9, 9)
    assert [measured.brokers_for(20, 10, 60, racks=racks) for racks in (None, 3, 4)] == [7, 9, 8]

    small = _measured(healthy=12)
    assert (small.latency_load(3), small.latency_load(3, 3)) == (9, pytest.approx(22 / 3))
    assert [small.brokers_for(18, 10, 60, racks=racks) for racks in (None, 3)] == [6, 9]
    assert small.brokers_for(18, 10, 60, racks=3, fits=lambda brokers: brokers >= 10) == 12


def test_bounds_that_do_not_exist_are_null() -> None:
    """Infinite bounds are null in JSON."""
    assert as_json(Interval(1, 0, math.inf)) == {"estimate": 1, "low": 0, "high": None}


# --- the cost of partitions -----------------------------------------------------------------------


def cost(
    partitions: float, cpu_s_per_mb: float, p99_ms: float, recovery_s: float | None, *, runs: int = 1
) -> PartitionCost:
    """Return the cost of partitions in one run or more."""
    return PartitionCost(
        partitions=partitions, cpu_s_per_mb=cpu_s_per_mb, p99_ms=p99_ms, recovery_s=recovery_s, runs=runs
    )


COSTS = [cost(1000, 0.3, 60, 20), cost(100, 0.1, 20, 10), cost(100, 0.2, 30, None), cost(100, 0.12, 22, 12)]


def test_a_number_of_partitions_has_the_median_of_its_runs() -> None:
    """Of three CPU times the middle one; a run that was given up has no recovery, and the others have."""
    assert partition_curve(COSTS) == [cost(100, 0.12, 22, 11, runs=3), cost(1000, 0.3, 60, 20, runs=1)]


def test_between_two_numbers_the_cost_lies_on_a_straight_line() -> None:
    """550 lies half way; an end is the end's own."""
    half, end = partition_cost_at(550, partition_curve(COSTS)), partition_cost_at(1000, partition_curve(COSTS))

    assert half is not None
    assert (round(half.cpu_s_per_mb or 0, 9), half.p99_ms, half.recovery_s) == (0.21, 41, 15.5)
    assert end is not None
    assert (end.cpu_s_per_mb, end.p99_ms, end.recovery_s) == (0.3, 60, 20)


def test_beyond_what_was_run_there_is_no_cost() -> None:
    """Neither above the most nor below the fewest, nor where nothing was run; nor of a measure that ends earlier."""
    assert partition_cost_at(1001, partition_curve(COSTS)) is None
    assert partition_cost_at(99, partition_curve(COSTS)) is None
    assert partition_cost_at(100, []) is None
    found = partition_cost_at(550, partition_curve([cost(100, 0.1, 20, 10), cost(1000, 0.3, 60, None)]))
    assert found is not None
    assert (found.p99_ms, found.recovery_s) == (40, None)
