"""Read the phases and faults of a run from its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from history import words
from history.events import Event
from reports import proofs

# event kind → name on the page
MOMENTS = {
    "condition_met": "condition met",
    "wait_timed_out": "condition not met in time",
    "precondition": "precondition",
    "server_exited": "server ended by itself",
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
    """Return the phases by start; without an end, they last until the last event."""
    ended = {event.phase: run.seconds(event.t_ns) for event in run.events if event.kind == "phase_ended"}
    started = [event for event in run.events if event.kind == "phase_started"]
    last_s = end_of_run(run)
    return [
        Span(event.phase, event.phase, run.seconds(event.t_ns), ended.get(event.phase, last_s), number=number)
        for number, event in enumerate(started, 1)
    ]


def end_of_run(run: Run) -> float:
    """Return the second of the last event."""
    return max((run.seconds(event.t_ns) for event in run.events), default=0.0)


def faults(run: Run) -> list[Span]:
    """Return every injected fault, until its recovery was verified."""
    phase_end = {phase.label: phase.end_s for phase in phases(run)}
    spans: list[Span] = []
    for event in run.events:
        if event.kind == "inject":
            end_s = phase_end.get(event.phase, end_of_run(run))
            step = str(event.detail.get("asked", ""))
            spans.append(Span(event.step, event.phase, run.seconds(event.t_ns), end_s, event.target, step))
        elif event.kind == "injected":
            _update(spans, event, took_effect=event.detail.get("effect_verified", True), proof=in_words(event))
        elif event.kind == "healed":
            ended = {"is_over": True, "end_s": run.seconds(event.t_ns)}
            _update(spans, event, cleared=event.detail.get("recovery_verified", True), **ended)
    return _with_lanes(spans)


def _update(spans: list[Span], event: Event, **change: Any) -> None:
    """An event with a target or step ends only the faults of that one, if there are any."""
    chosen = [i for i, span in enumerate(spans) if span.phase == event.phase and not span.is_over]
    if event.target:
        chosen = [i for i in chosen if spans[i].target == event.target]
    chosen = [i for i in chosen if spans[i].label == event.step] or chosen
    for index in chosen:
        spans[index] = replace(spans[index], **change)


def _with_lanes(spans: list[Span]) -> list[Span]:
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
