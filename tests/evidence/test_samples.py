"""Which samples stay after their window."""

import numpy as np
import pyarrow as pa
import pytest

from evidence.facts import FOREVER_NS
from evidence.samples import Looks, Samples, thinned
from history.tables import REPLICAS
from tests.evidence.folders import S, sample

WAITS = 10 * S


def moments(*seconds):
    """Return looks at some seconds."""
    return Looks(np.array([each * S for each in seconds], dtype=np.int64))


def left(*rows, looks=None, settled_s=None):
    """Return the seconds at which the remaining samples were sent."""
    settled_ns = FOREVER_NS if settled_s is None else settled_s * S
    kept = thinned(Samples.of(pa.Table.from_pylist(rows, REPLICAS)), looks or Looks(), settled_ns)
    assert kept.carried.all()
    return [t_ns // S for t_ns in kept.sent_ns.tolist()]


def rising(*seconds, broker=1, **other):
    """Return samples whose HW and LEO are their second."""
    return [sample(broker, second * S, second, second, **other) for second in seconds]


def test_the_first_and_last_of_each_replica_stay():
    """Of a replica that only grows, the first and the last samples of each epoch stay, and none between them."""
    assert left(*rising(0, 1, 2, 3, 4), *rising(5, 6, 7, 8, 9, epoch=1)) == [0, 3, 4, 5, 8, 9]
    assert left(*rising(0, 1, 2, 3, 4), *rising(5, 6, 7, 8, 9, broker=2)) == [0, 3, 4, 5, 8, 9]


@pytest.mark.parametrize(("column", "fell"), [("high_watermark", 2), ("log_end_offset", 2)])
def test_both_sides_of_a_fall_stay(column, fell):
    """A fall of HW or LEO stays with the sample before it."""
    rows = rising(0, 1, 2, 3, 4, 5, 6)
    rows[fell + 1][column] = 1

    assert {fell, fell + 1} <= set(left(*rows))
    assert fell not in left(*rising(0, 1, 2, 3, 4, 5, 6))


def test_what_a_check_looks_at_stays():
    """The last sample before a moment, one at it and the first after it stay."""
    assert left(*rising(0, 1, 2, 3, 4, 5, 6, 7, 8), looks=moments(3)) == [0, 2, 3, 4, 7, 8]
    assert left(*rising(0, 1, 2, 3, 4, 5, 6, 7, 8)) == [0, 7, 8]


def test_an_answer_that_may_still_count_stays():
    """A sample stays if its answer came after the window's end; a later one may have been answered before."""
    late = sample(2, 3 * S, 3, 3, received_ns=9 * S)
    before, after = rising(0, 1, 2, broker=2), rising(4, 5, 6, 7, broker=2)

    assert 3 in left(*before, late, *after, settled_s=8)
    assert 3 not in left(*before, late | {"received_ns": 3 * S}, *after, settled_s=8)


def test_a_last_stable_offset_that_stands_still_stays():
    """Both ends stay of a time in which the last stable offset stood still for too long, not of a shorter one."""
    rows = [sample(1, s * S, 90, 90 + s, last_stable_offset=[0, 5, 5, 5, 8, 9][min(s // 5, 5)]) for s in range(40)]

    assert {5, 19} <= set(left(*rows, looks=Looks(standing_ns=WAITS)))
    assert not {5, 19} & set(left(*rows, looks=Looks(standing_ns=2 * WAITS)))


def test_the_sample_that_first_showed_an_offset_stays():
    """For an offset that somebody asks about, the first sample stays whose HW has passed it."""
    asked = Looks(levels=np.array([3], dtype=np.int64))

    assert 4 in left(*rising(0, 1, 2, 3, 4, 5, 6), looks=asked)
    assert 4 not in left(*rising(0, 1, 2, 3, 4, 5, 6))
