"""Which records a change of a partition's leader may have taken, as the controller's history tells.

A new leader's log is the partition's: what others have above its end, or where it has something else, is cut (KIP-101,
KIP-279).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evidence.columns import NULL, Bools, Ints, places
from evidence.facts import FOREVER_NS, SLACK_NS, UNFENCED_NS
from evidence.gather import NEW_LEADER
from evidence.partition import PartitionEvidence
from history.tables import CONTROLLER
from judge.checks.findings import Cases
from kafka_files.states import State

# Anomalies of a record that is gone, and of one that stands in the place of such a record.
GONE = frozenset({"lost_write", "truncated_ack", "unknown_offset_ack", "inconsistent_offset"})
REPLACED = frozenset({"realtime_order_violation", "nonmonotonic_send"})


class Takeover(NamedTuple):
    """A broker began to lead in the place of another one: from which offset on records may be gone with that, and when
    those were sent (``until_ns``) and acknowledged (``since_ns``).
    """

    from_offset: int
    since_ns: int
    until_ns: int
    unclean: bool


def is_whole(states: Sequence[State], epochs: Collection[int]) -> bool:
    """Whether a history tells every state of a partition from its creation on, and no later leader epoch was seen."""
    in_order = [state.partition_epoch for state in states] == list(range(len(states)))
    return bool(states) and in_order and max(epochs, default=0) <= states[-1].leader_epoch


def is_unclean(before: State, after: State) -> bool:
    """Whether a replica began to lead that need not have what was committed: from outside ISR and ELR, or as KRaft
    marks it (KIP-704, KIP-966).
    """
    began = after.leader >= 0 and after.leader != before.leader
    outside = after.leader not in {*before.isr, *before.elr}
    return began and (outside or (after.recovering and not before.recovering))


def takeovers(of: PartitionEvidence) -> list[Takeover] | None:
    """Every takeover of a partition; None where the history does not tell of all of them, and when they were.

    A former leader may take records with acks=1 until it knows of the next one: for two seconds after its own metadata
    shows that. A takeover's offset is the least at which its epoch, or a later one, begins. A leader that could be
    elected before it had cut its own log to that of the one before may have other records below that: then no epoch
    of the one before is left in the final log, and all of its records may be gone.
    """
    states = of.facts.states
    if not is_whole(states, of.leader_epochs) or not of.changes or of.changes[0].observer != CONTROLLER:
        return None
    return list(_takeovers(of, states))


def _takeovers(of: PartitionEvidence, states: Sequence[State]) -> Iterator[Takeover]:
    left = {epoch for broker, epoch, _ in of.epochs if broker == states[-1].leader}
    former, begun = set[int](), states[0]
    for before, after in pairwise(states):
        unclean = is_unclean(before, after)
        if after.leader < 0 or (after.leader == begun.leader and not unclean):
            continue
        if begun.leader >= 0:
            former.add(begun.leader)
            until_ns = _known_ns(of, former - {after.leader}, after)
            starts = [start for epoch, start in of.epoch_starts.items() if epoch >= after.leader_epoch]
            yield Takeover(min(starts, default=0), NULL, until_ns, unclean)
            if left.isdisjoint(range(begun.leader_epoch, after.leader_epoch)):
                yield Takeover(0, (begun.t_ns or 0) - SLACK_NS, until_ns, unclean)
        begun = after


def _known_ns(of: PartitionEvidence, former: Collection[int], state: State) -> int:
    """When the last of some former leaders certainly knew that it led no more."""
    known = (state.t_ns or 0) + SLACK_NS
    for broker in former:
        own = np.array([name == str(broker) for name in of.names.listed], dtype=np.bool_)[of.views.observer]
        told_ns = of.views.received_ns[own & (of.views.epoch >= state.leader_epoch)]
        known = max(known, int(told_ns.min()) + UNFENCED_NS if told_ns.size else FOREVER_NS)
    return known


def brought_about(of: PartitionEvidence, found: Sequence[Takeover] | None, cases: Cases, cause: str | None) -> Bools:
    """Which cases a cause may have brought about: all where there need be none, or nobody knows of every takeover.

    A record that is gone was sent before its leader knew of the takeover, and stood where that takes records, or nobody
    knows where; one in its place stands there whenever it was sent. What consumers saw has no such limits.
    """
    if cause is None or found is None:
        return np.ones(cases.values.size, dtype=np.bool_)
    sends = of.sends
    values, first = np.unique(sends.value, return_index=True)
    at = places(values, cases.values)

    def told(column: Ints, otherwise: int) -> Ints:
        """What the ledger has of each case's record, ``otherwise`` where that is nothing."""
        there = np.where(column < 0, otherwise, column)[first]
        return np.where(at >= 0, there[at], otherwise) if there.size else np.full(at.size, otherwise)

    offset, sent_ns, done_ns = told(sends.offset, FOREVER_NS), told(sends.sent_ns, 0), told(sends.done_ns, FOREVER_NS)
    brought = np.zeros(at.size, dtype=np.bool_)
    for each in found:
        fits = np.full(at.size, each.unclean or cause == NEW_LEADER)
        if cases.anomaly in GONE | REPLACED:
            fits &= (offset >= each.from_offset) & (done_ns >= each.since_ns)
        if cases.anomaly in GONE:
            fits &= sent_ns <= each.until_ns
        brought |= fits
    return brought
