"""Series, change points, the control and confirmations, on values that can be checked by eye."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from campaigns.statistics import changes
from campaigns.statistics.changes import (
    MIN_NIGHTLY_RUNS,
    confirm,
    control_moved,
    is_good,
    latest_change,
    series,
    visible,
    window,
    worst_change,
)
from history.results.nightly import Point

QUIET = [3.00, 3.01, 2.99, 3.02, 2.98, 3.00, 3.01, 2.99, 3.00, 3.01, 2.99, 3.00]  # logarithms
ROW: dict[str, Any] = {
    "scenario": "steady",
    "scenario_digest": "d1",
    "kafka_version": "4.3.0",
    "metric": "latency_p99_ms",
    "phase": "",
    "host": "h1",
    "verdict": "pass",
    "trusted": True,
    "value": 20.0,
    "censored": False,
    "started_at": "2026-10-01T02:00:00+00:00",
    "labels": {"campaign": "n1"},
}


def row(nightly_run: int, value: float | None, **more: Any) -> dict[str, Any]:
    """Return a run of a nightly run."""
    at = f"2026-10-{nightly_run:02d}T02:00:00+00:00"
    return {**ROW, "value": value, "started_at": at, "labels": {"campaign": f"n{nightly_run}"}, **more}


def points(values: list[float], first: int = 0) -> list[Point]:
    """Return one point per nightly run from logarithms, for n0, n1, and so on."""
    return [_point(number, math.exp(log)) for number, log in enumerate(values, first)]


def _point(number: int, value: float) -> Point:
    return Point(nightly_run=f"n{number}", at=f"{number:03d}", value=value, low=value, high=value, runs=1)


# --- series ---------------------------------------------------------------------------------------


def test_a_nightly_run_is_the_median_of_its_runs() -> None:
    """A nightly run's point is the median of its runs, with minimum, maximum and number."""
    rows = [row(2, 30.0), row(1, 10.0), row(1, 90.0), row(1, 20.0)]

    [found] = series(rows, {"latency_p99_ms": 0}).values()

    assert [(p.nightly_run, p.value, p.low, p.high, p.runs) for p in found] == [
        ("n1", 20, 10, 90, 3),
        ("n2", 30, 30, 30, 1),
    ]


@pytest.mark.parametrize(
    ("more", "good"),
    [({}, True), ({"verdict": "fail"}, False), ({"verdict": "unknown"}, False), ({"trusted": False}, False),
     ({"value": None}, False)],
)  # fmt: skip
def test_only_runs_that_passed_and_are_trusted_count(more: dict[str, Any], good: bool) -> None:
    """Only runs that passed and are trusted count."""
    bad = {**ROW, **more}

    assert is_good(bad) == good
    assert bool(series([bad], {"latency_p99_ms": 0})) == good


@pytest.mark.parametrize(("column", "value"), [("host", "h2"), ("scenario_digest", "d2"), ("kafka_version", "4.3.1")])
def test_another_host_scenario_or_version_is_another_series(column: str, value: str) -> None:
    """Another host, scenario digest or version is another series."""
    assert len(series([row(1, 20.0), row(2, 20.0, **{column: value})], {"latency_p99_ms": 0})) == 2
    assert len(series([row(1, 20.0), row(2, 20.0)], {"latency_p99_ms": 0})) == 1


def test_values_below_the_floor_are_the_same() -> None:
    """Values below the floor count as the floor; without a floor a 0 is left out."""
    rows = [row(1, 0.0), row(1, 0.02), row(1, 0.5)]

    [floored] = series(rows, {"latency_p99_ms": 0.1}).values()
    [bare] = series(rows, {"latency_p99_ms": 0.0}).values()

    assert (floored[0].value, floored[0].runs) == (0.1, 3)
    assert (bare[0].value, bare[0].runs) == (0.26, 2)


def test_a_point_is_censored_where_its_median_is() -> None:
    """A point is censored if its median is."""
    cut = row(1, 30.0, censored=True)

    [at_least] = series([cut, row(1, 10.0), cut], {"latency_p99_ms": 0}).values()
    [exact] = series([row(1, 10.0), row(1, 20.0), cut], {"latency_p99_ms": 0}).values()

    assert (at_least[0].censored, exact[0].censored) == (True, False)


def test_the_window_rolls_and_keeps_what_is_pinned() -> None:
    """The window keeps the last nightly runs and the pinned ones."""
    kept = window(points([0.1 * nightly_run for nightly_run in range(10)]), 3, pinned=["n1", "n8"])

    assert [point.nightly_run for point in kept] == ["n1", "n6", "n7", "n8", "n9"]


# --- the screen -------------------------------------------------------------------------------------


def test_a_change_is_found_on_its_nightly_run_with_its_size() -> None:
    """A change of 10% is found after one nightly run and after five, with its size."""
    for after in (1, 5):
        change = latest_change([*QUIET, *(log + math.log(1.1) for log in QUIET[:after])])

        assert change
        assert (change.first, change.since) == (0, 12)
        assert change.after / change.before == pytest.approx(1.1, abs=0.01)
        assert change.low < math.log(1.1) < change.high


def test_a_quiet_series_has_no_change() -> None:
    """A quiet series has no change."""
    assert latest_change(QUIET) is None
    assert latest_change([3.0] * 20) is None
    assert latest_change([]) is None


def test_one_nightly_run_is_no_change_that_goes_on() -> None:
    """A past spike is no change; one in the newest nightly run is."""
    spike = QUIET[0] + 0.1

    assert latest_change([*QUIET[:6], spike, *QUIET[6:]]) is None
    assert latest_change([*QUIET, spike]) is not None


def test_a_fault_that_was_mended_is_not_the_last_change() -> None:
    """After a fix, the last change is the fix, measured from the slow level."""
    change = latest_change([*QUIET, *(log + 0.2 for log in QUIET), *QUIET[:6]])

    assert change
    assert (change.first, change.since) == (12, 24)
    assert change.log == pytest.approx(-0.2, abs=0.01)


def test_half_a_mend_leaves_what_it_did_not_mend() -> None:
    """After a partial fix, the worst change is from the first level to the newest."""
    slow = [log + 0.2 for log in QUIET]
    half, whole = ([*QUIET, *slow, *(log + left for log in QUIET[:6])] for left in (0.12, 0.0))
    found = worst_change(half, "lower")

    assert found
    assert (found.first, found.until, found.since) == (0, 12, 24)
    assert found.log == pytest.approx(0.12, abs=0.01)
    assert worst_change(half, "higher").log == pytest.approx(-0.08, abs=0.01)  # more is better: the lower one is worse
    assert worst_change(whole, "lower") is None


def test_small_steps_add_up() -> None:
    """Two steps of 6% add up to a change of 12%."""
    steps = [*QUIET, *(log + 0.06 for log in QUIET), *(log + 0.12 for log in QUIET)]
    found = worst_change(steps, "lower")

    assert found
    assert (found.first, found.until, found.since) == (0, 12, 24)
    assert worst_change(QUIET * 3, "lower") is None


def test_pinned_nightly_runs_are_a_level_of_their_own() -> None:
    """Pinned nightly runs are a separate level that changes are measured from."""
    values = [2.92, 2.93, 2.91, *QUIET, *(log + 0.05 for log in QUIET)]
    pinned, rolling = (worst_change(values, "lower", pinned=count) for count in (3, 0))

    assert pinned
    assert (pinned.first, pinned.until, pinned.since) == (0, 3, 15)
    assert pinned.log == pytest.approx(0.13, abs=0.01)
    assert rolling == pinned  # far enough away to be found as a level, too
    assert worst_change([2.97, 2.98, 2.99, *values[3:]], "lower", pinned=3).until == 3


def test_a_start_that_was_different_is_no_level() -> None:
    """Two odd nightly runs at the start are no level; three are one."""
    assert latest_change([2.0, 2.01, *QUIET]) is None
    assert latest_change([2.0, 2.01, 1.99, *QUIET]) is not None


def test_the_interval_is_that_of_a_t_test() -> None:
    """The interval is that of a t test with pooled variance."""
    found = changes.levels([1.0, 2.0, 3.0, 5.0, 6.0, 7.0], 0, 3)

    assert (found.low, found.high) == pytest.approx((4 - 2.26697, 4 + 2.26697), abs=1e-4)


def test_what_could_be_seen_is_seen_and_half_of_it_is_not() -> None:
    """A change of the visible size is found; half of it is not."""
    size = visible(QUIET)
    assert size

    level = sum(QUIET) / len(QUIET)
    assert latest_change([*QUIET, level + 1.2 * size]) is not None
    assert latest_change([*QUIET, level + size / 2]) is None
    assert visible(QUIET[: MIN_NIGHTLY_RUNS - 1]) is None


@settings(derandomize=True, max_examples=40)
@given(st.floats(-3, 3), st.sampled_from([-1.0, 1.0]))
def test_units_and_direction_make_no_difference(shift: float, sign: float) -> None:
    """Units and direction do not affect where a change is found, or its size."""
    slow = [*QUIET, *(log + 0.1 for log in QUIET[:3])]
    change, other = latest_change(slow), latest_change([sign * log + shift for log in slow])

    assert change
    assert other
    assert (other.since, other.log) == (change.since, pytest.approx(sign * change.log))


@pytest.mark.parametrize(
    ("nightly_runs", "missing"), [(0, MIN_NIGHTLY_RUNS + 1), (MIN_NIGHTLY_RUNS, 1), (MIN_NIGHTLY_RUNS + 1, 0), (40, 0)]
)
def test_too_few_nightly_runs_are_no_basis(nightly_runs: int, missing: int) -> None:
    """With too few nightly runs, the number that is missing is returned."""
    assert changes.missing_nightly_runs(points([3.0] * nightly_runs)) == missing


@pytest.mark.parametrize(
    ("log", "better", "worse"),
    [(0.1, "lower", True), (-0.1, "lower", False), (0.1, "higher", False), (-0.1, "higher", True), (0, "lower", False)],
)
def test_worse_depends_on_the_metric(log: float, better: Any, worse: bool) -> None:
    """Whether a change is worse depends on the metric's direction."""
    assert changes.is_worse(log, better) == worse


# --- the control -------------------------------------------------------------------------------------

NIGHTLY_RUNS = [f"n{nightly_run}" for nightly_run in range(12)], ["n12", "n13"]


@pytest.mark.parametrize(
    ("move", "moved"),
    [(0.10, True), (0.06, True), (0.04, False), (0.0, False), (-0.10, False)],
)
def test_the_control_moved_or_not(move: float, moved: bool) -> None:
    """The control moved if it changed in the same direction by at least half as much."""
    control = points([*QUIET, QUIET[0] + move, QUIET[1] + move])

    assert control_moved(control, *NIGHTLY_RUNS, log=0.1) == moved


def test_a_control_that_did_not_run_says_nothing() -> None:
    """A control without values before or after yields None."""
    assert control_moved(points(QUIET), *NIGHTLY_RUNS, log=0.1) is None
    assert control_moved(points([3.0, 3.0], first=11), *NIGHTLY_RUNS, log=0.1) is None


# --- the confirmation --------------------------------------------------------------------------------

BEFORE = [0.50, 0.51, 0.49, 0.50, 0.52, 0.48]  # the candidate has always been slower than the release
STILL = [0.50, 0.49, 0.51]
SLOW = [0.60, 0.61, 0.59]


@pytest.mark.parametrize(
    ("reruns", "better", "verdict"),
    [
        (SLOW, "lower", "confirmed"),
        (SLOW, "higher", "refuted"),  # it became better
        ([0.40, 0.41, 0.39], "higher", "confirmed"),
        (STILL, "lower", "refuted"),  # as far from the release as ever
        ([0.53, 0.54, 0.55], "lower", "inconclusive"),  # about the margin
        ([0.40, 0.60, 0.80], "lower", "inconclusive"),  # pairs that do not agree
    ],
)
def test_reruns_settle_a_candidate(reruns: list[float], better: Any, verdict: str) -> None:
    """Reruns are judged against the usual difference between candidate and release."""
    assert confirm(reruns, BEFORE, margin=0.05, better=better).verdict == verdict


def test_the_interval_is_never_narrower_than_one_nightly_run_among_nightly_runs() -> None:
    """The interval is never narrower than the variation between nightly runs."""
    found = confirm([0.6, 0.6, 0.6], BEFORE, margin=0.05, better="lower")

    assert found.log == pytest.approx(0.1)
    half = stats.t.isf(0.025, 5) * math.sqrt(0.001 / 5 * 7 / 6)
    assert (found.low, found.high) == pytest.approx((0.1 - half, 0.1 + half))


def test_too_few_pairs_or_nightly_runs_settle_nothing() -> None:
    """Too few pairs or nightly runs are inconclusive, with their numbers."""
    assert confirm(SLOW[:2], BEFORE, margin=0.05, better="lower").verdict == "inconclusive"
    assert "3 pairs and 2 nightly runs" in confirm(SLOW, BEFORE[:2], margin=0.05, better="lower").why


def test_a_shared_alpha_widens_the_interval() -> None:
    """A shared error rate widens the interval."""
    alone, shared = (confirm(SLOW, BEFORE, margin=0.05, better="lower", alpha=alpha) for alpha in (0.05, 0.05 / 4))

    assert alone.low is not None
    assert shared.low is not None
    assert shared.low < alone.low
