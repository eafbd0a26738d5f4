"""Read the phases and faults of a run from its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from evidence import faults as pairs
from evidence.faults import FaultSpan, fault_spans
from history import words
from history.events import Event
from reports import proofs

# event kind → name on the page
MOMENTS = {
    "condition_met": "condition met",
    "wait_timed_out": "condition not met in time",
    "precondition": "precondition",
    "server_exited": "server ended by itself",
    "topic_made_anew": "topic made anew",
    "broker_silent": "end of a broker's silence",
    "error": "error",
}
SHOWN = {
    "phase_started": "phase started",
    "phase_ended": "phase ended",
    "inject": "inject",
    "injected": "effect checked",
    "heal": "clear",
    "healed": "recovery checked",
    "node_exited": "node exited",
    "step": "step",
    "capture": "capture",
    "quiesced": "quiesced",
    "collected": "collected",
    **MOMENTS,
}

OWN_COLUMNS = {
    "asked",
    "effect_verified",
    "recovery_verified",
    "why",
}  # details with a column of their own


class Run(Protocol):
    """A run, finished or not."""

    @property
    def events(self) -> Sequence[Event]: ...
    def seconds(self, t_ns: int) -> float: ...


@dataclass(frozen=True)
class Span:
    """A phase or a fault, in seconds since the first phase began.

    ``target`` are the step's nodes. An uncleared fault ends with its phase. ``proof`` is None if the effect was not
    verified. Overlapping faults differ in ``lane``.
    """

    label: str
    phase: str
    start_s: float
    end_s: float
    target: str = ""
    step: str = ""
    proof: str | None = None
    took_effect: bool = False
    is_over: bool = False
    cleared: bool = False
    lane: int = 0
    number: int = 0

    @property
    def lasted_s(self) -> float:
        return self.end_s - self.start_s


def phases(run: Run) -> list[Span]:
    """Return the phases, in seconds."""
    return [
        Span(span.phase, span.phase, run.seconds(span.from_ns), run.seconds(span.to_ns), number=number)
        for number, span in enumerate(pairs.phases(run.events), 1)
    ]


def end_of_run(run: Run) -> float:
    """Return the second of the last event."""
    return max((run.seconds(event.t_ns) for event in run.events), default=0.0)


def faults(run: Run) -> list[Span]:
    """Return every injected fault, until its recovery was verified."""
    phase_end = {phase.label: phase.end_s for phase in phases(run)}
    found = fault_spans(run.events)
    return _with_lanes(_shown(run, fault, phase_end.get(fault.phase, end_of_run(run))) for fault in found)


def _shown(run: Run, fault: FaultSpan, phase_end_s: float) -> Span:
    order, proof = fault.events.get("inject"), fault.events.get("injected")
    return Span(
        fault.step,
        fault.phase,
        run.seconds(fault.from_ns),
        run.seconds(fault.at_ns("healed")) if fault.is_over else phase_end_s,
        fault.target,
        str(order.detail.get("asked", "")) if order else "",
        proof=in_words(proof) if proof else None,
        took_effect=fault.took_effect,
        is_over=fault.is_over,
        cleared=fault.recovered,
    )


def _with_lanes(spans: Iterable[Span]) -> list[Span]:
    placed: list[Span] = []
    for number, span in enumerate(spans, start=1):
        busy = {other.lane for other in placed if other.end_s > span.start_s}
        lane = next(lane for lane in range(len(placed) + 1) if lane not in busy)
        placed.append(replace(span, lane=lane, number=number))
    return placed


def moments(run: Run) -> list[tuple[float, Event]]:
    """Return conditions, preconditions and errors, with their second."""
    return [(run.seconds(event.t_ns), event) for event in run.events if event.kind in MOMENTS]


def in_words(event: Event) -> str:
    """Describe an event's detail, without those that have a column."""
    tell = proofs.sentence if event.kind in ("injected", "healed") else words.in_words
    rest = tell({name: value for name, value in event.detail.items() if name not in OWN_COLUMNS})
    return "; ".join(filter(None, (event.detail.get("why"), rest)))
