"""Intervals agree with published values."""

import pytest

from history.errors import BadInput
from spark.intervals import clopper_pearson, none_in


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
