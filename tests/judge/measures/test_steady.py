"""Which phases are tested for a steady state."""

from __future__ import annotations

from evidence.facts import Span
from evidence.faults import fault_spans
from history.events import Event
from judge.measures.steady import unsteady

S = 1_000_000_000
PHASE = Span("measured", 100 * S, 160 * S)
FALLS = [{"t_ns": (100 + at) * S, "acked": 1000, "p50_ms": 3.0 - at / 30} for at in range(60)]
EVEN = [{**row, "p50_ms": 2.0} for row in FALLS]


def test_a_phase_whose_latency_falls_was_not_steady() -> None:
    """A phase whose latency falls is not steady; one with constant latency is."""
    assert unsteady([PHASE], [], EVEN) == {}
    assert "range of median latency" in unsteady([PHASE], [], FALLS)["measured"]


def test_a_fault_or_a_short_phase_is_not_tested() -> None:
    """A phase with a fault, or shorter than 50 s, is not tested."""
    fault = fault_spans([Event(t_ns=110 * S, wall="", kind="inject", phase="measured")])

    assert unsteady([PHASE], fault, FALLS) == {}
    assert unsteady([Span("measured", 100 * S, 149 * S)], [], FALLS) == {}
    assert set(unsteady([Span("measured", 100 * S, 150 * S)], [], FALLS)) == {"measured"}
