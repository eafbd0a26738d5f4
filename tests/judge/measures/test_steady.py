"""Steady state, by literal seconds of a phase."""

import pytest

from evidence.facts import Span
from history.events import Event
from judge.measures.steady import unsteady

S = 1_000_000_000
PHASE = Span("measured", 100 * S, 160 * S)


def seconds(p50_ms, acked=(1000,) * 5):
    """A row for each second of a minute, five windows of twelve with one median and one rate each."""
    return [{"t_ns": (100 + at) * S, "acked": acked[at // 12], "p50_ms": p50_ms[at // 12]} for at in range(60)]


@pytest.mark.parametrize(
    ("p50_ms", "said"),
    [
        ((2.0, 2.2, 1.9, 2.1, 2.0), None),  # a range of 15 %, no drift
        ((2.0, 2.45, 2.0, 2.0, 2.0), "range of median latency over 5 windows is 22%"),
        ((2.18, 2.09, 2.0, 1.95, 1.9), "median latency drifts by 14%"),  # a range of 14 %, as of a JVM that warms up
        ((2.1, 2.05, 2.0, 1.98, 1.94), None),  # a drift of 8 %
    ],
)
def test_a_phase_is_steady_within_twenty_and_ten_percent(p50_ms, said):
    """The range of five windows against their mean, and what a line through them rises."""
    found = unsteady([PHASE], [], seconds(p50_ms))

    assert said is None if not found else said in found["measured"]


def test_throughput_is_tested_too():
    """A rate that falls by a quarter in the last window."""
    found = unsteady([PHASE], [], seconds((2.0,) * 5, (1000, 1000, 1000, 1000, 750)))

    assert "range of acknowledged records a second over 5 windows is 26%" in found["measured"]


def test_a_fault_or_a_short_phase_is_not_tested():
    """With a fault nothing is steady, and of 49 s nobody can tell."""
    drifting = seconds((3.0, 2.5, 2.0, 1.5, 1.0))
    fault = Event(t_ns=110 * S, wall="", kind="inject", phase="measured")

    assert unsteady([PHASE], [fault], drifting) == {}
    assert unsteady([Span("measured", 100 * S, 149 * S)], [], drifting) == {}
    assert set(unsteady([Span("measured", 100 * S, 150 * S)], [], drifting)) == {"measured"}
