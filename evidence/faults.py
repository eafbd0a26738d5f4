"""Pair the events of each phase and of each fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evidence.facts import FOREVER_NS, Span
from history.events import Event

KINDS = ("inject", "injected", "heal", "healed")


def phases(events: Sequence[Event]) -> list[Span]:
    """Return the phases by start; without an end, they last until the last event."""
    ended = {event.phase: event.t_ns for event in events if event.kind == "phase_ended"}
    last_ns = max((event.t_ns for event in events), default=0)
    return [
        Span(event.phase, event.t_ns, ended.get(event.phase, last_ns), event.phase in ended)
        for event in events
        if event.kind == "phase_started"
    ]


@dataclass(frozen=True)
class FaultSpan:
    """One injection of a step's fault on its target nodes.

    ``inject`` and ``heal`` are written before an action, ``injected`` and ``healed`` after the check of its result.
    """

    step: str
    target: str
    phase: str
    events: dict[str, Event] = field(default_factory=dict)  # by kind

    @property
    def nodes(self) -> list[str]:
        return self.target.replace(",", " ").split()

    @property
    def from_ns(self) -> int:
        """Return when the fault was ordered, or else first seen."""
        return next(iter(self.events.values())).t_ns

    @property
    def took_effect(self) -> bool:
        return "injected" in self.events and self.events["injected"].detail.get("effect_verified") is True

    @property
    def is_over(self) -> bool:
        return "healed" in self.events

    @property
    def recovered(self) -> bool:
        return self.is_over and self.events["healed"].detail.get("recovery_verified") is True

    def at_ns(self, kind: str, otherwise: int = FOREVER_NS) -> int:
        return self.events[kind].t_ns if kind in self.events else otherwise


def fault_spans(events: Iterable[Event]) -> list[FaultSpan]:
    """Return the faults in order of their first events.

    A fault of the same step and target that is ordered before the first is healed is healed with it.
    """
    spans: list[FaultSpan] = []
    active: dict[tuple[str, str], list[FaultSpan]] = {}
    for event in sorted((event for event in events if event.kind in KINDS), key=lambda event: event.t_ns):
        same = active.setdefault((event.step, event.target), [])
        if event.kind == "inject" or (event.kind == "injected" and not same):
            same.append(FaultSpan(event.step, event.target, event.phase))
            spans.append(same[-1])
        for span in same[-1:] if event.kind in ("inject", "injected") else same:
            span.events.setdefault(event.kind, event)
        if event.kind == "healed":
            same.clear()
    return spans
