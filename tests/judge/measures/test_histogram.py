"""Histograms can be added, and their quantiles are exact within the stated error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.measures.histogram import COARSE, FINE, Histogram, buckets, middle

LARGEST = 2**62


def of(*times, bits=FINE):
    """Return the histogram of some times."""
    return Histogram.of(np.array(times, dtype=np.int64), bits)


@pytest.mark.parametrize("bits", [FINE, COARSE])
def test_buckets_follow_one_another(bits):
    """Buckets are consecutive: around every power of two the next time is in the same bucket or the next one."""
    for power in range(1, 63):
        around = np.arange(2**power - 2, 2**power + 2, dtype=np.int64)
        assert set(np.diff(buckets(around, bits)).tolist()) <= {0, 1}

    assert buckets(np.array([-5, 0, 1, 2 ** (bits + 1)]), bits).tolist() == [0, 0, 1, 2 ** (bits + 1)]
    assert buckets(np.array([2**63 - 1]), bits).tolist() == [(64 - bits) * 2**bits - 1]


@given(st.integers(0, LARGEST), st.sampled_from([FINE, COARSE]))
def test_the_middle_of_a_bucket_is_close_to_its_times(time, bits):
    """The middle of a bucket differs from its times by at most half a bucket; small times are exact."""
    (bucket,) = buckets(np.array([time]), bits).tolist()
    error = abs(middle(bucket, bits) - time)

    assert error <= time * 2.0 ** -(bits + 1)
    assert error == 0 or time >= 2 ** (bits + 1)


TIMES = st.lists(st.integers(0, 10**13) | st.integers(0, 3000), min_size=1, max_size=60)


@given(TIMES, st.floats(0, 1), st.sampled_from([FINE, COARSE]))
def test_quantiles_differ_by_no_more_than_their_buckets(times, share, bits):
    """Quantiles differ from numpy's by at most their buckets."""
    exact = float(np.percentile(np.array(times, dtype=np.float64), 100 * share))
    found = of(*times, bits=bits).quantile(share)

    assert found == pytest.approx(exact, rel=2.0 ** -(bits + 1), abs=1e-3)
    assert min(times) <= found <= max(times)


@given(TIMES, TIMES)
def test_histograms_add_up(some, others):
    """The sum of two histograms is the histogram of all times."""
    told, together = of(*some) + of(*others), of(*some, *others)

    assert (told.buckets.tolist(), told.counts.tolist()) == (together.buckets.tolist(), together.counts.tolist())
    assert (told.least_ns, told.largest_ns, told.total) == (min(some + others), max(some + others), len(some + others))


def test_nothing_adds_nothing_and_has_no_quantile():
    """An empty histogram adds nothing and has no quantile; histograms of different precision cannot be added."""
    assert (of() + of(7)).quantile(0.5) == 7
    assert of().quantile(0.5) is None
    assert of().quantile(0.5, unanswered=3) is None
    with pytest.raises(ValueError, match="of 9 and of 5 bits"):
        of() + of(bits=COARSE)


@pytest.mark.parametrize(("unanswered", "median"), [(0, 20), (1, 25), (2, 30), (3, None), (4, None)])
def test_what_was_never_answered_took_longer_than_anything(unanswered, median):
    """Unanswered sends count as longer than any time, so the median may not exist."""
    assert of(10, 20, 30).quantile(0.5, unanswered) == median
