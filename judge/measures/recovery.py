"""Measure each fault's impact.

Times count from the order to inject (``catch_up`` and ``rebalanced``: to heal) until the controller's decision.
``rebalanced`` is a full ISR with the preferred leader back. A time that outlasts fault or phase is censored. Without
good times, leaders' metadata gives upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evidence.columns import NULL, Ints
from evidence.facts import FOREVER_NS, Span
from evidence.faults import FaultSpan, fault_spans, phases
from evidence.run import Run
from evidence.samples import Samples
from history.events import Event
from history.manifest import Manifest
from history.partition import TopicPartition
from history.tables import CONTROLLER
from history.traits import Trait

AT_MOST, NOT_SEEN = "at most", "not seen"
_NO_HISTORY = "the controller's history is missing, late or without good times, and leaders' metadata is all there is"


Change = Mapping[str, Any]  # a row of ``evidence.views.Change``, with topic and partition


def load_spans(events: Sequence[Event]) -> list[Span]:
    """Return the phases from their last load on.

    A load offered during a fault ends at the order to heal.
    """
    return [_load_span(span, [event for event in events if event.phase == span.phase]) for span in phases(events)]


def _load_span(span: Span, events: list[Event]) -> Span:
    offered = next((event for event in reversed(events) if event.kind == "rate_set"), None)
    if offered is None:
        return span
    from_ns = int(offered.detail.get("from_ns", offered.t_ns))
    faults = [fault for fault in fault_spans(events) if fault.at_ns("injected") < from_ns]
    ends = [heal_ns for fault in faults if (heal_ns := fault.at_ns("heal")) > from_ns]
    return Span(span.phase, from_ns, min([span.to_ns, *ends]))


def fault_times(run: Run, states: Iterable[Change]) -> Iterator[dict[str, Any]]:
    """Yield rows of the recovery table by fault and partition."""
    seen: dict[TopicPartition, list[Change]] = {}
    for row in states:
        seen.setdefault(TopicPartition.of(row), []).append(row)
    ends = {span.phase: span.to_ns for span in reversed(run.phases)}
    for fault in run.faults:
        if "injected" in fault.events and run.manifest.has(fault.step, Trait.RECOVERY_EXPECTED):
            phase_ends = ends.get(fault.phase, run.events[-1].t_ns)
            for where, changes in seen.items():
                decided = all(row["observer"] == CONTROLLER for row in changes)
                yield from _of_partition(_Impact(fault, where, decided, phase_ends), run.manifest, changes)


@dataclass(frozen=True)
class _Impact:
    """A fault's impact on a partition; ``decided``: all changes are the controller's own."""

    fault: FaultSpan
    where: TopicPartition
    decided: bool
    phase_ends: int

    @property
    def over_ns(self) -> int:
        return self.fault.at_ns("healed", self.phase_ends)

    def row(self, metric: str, from_ns: int, found: Iterable[Change], limit_ns: int) -> dict[str, Any]:
        """Return a time up to the first change that was found, censored at the limit."""
        first_ns = next((row["received_ns"] for row in found), None)
        what = "the fault" if limit_ns == self.over_ns != self.phase_ends else "the phase"
        unseen = f"{NOT_SEEN} before {what} ended"
        if self.decided:
            note = None if first_ns is not None else unseen
        else:
            note = f"{unseen}: {_NO_HISTORY}" if first_ns is None else f"{AT_MOST}: {_NO_HISTORY}"
        ended_ns = max(limit_ns, from_ns) if first_ns is None else first_ns
        return {
            "phase": self.fault.phase,
            "fault": f"{self.fault.step} {self.fault.target}",
            **self.where._asdict(),
            "metric": metric,
            "from_ns": from_ns,
            "value_ms": (ended_ns - from_ns) / 1e6 if self.decided or first_ns is not None else None,
            "censored": self.decided and first_ns is None,
            "source": "controller" if self.decided else "metadata",
            "note": note,
        }


def _of_partition(impact: _Impact, manifest: Manifest, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    fault, over_ns = impact.fault, impact.over_ns
    topic, partition = impact.where
    targets = {node.node_id for node in manifest.brokers if node.name in fault.nodes}
    before = [row for row in changes if row["received_ns"] <= fault.from_ns]
    assigned = set(manifest.topics[topic].assignment[partition]) if topic in manifest.topics else set()
    if not before or not targets & assigned:
        return
    last, after = before[-1], [row for row in changes if row["received_ns"] > fault.from_ns]
    during = [row for row in after if row["received_ns"] <= over_ns]
    if last["leader"] in targets and manifest.has(fault.step, Trait.UNREACHABLE):
        yield impact.row("detect", fault.from_ns, (r for r in during if r["leader"] != last["leader"]), over_ns)
        elected = (r for r in during if r["leader"] >= 0 and r["leader_epoch"] > last["leader_epoch"])
        yield impact.row("elect", fault.from_ns, elected, over_ns)
    shrunk = [row for row in [last, *during] if not targets <= set(row["isr"])]
    if targets & set(last["isr"]):
        yield impact.row("isr_shrink", fault.from_ns, (row for row in shrunk if row is not last), over_ns)
    if shrunk:
        full = [row for row in after if row["received_ns"] > shrunk[0]["received_ns"] and set(row["isr"]) >= assigned]
        yield impact.row("isr_full", fault.from_ns, full, impact.phase_ends)
        ordered_ns = fault.at_ns("heal", 0)
        if ordered_ns and not any(row["received_ns"] <= ordered_ns for row in full):
            yield impact.row("catch_up", ordered_ns, full, impact.phase_ends)
            preferred = manifest.topics[topic].assignment[partition][0]
            if last["leader"] == preferred and any(row["leader"] != preferred for row in during):
                again = (row for row in full if row["leader"] == preferred)
                yield impact.row("rebalanced", ordered_ns, again, impact.phase_ends)


class Longest:
    """A span's longest time between moments, which are added in order."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._last_ns = self._from_ns = span.from_ns
        self._longest_ns, self._inside = NULL, 0

    def add(self, moments: Ints) -> None:
        begin, end = np.searchsorted(moments, self._span.from_ns), np.searchsorted(moments, self._span.to_ns, "right")
        inside = moments[begin : max(begin, end)]
        if not inside.size:
            return
        edges = np.append(self._last_ns, inside)
        gaps = np.diff(edges)
        longest = gaps.size - 1 - int(np.argmax(gaps[::-1]))
        if gaps[longest] >= self._longest_ns:
            self._longest_ns, self._from_ns = int(gaps[longest]), int(edges[longest])
        self._inside, self._last_ns = self._inside + inside.size, int(edges[-1])

    def row(self, where: TopicPartition, metric: str, source: str) -> dict[str, Any]:
        rest_ns = self._span.to_ns - self._last_ns
        lasts = rest_ns >= self._longest_ns
        return {
            "phase": self._span.phase,
            "fault": "",
            **where._asdict(),
            "metric": metric,
            "from_ns": self._last_ns if lasts else self._from_ns,
            "value_ms": max(rest_ns, self._longest_ns) / 1e6,
            "censored": lasts,
            "source": source,
            "samples": self._inside,
            "note": None,
        }


class Stalls:
    """Each phase's longest time without growth of the high watermark, from samples window by window."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._longest = [Longest(span) for span in spans]
        self._waiting = np.empty((2, 0), dtype=np.int64)  # answers, and their high watermarks
        self._highest = NULL
        self._seen = False

    def add(self, samples: Samples, ends_ns: int = FOREVER_NS) -> None:
        """Add the samples of a window; every later one is sent after ``ends_ns``."""
        own = samples.take(~samples.carried)
        self._seen |= bool(len(own))
        both = np.concatenate([self._waiting, np.stack([own.received_ns, own.hw])], axis=1)
        received_ns, hw = both[:, np.argsort(both[0], kind="stable")]
        settled = int(np.searchsorted(received_ns, ends_ns, side="right"))
        self._waiting = np.stack([received_ns[settled:], hw[settled:]])
        so_far = np.maximum.accumulate(np.append(self._highest, hw[:settled]))
        grown = hw[:settled] > so_far[:-1]
        self._highest = int(so_far[-1])
        for each in self._longest:
            each.add(received_ns[:settled][grown])

    def rows(self, where: TopicPartition) -> list[dict[str, Any]]:
        return [each.row(where, "hw_stall", "replicas") for each in self._longest] if self._seen else []


def longest_stalls(
    where: TopicPartition, acked_ns: Iterable[Ints] | None, stalls: Stalls, spans: Iterable[Span]
) -> list[dict[str, Any]]:
    """Return each phase's longest time without an acknowledgement, and without HW growth.

    ``acked_ns``: the times of acknowledgements in order, of open loops, which never pause by themselves; None if none
    wrote here.
    """
    if acked_ns is None or where.partition < 0:
        return []
    longest = [Longest(span) for span in spans]
    for moments in acked_ns:
        for each in longest:
            each.add(moments)
    return [each.row(where, "write_unavailable", "sends") for each in longest] + stalls.rows(where)
