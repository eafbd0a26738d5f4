"""Fixed schedules."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.clients.pacing import Constant, Schedule, curve_of


@pytest.mark.parametrize(
    ("now_ns", "count"),
    [(999, 0), (1000, 1), (1000 + 249_999_999, 1), (1000 + 250_000_000, 2), (1000 + 1_000_000_000, 5)],
)
def test_things_are_due_from_the_start_on(now_ns: int, count: int) -> None:
    """At 4/s the first record is due at the start and the second 250 ms later, to the nanosecond."""
    assert Schedule(1000, Constant(4.0)).due_by(now_ns) == count


def test_a_late_caller_finds_all_that_was_due() -> None:
    """After a pause of an hour, the number of due records is that of an hour."""
    assert Schedule(0, Constant(1000.0)).due_by(3600 * 10**9) == 3_600_001


@given(rate=st.floats(0.1, 50_000), index=st.integers(0, 10_000_000))
def test_due_time_and_count_agree(rate: float, index: int) -> None:
    """A record counts as due at its due time, and not a nanosecond before."""
    schedule = Schedule(5, Constant(rate))
    due_ns = schedule.due_ns(index)

    assert schedule.due_by(due_ns) == index + 1
    assert schedule.due_by(due_ns - 1) == index


RATES = st.floats(1, 50_000)
CURVES = st.one_of(
    st.builds(lambda start, to, over: {"from": start, "to": to, "over": over}, RATES, RATES, st.floats(0.5, 100)),
    st.builds(
        lambda mean, amplitude, period: {"mean": mean, "amplitude": amplitude, "period": period},
        RATES,
        st.floats(0.01, 0.99),
        st.floats(0.5, 100),
    ),
    st.builds(
        lambda rates, length: {"steps": [[at * length, rate] for at, rate in enumerate(rates)]},
        st.lists(RATES, min_size=1, max_size=5),
        st.floats(0.5, 20),
    ),
)


@given(rate=CURVES, first=st.integers(0, 1000), index=st.integers(0, 2_000_000))
def test_due_times_follow_from_the_integral_of_a_curve(rate: dict[str, Any], first: int, index: int) -> None:
    """Due times follow the integral of the rate, rise strictly, and are the same one by one or in blocks."""
    schedule = Schedule(5, curve_of(rate), first)
    index += first
    times = schedule.due_times_ns(index, 50)
    due_ns = schedule.due_ns(index)
    elapsed_ns = due_ns - 5

    assert np.all(np.diff(times) > 0)
    assert times.tolist() == [schedule.due_ns(index + at) for at in range(50)]
    assert schedule.due_by(due_ns) == index + 1
    assert schedule.due_by(due_ns - 1) == index
    assert integral(rate, (elapsed_ns - 2) / 1e9) <= index - first <= integral(rate, (elapsed_ns + 2) / 1e9)


def integral(rate: dict[str, Any], seconds: float) -> float:
    """Return the integral of a curve's rate from the start on, by its formula."""
    match rate:
        case {"from": start, "to": to, "over": over}:
            ramp = min(seconds, over)
            return start * ramp + (to - start) * ramp**2 / over / 2 + to * max(seconds - over, 0)
        case {"mean": mean, "amplitude": amplitude, "period": period}:
            turn = 2 * np.pi / period
            return mean * seconds + mean * amplitude / turn * (1 - np.cos(turn * seconds))
    steps = [*rate["steps"], [np.inf, 0.0]]
    return sum(each * (min(seconds, end) - since) for (since, each), (end, _) in pairwise(steps) if since < seconds)


@pytest.mark.parametrize(
    ("rate", "due_s"),
    [
        (4.0, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ({"from": 1.0, "to": 3.0, "over": 2.0}, [0.0, 0.732051, 1.236068, 1.645751, 2.0]),
        ({"steps": [[0.0, 1.0], [2.0, 4.0]]}, [0.0, 1.0, 2.0, 2.25, 2.5]),
        ({"mean": 1.0, "amplitude": 0.5, "period": 2.0}, [0.0, 0.734075, 2.0, 2.734075, 4.0]),
    ],
)
def test_a_curve_has_its_times(rate: Any, due_s: list[float]) -> None:
    """Due times of a constant rate, a ramp, steps and a sine match times computed by hand."""
    assert Schedule(0, curve_of(rate)).due_times_ns(0, 5) / 1e9 == pytest.approx(due_s, abs=2e-6)


def test_what_is_no_rate_is_refused() -> None:
    """A rate with missing fields is rejected."""
    with pytest.raises(ValueError, match="is not a rate"):
        curve_of({"mean": 1.0})


def test_a_schedule_may_begin_at_a_later_number() -> None:
    """A schedule that begins at record 7 has that record due at the start."""
    schedule = Schedule(1000, Constant(4.0), first=7)

    assert [schedule.due_by(now_ns) for now_ns in (999, 1000, 1000 + 250_000_000)] == [7, 8, 9]
    assert schedule.due_ns(9) == 1000 + 500_000_000


def test_a_schedule_goes_on_at_another_rate() -> None:
    """After two rate changes, records that were due before a change keep their due times."""
    changed = Schedule(0, Constant(1.0)).then(1_500_000_000, Constant(4.0)).then(1_800_000_000, Constant(1.0))
    due_s = [0.0, 1.0, 1.5, 1.75, 1.8, 2.8]

    assert [changed.due_ns(index) / 1e9 for index in range(6)] == due_s
    assert (changed.due_times_ns(0, 6) / 1e9).tolist() == due_s
    assert (changed.due_times_ns(1, 2) / 1e9).tolist() == due_s[1:3]
    assert (changed.due_times_ns(4, 2) / 1e9).tolist() == due_s[4:]
    assert [changed.due_by(int(at_s * 1e9)) for at_s in (0, 1.4, 1.6, 1.79, 1.8, 2.9)] == [1, 2, 3, 4, 5, 6]
