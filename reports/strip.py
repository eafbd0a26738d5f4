"""The strip of a run's page: phases, faults and moments from left to right."""

from __future__ import annotations

from collections.abc import Sequence

from history.events import Event
from reports.page import Bar, Strip
from reports.plots import time_range
from reports.run_data import RunData
from reports.timeline import MOMENTS, Span, faults, moments, phases

WIDE_PIXELS, NARROW_PIXELS = 1040, 300  # on a desktop and on a phone
LETTER_PIXELS, NUMBER_PIXELS = 8.0, 26


def strip_of(run: RunData) -> Strip:
    """Place everything in percent of the run's time."""
    start_s, end_s = time_range(run)
    width_s = max(end_s - start_s, 0.001)

    def place(at_s: float) -> float:
        return round(100 * min(1.0, max(0.0, (at_s - start_s) / width_s)), 2)

    def bar(span: Span, letter: str = "") -> Bar:
        left = place(span.start_s)
        name = " ".join(filter(None, (span.label, span.target)))
        mark = "" if span.took_effect or not letter else "unproven"
        return Bar(name, f"{letter}{span.number}", left, round(place(span.end_s) - left, 2), mark=mark)

    injected = faults(run)
    lanes = 1 + max((fault.lane for fault in injected), default=-1)
    return Strip(
        _labelled([bar(phase) for phase in phases(run)]),
        [[bar(fault, "F") for fault in injected if fault.lane == lane] for lane in range(lanes)],
        [(place(at_s), _is_met(event), f"{at_s} s, {_moment(event)}") for at_s, event in moments(run)],
        [(place(second), f"{second:g} s") for second in _ticks(start_s, end_s)],
    )


def _labelled(bars: Sequence[Bar]) -> list[Bar]:
    shown = {}
    for size, pixels in (("wide", WIDE_PIXELS), ("narrow", NARROW_PIXELS)):
        fits = all(LETTER_PIXELS * (len(bar.label) + 3) <= bar.width * pixels / 100 for bar in bars)
        shown[size] = ["label"] * len(bars) if fits else _numbered(bars, 100 * NUMBER_PIXELS / pixels)
    return [
        Bar(bar.label, bar.number, bar.left, bar.width, wide, narrow)  # type: ignore[arg-type]  # literals
        for bar, wide, narrow in zip(bars, shown["wide"], shown["narrow"], strict=True)
    ]


def _numbered(bars: Sequence[Bar], room: float) -> list[str]:
    shown, free_from = [], 0.0
    for bar in bars:
        fits = bar.left >= free_from
        shown.append("number" if fits else "nothing")
        free_from = bar.left + room if fits else free_from
    return shown


def _is_met(event: Event) -> bool:
    return event.kind == "condition_met" or bool(event.detail.get("met"))


def _moment(event: Event) -> str:
    condition = event.detail.get("condition") or event.step or event.target
    return f"{MOMENTS[event.kind]}: {condition}"


def _ticks(start_s: float, end_s: float) -> list[int]:
    """At most nine, at steps of 1, 2 or 5 times a power of ten."""
    steps = (factor * 10**power for power in range(6) for factor in (1, 2, 5))
    step = next((step for step in steps if (end_s - start_s) / step <= 8), 10**6)
    first = -(-start_s // step) * step
    return [int(first + index * step) for index in range(int((end_s - first) // step) + 1)]
