"""Intervals agree with published values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from campaigns.statistics.intervals import clopper_pearson, none_in
from history.errors import BadInput


def test_clopper_pearson():
    """Tables give 3 of 10 as 6.67 % to 65.25 %."""
    assert clopper_pearson(3, 10) == pytest.approx((0.0667, 0.6525), abs=1e-4)
    assert clopper_pearson(0, 10) == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert clopper_pearson(10, 10) == pytest.approx((0.6915, 1.0), abs=1e-4)
    assert clopper_pearson(0, 0) == (0.0, 1.0)


def test_more_events_than_trials_is_refused():
    """A count that cannot be is refused with its numbers."""
    with pytest.raises(BadInput, match="3 events in 2 trials"):
        clopper_pearson(3, 2)


def test_none_of_many_has_an_upper_bound():
    """0 of 30 still allows 9.5 %, 0 of 200 allows 1.5 %; nothing tried allows everything."""
    assert none_in(30) == pytest.approx(0.095, abs=1e-3)
    assert none_in(200) == pytest.approx(0.0149, abs=1e-4)
    assert none_in(0) == 1.0


@settings(derandomize=True)
@given(st.integers(1, 60), st.floats(0.001, 0.999), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_covers_the_true_rate_as_often_as_it_says(trials: int, rate: float, confidence: float) -> None:
    """Summed over every count of events that could have been seen: never less than the confidence."""
    covered = 0.0
    for events in range(trials + 1):
        low, high = clopper_pearson(events, trials, confidence)
        covered += stats.binom.pmf(events, trials, rate) if low <= rate <= high else 0.0

    assert covered >= confidence - 1e-9


@settings(derandomize=True)
@given(st.integers(1, 1_000), st.data())
def test_more_events_move_the_interval_up(trials: int, data: st.DataObject) -> None:
    """It holds the observed rate, and both ends grow with the events."""
    events = data.draw(st.integers(0, trials - 1))
    low, high = clopper_pearson(events, trials)
    next_low, next_high = clopper_pearson(events + 1, trials)

    assert low <= events / trials <= high
    assert (low <= next_low, high <= next_high) == (True, True)


@settings(derandomize=True)
@given(st.integers(1, 10_000), st.sampled_from([0.9, 0.95]))
def test_none_in_is_the_rate_that_would_hide_so_often(trials: int, confidence: float) -> None:
    """At the bound, no event in all the trials has the chance that is left over."""
    assert (1 - none_in(trials, confidence)) ** trials == pytest.approx(1 - confidence)
