"""Gaps, offsets that go back, and single wrong base offsets."""

import numpy as np
import pytest

from kafka_files.offset_order import misfits


def found(firsts, *, hidden=(), expected=0):
    """The misfits of batches of ten records."""
    first = np.array(firsts, np.int64)
    may_hide = np.isin(np.arange(len(first)), hidden)
    return list(misfits(first, first + 10, may_hide, expected))


@pytest.mark.parametrize(
    ("firsts", "misfit"),
    [
        ([0, 10, 20, 30], []),
        ([0, 10, 40, 50], [(2, "gap", 20)]),
        ([0, 10, 999, 30, 40], [(2, "alone", 20)]),
        ([0, 10, 999, 35, 45], [(2, "alone", 20)]),  # compacted
        ([0, 10, 20, 3, 40, 50], [(3, "alone", 30)]),
        ([0, 10, 20, 10, 20, 30], [(3, "back", 30)]),  # written again: once
        ([0, 10, 999], [(2, "gap", 20)]),
        ([999, 10, 20], [(0, "alone", 0)]),
    ],
)
def test_a_batch_that_does_not_follow_is_named_once(firsts, misfit):
    """Sound batches behind a wrong base offset are none."""
    assert found(firsts) == misfit


def test_damage_hides_a_gap_and_nothing_else():
    """Offsets that go back stay."""
    assert found([0, 10, 40, 50], hidden=[2]) == []
    assert found([0, 10, 5, 15], hidden=[2]) == [(2, "back", 20)]
