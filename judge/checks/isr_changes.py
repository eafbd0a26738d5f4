"""ISR changes that leaders proposed, by their log lines, and how each ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from evidence.facts import FOREVER_NS, SLACK_NS, UNFENCED_NS, Row, longest_outside
from evidence.partition import PartitionEvidence
from judge.checks.findings import Check, gathered

# Each ends a leader's proposal.
_ENDS = frozenset({"isr_updated", "isr_reset", "leader_started", "follower_started", "isr_shrinking", "log_loaded"})
_ZOOKEEPER = "znode"


class Proposal(NamedTuple):
    """A smaller ISR that a leader requested.

    Until an answer (``until_ns``) its maximal ISR includes ``leaving`` (KIP-497).
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leaving: tuple[int, ...]
    from_ns: int
    until_ns: int


def proposals(of: PartitionEvidence) -> dict[int, list[Proposal]]:
    """Return each leader's proposals by time; a broker has one in flight."""
    dated = sorted((line for line in of.lines if line["t_ns"] is not None), key=_in_order)
    return {broker: _of_broker(of, broker, list(own)) for broker, own in groupby(dated, key=_broker)}


def _in_order(line: Row) -> tuple[int, int]:
    return line["broker_id"], line["line"]


def _broker(line: Row) -> int:
    broker: int = line["broker_id"]
    return broker


def _of_broker(of: PartitionEvidence, broker: int, lines: Sequence[Row]) -> list[Proposal]:
    states = of.dated
    begun = [state.t_ns or 0 for state in states]
    elected = [after.t_ns or 0 for before, after in pairwise(states) if before.leader_epoch != after.leader_epoch]
    next_ns, found = FOREVER_NS, []
    for line in reversed(lines):
        asked_ns, place = line["t_ns"], bisect_right(begun, line["t_ns"]) - 1
        if line["kind"] == "isr_shrinking" and place >= 0 and states[place].leader == broker:
            election = bisect_right(elected, asked_ns)
            until_ns = min([next_ns, *elected[election : election + 1]])
            leaving = tuple(sorted(member for member, _ in line.get("out_of_sync") or ()))
            if states[place].source != _ZOOKEEPER:
                until_ns = _shown_another(of, broker, {*line["isr"], *leaving}, asked_ns, until_ns)
            epoch = states[place].leader_epoch
            found.append(Proposal(broker, epoch, tuple(line["isr"]), leaving, asked_ns, until_ns))
        if line["kind"] in _ENDS:
            next_ns = asked_ns
    return found[::-1]


def _shown_another(of: PartitionEvidence, leader: int, isr: Set[int], from_ns: int, until_ns: int) -> int:
    """Return when a leader's metadata first showed another ISR, at most ``until_ns``."""
    views, name = of.views, str(leader)
    for row in range(int(np.searchsorted(views.received_ns, from_ns)), len(views)):
        if views.received_ns[row] >= until_ns:
            break
        asked = views.sent_ns[row] > from_ns and of.names.listed[views.observer[row]] == name
        members = views.members(row) if asked else None
        if members is not None and set(members) != isr:
            return int(views.received_ns[row])
    return until_ns


@gathered
def i38_isr_changes_end(of: PartitionEvidence) -> Iterator[Check]:
    """I38 (C16, C18, C38), timed. Committed, rejected or abandoned (KIP-497). Until then the leader waits for the
    leaving replicas, so that acks=all hangs once one stops (KAFKA-1382). From the leader's log line "Shrinking ISR" to
    "ISR updated", "Failed to alter partition", a new leader epoch, the next proposal or a restart; with KRaft also to
    another ISR in the leader's metadata. Violated after controller.socket.timeout.ms and 10 s without a fault on broker
    or controller, in which a lost request is sent again. An expansion has no log line.
    """
    seen_ns = int(of.views.received_ns.max(initial=0))
    for each in (each for own in proposals(of).values() for each in own):
        over = each.until_ns < FOREVER_NS
        until_ns = each.until_ns if over else seen_ns
        limit_ns = of.isr_change_limit_ns
        stuck = until_ns - each.from_ns >= limit_ns <= _longest_calm(of, each.from_ns, until_ns)
        if over or stuck:
            shown = {
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "isr": list(each.isr),
                "leaving": list(each.leaving),
                "pending_ns": until_ns - each.from_ns,
                "ended": over,
                "t_ns": each.from_ns,
            }
            yield Check(each.from_ns, stuck, shown)


def _longest_calm(of: PartitionEvidence, from_ns: int, until_ns: int) -> int:
    """Return the longest time without a fault on a broker or controller."""
    spans = [(o.from_ns, o.until_ns) for o in of.outages] + [(stop.ordered_ns, stop.until_ns) for stop in of.stops]
    return longest_outside(spans, from_ns, until_ns)


def waiting(of: PartitionEvidence) -> dict[int, list[tuple[int, int]]]:
    """Return when a leader may use an earlier ISR: until two seconds after the answer."""
    found = {
        leader: [(p.from_ns - SLACK_NS, min(p.until_ns, FOREVER_NS - UNFENCED_NS) + UNFENCED_NS) for p in own]
        for leader, own in proposals(of).items()
    }
    undated = {line["broker_id"] for line in of.lines if line["kind"] == "isr_shrinking" and line["t_ns"] is None}
    return found | {leader: [(0, FOREVER_NS)] for leader in undated}
