"""Fixed schedules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.clients.pacing import Schedule


@pytest.mark.parametrize(
    ("now_ns", "count"),
    [(999, 0), (1000, 1), (1000 + 249_999_999, 1), (1000 + 250_000_000, 2), (1000 + 1_000_000_000, 5)],
)
def test_things_are_due_from_the_start_on(now_ns: int, count: int) -> None:
    """At 4/s the first is due at the start, the second a quarter of a second later, not a nanosecond sooner."""
    assert Schedule(1000, 4.0).due_by(now_ns) == count


def test_a_late_caller_finds_all_that_was_due() -> None:
    """Nothing drifts: after a pause of an hour the count is that of an hour."""
    assert Schedule(0, 1000.0).due_by(3600 * 10**9) == 3_600_001


@given(rate=st.floats(0.1, 50_000), index=st.integers(0, 10_000_000))
def test_due_time_and_count_agree(rate: float, index: int) -> None:
    """At its due time a thing counts as due, a nanosecond before it does not."""
    schedule = Schedule(5, rate)
    due_ns = schedule.due_ns(index)

    assert schedule.due_by(due_ns) == index + 1
    assert schedule.due_by(due_ns - 1) == index


def test_a_schedule_may_begin_at_a_later_number() -> None:
    """That one is due at the start; before it nothing more than what came before."""
    schedule = Schedule(1000, 4.0, first=7)

    assert [schedule.due_by(now_ns) for now_ns in (999, 1000, 1000 + 250_000_000)] == [7, 8, 9]
    assert schedule.due_ns(9) == 1000 + 500_000_000
