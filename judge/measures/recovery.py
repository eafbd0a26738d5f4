"""Measure each fault's impact.

Times count from the order to inject (``catch_up`` and ``rebalanced``: to heal) until the controller's decision.
``rebalanced`` is a full ISR with the preferred leader back. A time that outlasts fault or phase is censored. Without
good times, leaders' metadata gives upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import NULL, OK, Ints, Samples, Sends
from evidence.facts import Span
from history.events import Event
from history.manifest import Manifest
from history.partition import TopicPartition
from history.tables import CONTROLLER
from history.traits import Trait

_NO_HISTORY = "the controller's history is missing or has no good times, and leaders' metadata is all there is"


Change = Mapping[str, Any]  # a row of ``evidence.views.Change``, with topic and partition


def phases(events: Iterable[Event]) -> list[Span]:
    """Return the run's phases, one without end up to the last event."""
    known = list(events)
    ended = {event.phase: event.t_ns for event in known if event.kind == "phase_ended"}
    return [
        Span(event.phase, event.t_ns, ended.get(event.phase, known[-1].t_ns))
        for event in known
        if event.kind == "phase_started"
    ]


def load_spans(events: Iterable[Event]) -> list[Span]:
    """Return the phases from their last load on.

    A load offered during a fault ends at the order to heal.
    """
    known = list(events)
    return [_load_span(span, [event for event in known if event.phase == span.phase]) for span in phases(known)]


def _load_span(span: Span, events: list[Event]) -> Span:
    offered = next((event for event in reversed(events) if event.kind == "rate_set"), None)
    if offered is None:
        return span
    from_ns = int(offered.detail.get("from_ns", offered.t_ns))
    faults = [event for event in events if event.kind == "injected" and event.t_ns < from_ns]
    heals = (_first_after(fault, "heal", events) for fault in faults)
    ends = [heal_ns for heal_ns in heals if heal_ns is not None and heal_ns > from_ns]
    return Span(span.phase, from_ns, min([span.to_ns, *ends]))


def fault_times(manifest: Manifest, events: list[Event], states: Iterable[Change]) -> Iterator[dict[str, Any]]:
    """Yield rows of the recovery table by fault and partition."""
    seen: dict[TopicPartition, list[Change]] = {}
    for row in states:
        seen.setdefault(TopicPartition.of(row), []).append(row)
    ends = {span.phase: span.to_ns for span in reversed(phases(events))}
    alike: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        alike.setdefault((event.step, event.target), []).append(event)
    for fault in (e for e in events if e.kind == "injected" and manifest.has(e.step, Trait.RECOVERY_EXPECTED)):
        times = _times(fault, alike[fault.step, fault.target], ends.get(fault.phase, events[-1].t_ns))
        for partition, of_partition in seen.items():
            yield from _of_fault(times, manifest, (*partition, of_partition))


class _Times(NamedTuple):
    """When a fault's injection and heal were ordered, and it and its phase ended."""

    fault: Event
    from_ns: int
    ordered_ns: int | None
    over_ns: int
    phase_ends: int


def _times(fault: Event, alike: list[Event], phase_ends: int) -> _Times:
    asked_ns = max((e.t_ns for e in alike if e.kind == "inject" and e.t_ns <= fault.t_ns), default=fault.t_ns)
    over_ns = _first_after(fault, "healed", alike) or phase_ends
    return _Times(fault, asked_ns, _first_after(fault, "heal", alike), over_ns, phase_ends)


def _of_fault(times: _Times, manifest: Manifest, where: tuple[str, int, list[Change]]) -> Iterator[dict[str, Any]]:
    """Yield one fault's times on one partition, censored at its end."""
    topic, partition, seen = where
    fault, from_ns, ordered_ns, over_ns, phase_ends = times
    decided = all(row["observer"] == CONTROLLER for row in seen)
    targets = {n.node_id for n in manifest.brokers if n.name in fault.target.replace(",", " ").split()}
    before = [row for row in seen if row["received_ns"] <= from_ns]
    assigned = set(manifest.topics[topic].assignment[partition]) if topic in manifest.topics else set()
    if not before or not targets & assigned:
        return

    def measure(metric: str, start_ns: int, found: Iterable[Change], limit_ns: int) -> dict[str, Any]:
        first_ns = next((row["received_ns"] for row in found), None)
        what = "the fault" if limit_ns == over_ns != phase_ends else "the phase"
        end_ns = max(limit_ns, start_ns) if first_ns is None else first_ns
        value_ms = (end_ns - start_ns) / 1e6
        if decided:
            note = None if first_ns is not None else f"not seen before {what} ended"
        elif first_ns is not None:
            note = f"at most: {_NO_HISTORY}"
        else:
            value_ms, note = None, f"not seen before {what} ended: {_NO_HISTORY}"
        return {
            "phase": fault.phase,
            "fault": f"{fault.step} {fault.target}",
            "topic": topic,
            "partition": partition,
            "metric": metric,
            "from_ns": start_ns,
            "value_ms": value_ms,
            "censored": decided and first_ns is None,
            "source": "controller" if decided else "metadata",
            "note": note,
        }

    last, after = before[-1], [row for row in seen if row["received_ns"] > from_ns]
    during = [row for row in after if row["received_ns"] <= over_ns]
    if last["leader"] in targets and manifest.has(fault.step, Trait.UNREACHABLE):
        yield measure("detect", from_ns, (r for r in during if r["leader"] != last["leader"]), over_ns)
        elected = (r for r in during if r["leader"] >= 0 and r["leader_epoch"] > last["leader_epoch"])
        yield measure("elect", from_ns, elected, over_ns)
    if targets & set(last["isr"]):
        yield measure("isr_shrink", from_ns, (r for r in during if not targets <= set(r["isr"])), over_ns)
    shrunk_ns = next((row["received_ns"] for row in [last, *during] if not targets <= set(row["isr"])), None)
    if shrunk_ns is not None:
        full = [row for row in after if row["received_ns"] > shrunk_ns and set(row["isr"]) >= assigned]
        yield measure("isr_full", from_ns, full, phase_ends)
        if ordered_ns is not None and not any(row["received_ns"] <= ordered_ns for row in full):
            yield measure("catch_up", ordered_ns, full, phase_ends)
            preferred = manifest.topics[topic].assignment[partition][0]
            if last["leader"] == preferred and any(row["leader"] != preferred for row in during):
                yield measure("rebalanced", ordered_ns, (r for r in full if r["leader"] == preferred), phase_ends)


def _first_after(fault: Event, kind: str, events: list[Event]) -> int | None:
    own = (e for e in events if e.kind == kind and (e.step, e.target) == (fault.step, fault.target))
    return next((e.t_ns for e in own if e.t_ns >= fault.t_ns), None)


def longest_stalls(
    where: TopicPartition, sends: Sends, samples: Samples, spans: Iterable[Span]
) -> list[dict[str, Any]]:
    """Return each phase's longest time without an acknowledgement, and without HW growth.

    ``sends`` are open loops', which never pause by themselves.
    """
    if not len(sends) or where.partition < 0:
        return []
    acked_ns = sends.done_ns[(sends.outcome == OK) & (sends.done_ns != NULL)]
    spans = list(spans)
    found = [_longest_gap(where, np.sort(acked_ns), span, "write_unavailable", "sends") for span in spans]
    if len(samples):
        grown_ns = growth(samples)
        found += [_longest_gap(where, grown_ns, span, "hw_stall", "replicas") for span in spans]
    return found


def growth(samples: Samples) -> Ints:
    """Return when the high watermark exceeded all values before."""
    order = np.argsort(samples.received_ns, kind="stable")
    hw = samples.hw[order]
    so_far = np.maximum.accumulate(hw)
    above = np.ones(hw.size, dtype=np.bool_)
    above[1:] = hw[1:] > so_far[:-1]
    return samples.received_ns[order][above]


def _longest_gap(where: TopicPartition, moments: Ints, span: Span, metric: str, source: str) -> dict[str, Any]:
    begin = int(np.searchsorted(moments, span.from_ns))
    inside = moments[begin : max(begin, int(np.searchsorted(moments, span.to_ns, side="right")))]
    edges = np.concatenate([[span.from_ns], inside, [span.to_ns]])
    gaps = np.diff(edges)
    longest = gaps.size - 1 - int(np.argmax(gaps[::-1]))
    return {
        "phase": span.phase,
        "fault": "",
        **where._asdict(),
        "metric": metric,
        "from_ns": int(edges[longest]),
        "value_ms": int(gaps[longest]) / 1e6,
        "censored": longest == gaps.size - 1,
        "source": source,
        "samples": int(inside.size),
        "note": None,
    }
