"""Explain what happened to each lost acknowledged record."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from evidence.samples import Samples

OLD_NS = 500_000_000  # an older sample is shown with its age
_UNEXPLAINED = "; no election or truncation that removed it was seen"
_FATES = {
    "invisible_ack": "; it is in a log, above where readers stop",
    "undrained": "; it is below the high watermark; the final drain stopped early",
    "unseen": "; it was not read, and a log that may have it is incomplete",
}


class Case(NamedTuple):
    """A lost acknowledged record; unknown values are None."""

    anomaly: str
    producer_id: str
    seq: int
    acks: str
    offset: int | None
    at_ns: int | None  # acknowledged


class _Election(NamedTuple):
    leader_epoch: int
    start_offset: int
    first: tuple[int, int] | None  # (seen_ns, leader)
    line: int | None  # in server.log


class _Truncation(NamedTuple):
    t_ns: int
    broker_id: int
    from_offset: int
    to_offset: int


class _Cut(NamedTuple):
    t_ns: int
    line: int
    to_offset: int


class Witnesses:
    """Evidence about lost records of one partition.

    ``leaders``: epoch → (leader, seen_ns). ``epochs``: (broker_id, leader_epoch, start_offset).
    """

    def __init__(
        self,
        samples: Samples,
        leaders: Mapping[int, Sequence[tuple[int, int]]],
        epochs: Iterable[tuple[int, int, int]],
        lines: Iterable[Mapping[str, Any]],
        origin_ns: int,
    ) -> None:
        epochs, lines = sorted(epochs), list(lines)
        self._origin_ns = origin_ns
        seen = sorted((seen_ns, epoch, leader) for epoch, led in leaders.items() for leader, seen_ns in led)
        self._seen_ns = [seen_ns for seen_ns, _, _ in seen]
        self._newest = list(accumulate(((epoch, leader) for _, epoch, leader in seen), max))
        self._replicas = {broker: samples.of_broker(broker).answered for broker in sorted(samples.rows_of_broker)}
        self._truncations = sorted(truncations(samples))
        self._elections = _elections(epochs, leaders, lines)
        self._epochs = [(epoch, start, broker_id) for broker_id, epoch, start in epochs]
        self._cuts: dict[int, list[_Cut]] = {}
        for line in lines:
            if line["kind"] == "truncating" and line["t_ns"] is not None:
                cut = _Cut(line["t_ns"], line["line"], line["log_end_offset"])
                self._cuts.setdefault(line["broker_id"], []).append(cut)
        for cuts in self._cuts.values():
            cuts.sort()

    def explain(self, case: Case) -> str:
        led = self._led(case.at_ns)
        at = "" if case.at_ns is None else f" at {self._seconds(case.at_ns)}"
        by = "" if led is None else f" while broker {led[1]} led epoch {led[0]}"
        place = "" if case.offset is None else f" at offset {case.offset}"
        stood = "" if case.at_ns is None else self._stood(case.at_ns)
        ending = _FATES.get(case.anomaly) or self._removal(case, led)
        name = f"Record {case.producer_id}/{case.seq} (acks={case.acks})"
        return f"{name} was acknowledged{at}{by}{place}{stood}{ending}."

    def _seconds(self, t_ns: int) -> str:
        return f"+{(t_ns - self._origin_ns) / 1e9:,.3f} s"

    def _led(self, at_ns: int | None) -> tuple[int, int] | None:
        known = 0 if at_ns is None else bisect_right(self._seen_ns, at_ns)
        return self._newest[known - 1] if known else None

    def _stood(self, at_ns: int) -> str:
        texts = []
        for broker_id, replica in self._replicas.items():
            last = int(np.searchsorted(replica.received_ns, at_ns, side="right")) - 1
            if last >= 0:
                age_ns = at_ns - int(replica.received_ns[last])
                age = f" ({age_ns / 1e9:,.1f} s before)" if age_ns >= OLD_NS else ""
                texts.append(f"broker {broker_id} at HW {replica.hw[last]} and LEO {replica.leo[last]}{age}")
        return f"; last seen before that: {', '.join(sorted(texts))}" if texts else ""

    def _removal(self, case: Case, led: tuple[int, int] | None) -> str:
        """Describe what removed a record: later epoch, fallen log end offset, log line."""
        if case.offset is None:
            return _UNEXPLAINED
        leader = led[1] if led else None
        truncation = self._truncation(case.offset, case.at_ns, leader)
        parts = [self._fell(truncation)]
        if led is not None:
            epoch, leader = led
            parts.insert(0, self._elected(case.offset, epoch))
            parts.append(self._said(case.offset, case.at_ns, leader))
            if truncation is None or truncation.broker_id != leader:
                parts.append(self._own(case.offset, epoch, leader))
        return "".join(parts) or _UNEXPLAINED

    def _elected(self, offset: int, epoch: int) -> str:
        found = next((e for e in self._elections if e.leader_epoch > epoch and e.start_offset <= offset), None)
        if found is None:
            return ""
        who = f"broker {found.first[1]}" if found.first else "a leader"
        seen = f", seen at {self._seconds(found.first[0])}" if found.first else ""
        line = "" if found.line is None else f" (its server.log, line {found.line})"
        return f"; {who} began epoch {found.leader_epoch} at offset {found.start_offset} without it{seen}{line}"

    def _truncation(self, offset: int, at_ns: int | None, leader: int | None) -> _Truncation | None:
        if at_ns is None:
            return None
        after = self._truncations[bisect_left(self._truncations, (at_ns,)) :]
        took_it = [each for each in after if each.to_offset <= offset < each.from_offset]
        return min(took_it, key=lambda each: (each.broker_id != leader, each), default=None)

    def _fell(self, truncation: _Truncation | None) -> str:
        if truncation is None:
            return ""
        t_ns, broker_id, from_offset, to_offset = truncation
        return f"; broker {broker_id}'s log end fell from {from_offset} to {to_offset} at {self._seconds(t_ns)}"

    def _said(self, offset: int, at_ns: int | None, leader: int) -> str:
        cuts = self._cuts.get(leader, [])
        after = [] if at_ns is None else cuts[bisect_left(cuts, (at_ns,)) :]
        cut = next((each for each in after if each.to_offset <= offset), None)
        if cut is None:
            return ""
        words = f'"Truncating to offset {cut.to_offset}" (server.log, line {cut.line})'
        return f"; broker {leader} logged at {self._seconds(cut.t_ns)} {words}"

    def _own(self, offset: int, epoch: int, leader: int) -> str:
        own = ((later, start) for later, start, broker_id in self._epochs if broker_id == leader and later > epoch)
        later, start = next(((later, start) for later, start in own if start <= offset), (None, None))
        return "" if later is None else f"; broker {leader}'s own log now has epoch {later} from offset {start}"


def truncations(samples: Samples) -> list[_Truncation]:
    """Return where log end offsets fell."""
    found: list[_Truncation] = []
    for broker_id in sorted(samples.rows_of_broker):
        own = samples.of_broker(broker_id)
        fell = np.flatnonzero(np.diff(own.leo) < 0)
        rows = zip(own.received_ns[fell + 1].tolist(), own.leo[fell].tolist(), own.leo[fell + 1].tolist(), strict=True)
        found += [_Truncation(t_ns, broker_id, from_offset, to_offset) for t_ns, from_offset, to_offset in rows]
    return found


def _elections(
    epochs: Iterable[tuple[int, int, int]],
    leaders: Mapping[int, Sequence[tuple[int, int]]],
    lines: Iterable[Mapping[str, Any]],
) -> list[_Election]:
    """Return epochs with their start; a replica's file may have a later one, never an earlier one."""
    starts: dict[int, int] = {}
    for _, epoch, start in epochs:
        starts[epoch] = min(start, starts.get(epoch, start))
    began: dict[int, int] = {}
    for line in lines:
        if line["kind"] == "leader_started":
            began[line["leader_epoch"]] = min(line["line"], began.get(line["leader_epoch"], line["line"]))
    first = {epoch: min((seen_ns, leader) for leader, seen_ns in led) for epoch, led in leaders.items() if led}
    return [_Election(epoch, start, first.get(epoch), began.get(epoch)) for epoch, start in sorted(starts.items())]
