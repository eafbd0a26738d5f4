"""Find phases without steady state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evidence.facts import Span
from evidence.faults import FaultSpan
from history.steady import MIN_SECONDS, Row, why_unsteady

_SECOND_NS = 1_000_000_000


def unsteady(spans: Iterable[Span], faults: Iterable[FaultSpan], seconds: Sequence[Row]) -> dict[str, str]:
    """Return phase → why it was in no steady state.

    ``seconds`` are rows of ``history.tables.TIMELINE_SENDS``.
    """
    faulty = {fault.phase for fault in faults if "inject" in fault.events}
    reasons = {span.phase: _reason(span, seconds) for span in spans if span.phase not in faulty}
    return {phase: why for phase, why in reasons.items() if why}


def _reason(span: Span, seconds: Sequence[Row]) -> str | None:
    inside = [row for row in seconds if span.from_ns <= row["t_ns"] <= span.to_ns - _SECOND_NS]
    return why_unsteady(inside) if len(inside) >= MIN_SECONDS else None
