"""The phases and faults of a run as spans of time, told by its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from history.events import Event
from reports.run_data import RunData

MOMENTS = {
    "condition_met": "condition met",
    "wait_timed_out": "wait timed out",
    "precondition": "precondition",
    "error": "error",
}
TOLD = {
    "phase_started",
    "phase_ended",
    "inject",
    "injected",
    "heal",
    "healed",
    "node_exited",
    "step",
    "capture",
    "quiesced",
    "collected",
    *MOMENTS,
}


@dataclass(frozen=True)
class Span:
    """A phase or a fault, in seconds since the start of the first phase.

    ``asked`` is the scenario's step, ``target`` the nodes that it was bound to. ``end_s`` of a fault that was
    never healed is the end of its phase. ``proof`` is None where nobody looked whether the fault bit.
    ``lane`` keeps the labels of overlapping faults apart.
    """

    label: str
    phase: str
    start_s: float
    end_s: float
    target: str = ""
    asked: str = ""
    proof: str | None = None
    bit: bool = False
    over: bool = False
    healed: bool = False
    lane: int = 0
    number: int = 0


def phases(run: RunData) -> list[Span]:
    """The phases in the order in which they began; one that never ended lasts until the last event."""
    ended = {event.phase: run.seconds(event.t_ns) for event in run.events if event.kind == "phase_ended"}
    last_s = end_of_run(run)
    return [
        Span(event.phase, event.phase, run.seconds(event.t_ns), ended.get(event.phase, last_s))
        for event in run.events
        if event.kind == "phase_started"
    ]


def end_of_run(run: RunData) -> float:
    """The last thing that any event tells."""
    return max((run.seconds(event.t_ns) for event in run.events), default=0.0)


def faults(run: RunData) -> list[Span]:
    """Every injected fault, from the order to inject it until it was seen to be gone."""
    phase_end = {phase.label: phase.end_s for phase in phases(run)}
    found: list[Span] = []
    for event in run.events:
        if event.kind == "inject":
            end_s = phase_end.get(event.phase, end_of_run(run))
            asked = str(event.detail.get("asked", ""))
            found.append(Span(event.step, event.phase, run.seconds(event.t_ns), end_s, event.target, asked))
        elif event.kind == "injected":
            _update(found, event, bit=event.detail.get("effect_verified", True), proof=told(event.detail))
        elif event.kind == "healed":
            _update(
                found,
                event,
                over=True,
                healed=event.detail.get("recovery_verified", True),
                end_s=run.seconds(event.t_ns),
            )
    return _with_lanes(found)


def _update(found: list[Span], event: Event, **change: Any) -> None:
    """Apply a later event to the faults that it speaks of.

    Faults of its phase that are still in force; among them those of its target, if it names one, and of
    its step, if one of them has that step.
    """
    chosen = [i for i, span in enumerate(found) if span.phase == event.phase and not span.over]
    if event.target:
        chosen = [i for i in chosen if found[i].target == event.target]
    chosen = [i for i in chosen if found[i].label == event.step] or chosen
    for index in chosen:
        found[index] = replace(found[index], **change)


def _with_lanes(found: list[Span]) -> list[Span]:
    placed: list[Span] = []
    for number, span in enumerate(found, start=1):
        busy = {other.lane for other in placed if other.end_s > span.start_s}
        lane = next(lane for lane in range(len(placed) + 1) if lane not in busy)
        placed.append(replace(span, lane=lane, number=number))
    return placed


def moments(run: RunData) -> list[tuple[float, Event]]:
    """Waits that came true or ran out, windows, and errors, with their second."""
    return [(run.seconds(event.t_ns), event) for event in run.events if event.kind in MOMENTS]


def told(detail: Mapping[str, Any]) -> str:
    """An event's detail in one line of ``name value``; what is told by a column of its own is left out."""
    named = [
        (name, value)
        for name, value in detail.items()
        if name not in {"asked", "effect_verified", "recovery_verified", "why"}
    ]
    why = [str(detail["why"])] if detail.get("why") else []
    return "; ".join(why + [f"{name.replace('_', ' ')} {_flat(value)}" for name, value in named])


def _flat(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_flat, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(inner)}" for name, inner in value.items())
    return str(value)
