"""The records that a leader change, or a lost disk, may have removed.

Followers truncate records that the new leader lacks or has differently (KIP-101, KIP-279).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evidence.columns import NULL, Bools, Ints, positions_in
from evidence.facts import FOREVER_NS, SLACK_NS, UNFENCED_NS, Cause
from evidence.partition import PartitionEvidence
from evidence.views import CLOCK_NS, first_shown, observing
from history.anomalies import ANOMALIES, Truncation
from judge.checks.findings import Cases, Ruling
from kafka_files.states import State


class Loss(NamedTuple):
    """An event that may have removed records: those from ``from_offset`` on that were acknowledged since ``since_ns``.

    No observation before ``begun_ns`` can show its effects. ``acceptors``: the brokers that may have accepted the
    records, and until when; without one the event explains no loss. ``missing``: the missing evidence that would show
    whether the event happened.
    """

    causes: frozenset[str]
    from_offset: int
    since_ns: int
    begun_ns: int
    acceptors: tuple[tuple[int, int], ...]
    missing: str | None = None


class HistoryGap(NamedTuple):
    """A missing part of the controller's history, between two dated states.

    ``first`` and ``last`` are their positions: -1 is the creation, the number of states the end. ``undated``: only
    times are missing or wrong.
    """

    first: int
    last: int
    why: str
    undated: bool = False


Known = Callable[[int], tuple[Ints, Ints]]  # broker → leader epochs that it accepted, by when
_ANY_BROKER = -1  # no fault has this broker id
_CLEAN, _UNCLEAN = frozenset({Cause.NEW_LEADER}), frozenset({Cause.NEW_LEADER, Cause.UNCLEAN_LEADER})


def is_whole(states: Sequence[State], epochs: Collection[int]) -> bool:
    """Return whether the controller's history has all states of a partition, up to the newest of ``epochs``."""
    in_order = [state.partition_epoch for state in states] == list(range(len(states)))
    return bool(states) and in_order and max(epochs, default=0) <= states[-1].leader_epoch


def is_unclean(before: State, after: State) -> bool:
    """Return whether a new leader may lack committed records (KIP-704, KIP-966).

    It was in neither ISR nor ELR, or KRaft marks it as recovering.
    """
    began = after.leader >= 0 and after.leader != before.leader
    outside = after.leader not in {*before.isr, *before.elr}
    return began and (outside or (after.recovering and not before.recovering))


def history_gaps(of: PartitionEvidence) -> list[HistoryGap]:
    """Return the missing parts of the controller's history.

    A complete history begins with partition epoch 0, has all later states with times, and dates no leader epoch later
    than a broker first showed it.
    """
    states, history = of.states, f"the controller's history of {of.where}"
    if not states:
        imported = of.imported_names is not None
        return [
            HistoryGap(
                -1, 0, f"an import shows no leader changes of {of.where}" if imported else f"{history} is missing"
            )
        ]
    late = _contradicted(states, first_shown(of.views))
    if late is not None:
        return [
            HistoryGap(-1, len(states), f"{history} dates leader epoch {late} after a broker showed it", undated=True)
        ]
    dated = [place for place, state in enumerate(states) if state.t_ns is not None]
    newest = max(of.leader_epochs, default=0)
    found = []
    for first, last in pairwise([-1, *dated, len(states)]):
        part = states[max(first, 0) : last + 1]
        if why := _lacks(part, newest if last == len(states) else None, begins=first < 0):
            found.append(HistoryGap(first, last, f"{history} {why}"))
        elif any(state.t_ns is None for state in part):
            why = f"{history} has a state without a time: the host's clock was set near it, or not recorded"
            found.append(HistoryGap(first, last, why, undated=True))
    return found


def _contradicted(states: Sequence[State], shown_ns: dict[int, int]) -> int | None:
    """Return the first leader epoch that a broker showed before its date."""
    dated = [states[0]] if states[0].partition_epoch == 0 else []
    for before, state in pairwise(states):
        if state.partition_epoch == before.partition_epoch + 1 and state.leader_epoch > before.leader_epoch:
            dated.append(state)
    wrong = (s for s in dated if s.t_ns is not None and shown_ns.get(s.leader_epoch, s.t_ns) + CLOCK_NS < s.t_ns)
    return next((state.leader_epoch for state in wrong), None)


def _lacks(part: Sequence[State], newest_epoch: int | None, *, begins: bool) -> str | None:
    if begins and part[0].partition_epoch > 0:
        snapshot = f" (a snapshot at offset {part[0].position})" if part[0].source == "metadata_log" else ""
        return f"begins at partition epoch {part[0].partition_epoch}{snapshot}"
    for before, after in pairwise(part):
        if after.partition_epoch != before.partition_epoch + 1:
            return f"has nothing between partition epochs {before.partition_epoch} and {after.partition_epoch}"
    if newest_epoch is not None and newest_epoch > part[-1].leader_epoch:
        return f"ends at leader epoch {part[-1].leader_epoch}, and epoch {newest_epoch} was seen"
    return None


def possible_losses(of: PartitionEvidence) -> list[Loss]:
    """Return the events that may have removed records of a partition.

    A former leader may accept acks=1 records until its process ends, its replica answers in the next epoch, or two
    seconds after its metadata shows that epoch. A leader change may remove the records from the smallest start offset
    of the new or a later epoch on. If the last leader's log has no epoch of the former leader, all records that the
    former leader accepted may be lost.
    """
    missing, known = history_gaps(of), cache(partial(_known, of))
    return [*_leader_changes(of, missing, known), *_in_gaps(of, missing, known), *_lost_copies(of)]


def _leader_changes(of: PartitionEvidence, missing: Sequence[HistoryGap], known: Known) -> Iterator[Loss]:
    states = of.states
    if not states:
        return
    unknown = {place for gap in missing for place in range(gap.first + 1, gap.last + 1)}
    left = {epoch for broker, epoch, _ in of.epochs if broker == states[-1].leader}  # in the last leader's log
    until_ns: dict[int, int] = {}  # former leader → when it last accepted records
    begun = led = states[0]  # the first states of the present leader, and of its epoch
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
            # none if the epoch did not rise
            acceptor = ((begun.leader, until_ns[begun.leader]),) if begun.leader in until_ns else ()
            starts = [start for epoch, start in of.epoch_starts.items() if epoch >= after.leader_epoch]
            yield Loss(causes, min(starts, default=0), NULL, begun_ns, acceptor)
            if left.isdisjoint(range(begun.leader_epoch, after.leader_epoch)):
                yield Loss(causes, 0, (begun.t_ns or 0) - SLACK_NS, begun_ns, acceptor)
        begun = after


def _in_gaps(of: PartitionEvidence, missing: Sequence[HistoryGap], known: Known) -> Iterator[Loss]:
    states = of.states
    brokers = {broker for state in states for broker in state.replicas}
    for gap in missing:
        begun_ns = states[gap.first].t_ns or 0 if gap.first >= 0 else 0
        acceptors: tuple[tuple[int, int], ...] = ((_ANY_BROKER, FOREVER_NS),)
        if gap.last < len(states):
            last = states[gap.last]
            until_ns = {broker: _known_ns(known, broker, last) for broker in sorted(brokers)}
            acceptors = tuple((until_ns | {last.leader: (last.t_ns or 0) + SLACK_NS}).items())
        yield Loss(_UNCLEAN, 0, NULL, begun_ns, acceptors, gap.why)


def _lost_copies(of: PartitionEvidence) -> Iterator[Loss]:
    """Yield the losses by damaged disks. The damaged broker itself is down, so any broker may be the acceptor."""
    for lost in of.lost_copies:
        acceptors = ((_ANY_BROKER, lost.t_ns),)
        yield Loss(frozenset({Cause.LOST_COPY}), lost.from_offset, NULL, lost.t_ns, acceptors, lost.unknown)


def _ended_ns(of: PartitionEvidence, led: State) -> int:
    """Return when the process of this state's leader ended."""
    stops = (stop for stop in of.stops if stop.ended and stop.broker_id == led.leader)
    led_before = led is of.states[0] and led.partition_epoch > 0
    later = (s for s in stops if (s.until_ns if led_before else s.from_ns) > (led.t_ns or 0))
    return min((stop.from_ns for stop in later), default=FOREVER_NS)


def _known_ns(known: Known, broker: int, state: State) -> int:
    epochs, known_ns = known(broker)
    first = int(np.searchsorted(epochs, state.leader_epoch))
    until_ns = FOREVER_NS if first == epochs.size else int(known_ns[first])
    return max(until_ns, (state.t_ns or 0) + SLACK_NS)


def _known(of: PartitionEvidence, broker: int) -> tuple[Ints, Ints]:
    """Return the leader epochs that a broker is known to have accepted, and by when."""
    views = of.views.take(observing(of.views, of.names) == broker)
    samples = of.samples.take(of.samples.broker == broker)
    epochs = np.concatenate([views.epoch, samples.epoch])
    known_ns = np.concatenate([views.received_ns + UNFENCED_NS, samples.received_ns])
    order = np.argsort(known_ns, kind="stable")
    return np.maximum.accumulate(epochs[order]), known_ns[order]


class Sent(NamedTuple):
    """The sends of the cases' records. Unknown offsets and ``done_ns`` are ``FOREVER_NS``, unknown ``sent_ns`` is 0."""

    offset: Ints
    sent_ns: Ints
    done_ns: Ints

    @classmethod
    def of(cls, of: PartitionEvidence, values: Ints) -> Sent:
        sends = of.sends
        wanted, place = np.unique(values, return_inverse=True)
        rows = np.flatnonzero(positions_in(wanted, sends.value) >= 0)[::-1]  # of several sends the first
        row = np.full(wanted.size, -1)
        row[positions_in(wanted, sends.value[rows])] = rows
        row = row[place]

        def first_of(column: Ints, otherwise: int) -> Ints:
            found = column[row] if column.size else np.full(row.size, NULL)
            return np.where((row < 0) | (found < 0), otherwise, found)

        return cls(first_of(sends.offset, FOREVER_NS), first_of(sends.sent_ns, 0), first_of(sends.done_ns, FOREVER_NS))


def caused_by_losses(of: PartitionEvidence, found: Sequence[Loss], cases: Cases, cause: str) -> Ruling:
    """A leader change, or damage to the only copy, removes records from an offset on. A lost record fits if its offset
    was at or above this one (or is unknown), it was sent before the broker that lost it knew its successor, and this
    broker was not down from send to answer. A record in its place was acknowledged or received after the change began.
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
    for stop in of.stops:
        if stop.broker_id == broker:
            within |= (sent.sent_ns >= stop.from_ns) & (sent.done_ns <= stop.until_ns)
    return within


def _fits(loss: Loss, cases: Cases, sent: Sent, down: Callable[[int], Bools]) -> Bools:
    truncation = ANOMALIES[cases.anomaly].truncation
    shown_ns = sent.done_ns if truncation is Truncation.OFFSET_REUSED else cases.shown_ns
    fits = np.ones(cases.values.size, dtype=np.bool_)
    if truncation in {Truncation.RECORD_GONE, Truncation.OFFSET_REUSED, Truncation.READ_AGAIN}:
        fits &= (sent.offset >= loss.from_offset) & (sent.done_ns >= loss.since_ns)
    if truncation in {Truncation.RECORD_GONE, Truncation.MARKER_GONE}:
        fits &= np.any([(sent.sent_ns <= until_ns) & ~down(broker) for broker, until_ns in loss.acceptors], axis=0)
    if shown_ns is not None:
        fits &= shown_ns >= loss.begun_ns - CLOCK_NS
    return fits
