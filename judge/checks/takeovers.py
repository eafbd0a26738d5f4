"""The records that a leader change, or a lost disk, may have taken.

Other replicas truncate what is above a new leader's log or differs (KIP-101, KIP-279).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evidence.columns import NULL, Bools, Ints, places
from evidence.facts import FOREVER_NS, SLACK_NS, UNFENCED_NS
from evidence.gather import LOST_COPY, NEW_LEADER, UNCLEAN_LEADER
from evidence.partition import PartitionEvidence
from evidence.views import CLOCK_NS, first_shown, observing
from history.anomalies import ANOMALIES, Truncation
from judge.checks.findings import Cases, Ruling
from kafka_files.states import State


class Loss(NamedTuple):
    """Something that may have taken records.

    It took those from ``from_offset`` on, acknowledged since ``since_ns``; its effects show from ``begun_ns`` on.
    ``takers``: brokers that may have accepted them, and until when. ``missing``: the evidence that would prove the
    loss.
    """

    causes: frozenset[str]
    from_offset: int
    since_ns: int
    begun_ns: int
    takers: tuple[tuple[int, int], ...]
    missing: str | None = None


class Hole(NamedTuple):
    """A missing part of a history, between two dated states.

    -1 is the creation, the number of states the end.
    """

    first: int
    last: int
    why: str
    undated: bool = False


Known = Callable[[int], tuple[Ints, Ints]]  # any broker; faults have other numbers
_ANYBODY = -1  # a broker without a known fault
_CLEAN, _UNCLEAN = frozenset({NEW_LEADER}), frozenset({NEW_LEADER, UNCLEAN_LEADER})


def is_whole(states: Sequence[State], epochs: Collection[int]) -> bool:
    """Return whether a history has every state."""
    in_order = [state.partition_epoch for state in states] == list(range(len(states)))
    return bool(states) and in_order and max(epochs, default=0) <= states[-1].leader_epoch


def is_unclean(before: State, after: State) -> bool:
    """Return whether a new leader may lack committed records.

    It comes from outside ISR and ELR, or KRaft marks it (KIP-704, KIP-966).
    """
    began = after.leader >= 0 and after.leader != before.leader
    outside = after.leader not in {*before.isr, *before.elr}
    return began and (outside or (after.recovering and not before.recovering))


def holes(of: PartitionEvidence) -> list[Hole]:
    """Return a history's missing parts.

    A whole one begins with partition epoch 0, has all later states with times, and dates no epoch after a broker showed
    it.
    """
    states, told = of.facts.states, f"the controller's history of {of.where}"
    if not states:
        imported = of.told_names is not None
        return [Hole(-1, 0, f"an import shows no leader changes of {of.where}" if imported else f"{told} is missing")]
    late = _contradicted(states, first_shown(of.views))
    if late is not None:
        return [Hole(-1, len(states), f"{told} dates leader epoch {late} after a broker showed it", undated=True)]
    dated = [place for place, state in enumerate(states) if state.t_ns is not None]
    newest = max(of.leader_epochs, default=0)
    found = []
    for first, last in pairwise([-1, *dated, len(states)]):
        part = states[max(first, 0) : last + 1]
        if why := _lacks(part, newest if last == len(states) else None, begins=first < 0):
            found.append(Hole(first, last, f"{told} {why}"))
        elif any(state.t_ns is None for state in part):
            found.append(Hole(first, last, f"{told} has a state without a time", undated=True))
    return found


def _contradicted(states: Sequence[State], shown_ns: dict[int, int]) -> int | None:
    """Return the first leader epoch with a wrong date."""
    dated = [states[0]] if states[0].partition_epoch == 0 else []
    for before, state in pairwise(states):
        if state.partition_epoch == before.partition_epoch + 1 and state.leader_epoch > before.leader_epoch:
            dated.append(state)
    wrong = (s for s in dated if s.t_ns is not None and shown_ns.get(s.leader_epoch, s.t_ns) + CLOCK_NS < s.t_ns)
    return next((state.leader_epoch for state in wrong), None)


def _lacks(part: Sequence[State], newest_epoch: int | None, *, begins: bool) -> str | None:
    if begins and part[0].partition_epoch > 0:
        return f"begins at partition epoch {part[0].partition_epoch}"
    for before, after in pairwise(part):
        if after.partition_epoch != before.partition_epoch + 1:
            return f"has nothing between partition epochs {before.partition_epoch} and {after.partition_epoch}"
    if newest_epoch is not None and newest_epoch > part[-1].leader_epoch:
        return f"ends at leader epoch {part[-1].leader_epoch}, and epoch {newest_epoch} was seen"
    return None


def takeovers(of: PartitionEvidence) -> list[Loss]:
    """Return what may have taken records of a partition.

    A former leader may accept acks=1 records until its process ends, its replica answers in the next epoch, or two
    seconds after its metadata shows that. A change takes records from the smallest start of the new or a later epoch.
    If the final log has no epoch of the predecessor, all its records may be lost.
    """
    missing, known = holes(of), cache(partial(_known, of))
    return [*_leader_changes(of, missing, known), *_in_holes(of, missing, known), *_lost_copies(of)]


def _leader_changes(of: PartitionEvidence, missing: Sequence[Hole], known: Known) -> Iterator[Loss]:
    states = of.facts.states
    if not states:
        return
    unknown = {place for hole in missing for place in range(hole.first + 1, hole.last + 1)}
    left = {epoch for broker, epoch, _ in of.epochs if broker == states[-1].leader}
    until_ns: dict[int, int] = {}  # former leader → when it last accepted records
    begun = led = states[0]
    for place, (before, after) in enumerate(pairwise(states), 1):
        unclean = is_unclean(before, after)
        if before.leader_epoch > led.leader_epoch:
            led = before
        if before.leader >= 0 and after.leader_epoch > before.leader_epoch:
            until_ns[before.leader] = min(_ended_ns(of, led), _known_ns(known, before.leader, after))
        if place in unknown:
            begun = after
            continue
        if after.leader < 0 or (after.leader == begun.leader and not unclean):
            continue
        if begun.leader >= 0:
            causes, begun_ns = _UNCLEAN if unclean else _CLEAN, after.t_ns or 0
            taker = ((begun.leader, until_ns[begun.leader]),) if begun.leader in until_ns else ()
            starts = [start for epoch, start in of.epoch_starts.items() if epoch >= after.leader_epoch]
            yield Loss(causes, min(starts, default=0), NULL, begun_ns, taker)
            if left.isdisjoint(range(begun.leader_epoch, after.leader_epoch)):
                yield Loss(causes, 0, (begun.t_ns or 0) - SLACK_NS, begun_ns, taker)
        begun = after


def _in_holes(of: PartitionEvidence, missing: Sequence[Hole], known: Known) -> Iterator[Loss]:
    states = of.facts.states
    brokers = {broker for state in states for broker in state.replicas}
    for hole in missing:
        begun_ns = states[hole.first].t_ns or 0 if hole.first >= 0 else 0
        takers: tuple[tuple[int, int], ...] = ((_ANYBODY, FOREVER_NS),)
        if hole.last < len(states):
            last = states[hole.last]
            takers = tuple((broker, _known_ns(known, broker, last)) for broker in sorted(brokers - {last.leader}))
        yield Loss(_UNCLEAN, 0, NULL, begun_ns, takers, hole.why)


def _lost_copies(of: PartitionEvidence) -> Iterator[Loss]:
    """Yield the losses of disks, whose brokers are down."""
    for lost in of.facts.lost_copies:
        takers = ((_ANYBODY, lost.t_ns),)
        yield Loss(frozenset({LOST_COPY}), lost.from_offset, NULL, lost.t_ns, takers, lost.unknown)


def _ended_ns(of: PartitionEvidence, led: State) -> int:
    """Return when the process of this state's leader ended."""
    ended = (fault.from_ns for fault in of.facts.faults if fault.ended and fault.broker_id == led.leader)
    return min((t_ns for t_ns in ended if t_ns > (led.t_ns or 0)), default=FOREVER_NS)


def _known_ns(known: Known, broker: int, state: State) -> int:
    epochs, known_ns = known(broker)
    first = int(np.searchsorted(epochs, state.leader_epoch))
    until_ns = FOREVER_NS if first == epochs.size else int(known_ns[first])
    return max(until_ns, (state.t_ns or 0) + SLACK_NS)


def _known(of: PartitionEvidence, broker: int) -> tuple[Ints, Ints]:
    """Return the epochs that a broker is known to have accepted, and by when."""
    views = of.views.take(observing(of.views, of.names) == broker)
    samples = of.samples.take(of.samples.broker == broker)
    epochs = np.concatenate([views.epoch, samples.epoch])
    known_ns = np.concatenate([views.received_ns + UNFENCED_NS, samples.received_ns])
    order = np.argsort(known_ns, kind="stable")
    return np.maximum.accumulate(epochs[order]), known_ns[order]


class Sent(NamedTuple):
    """The sends of some cases' records; ``FOREVER_NS``: unknown or never, 0: unknown."""

    offset: Ints
    sent_ns: Ints
    done_ns: Ints

    @classmethod
    def of(cls, of: PartitionEvidence, values: Ints) -> Sent:
        sends = of.sends
        wanted, place = np.unique(values, return_inverse=True)
        rows = np.flatnonzero(places(wanted, sends.value) >= 0)[::-1]  # of several sends the first
        row = np.full(wanted.size, -1)
        row[places(wanted, sends.value[rows])] = rows
        row = row[place]

        def told(column: Ints, otherwise: int) -> Ints:
            found = column[row] if column.size else np.full(row.size, NULL)
            return np.where((row < 0) | (found < 0), otherwise, found)

        return cls(told(sends.offset, FOREVER_NS), told(sends.sent_ns, 0), told(sends.done_ns, FOREVER_NS))


def taken(of: PartitionEvidence, found: Sequence[Loss], cases: Cases, cause: str) -> Ruling:
    """Return which cases a loss of this cause may have brought about.

    A lost record was at or above the loss's offset (or its offset is unknown), and a taker may have accepted it: it was
    sent before that broker knew of its successor, and not both sent and answered while that broker was down. A record
    at a lost record's offset was answered after the loss began; a consumer received what replaced a lost record after
    that, too.
    """
    sent = Sent.of(of, cases.values)
    down = cache(partial(_while_down, of, sent))
    brought, undecided = (np.zeros(cases.values.size, dtype=np.bool_) for _ in range(2))
    missing: dict[str, None] = {}
    for loss in (each for each in found if cause in each.causes):
        fits = _fits(loss, cases, sent, down)
        if loss.missing is None:
            brought |= fits
        elif fits.any():
            undecided |= fits
            missing[loss.missing] = None
    return Ruling(brought, undecided & ~brought, "; ".join(missing))


def _while_down(of: PartitionEvidence, sent: Sent, broker: int) -> Bools:
    within = np.zeros(sent.offset.size, dtype=np.bool_)
    for fault in of.facts.faults:
        if fault.broker_id == broker:
            within |= (sent.sent_ns >= fault.from_ns) & (sent.done_ns <= fault.until_ns)
    return within


def _fits(loss: Loss, cases: Cases, sent: Sent, down: Callable[[int], Bools]) -> Bools:
    truncation = ANOMALIES[cases.anomaly].truncation
    shown_ns = sent.done_ns if truncation is Truncation.OFFSET_REUSED else cases.shown_ns
    fits = np.ones(cases.values.size, dtype=np.bool_)
    if truncation in {Truncation.RECORD_GONE, Truncation.OFFSET_REUSED, Truncation.READ_AGAIN}:
        fits &= (sent.offset >= loss.from_offset) & (sent.done_ns >= loss.since_ns)
    if truncation in {Truncation.RECORD_GONE, Truncation.MARKER_GONE}:
        fits &= np.any([(sent.sent_ns <= until_ns) & ~down(broker) for broker, until_ns in loss.takers], axis=0)
    if shown_ns is not None:
        fits &= shown_ns >= loss.begun_ns - CLOCK_NS
    return fits
