"""A partition's leaders, ISR and states from brokers' metadata, which may be stale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import NULL, Codes, Ints, Names, Views, groups
from evidence.facts import UNFENCED_NS, PartitionFacts, ShortIsr, Stretch, short_of_members
from evidence.samples import cuts
from history.partition import TopicPartition
from history.tables import CONTROLLER
from kafka_files.states import State

CLOCK_NS = 1_000_000_000  # server logs have milliseconds, clock pairs are 1 s apart
_MAX_BROKER = 2**31 - 1


class Change(NamedTuple):
    """A state since its decision or first observation."""

    received_ns: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    observer: str


def thinned(views: Views, moments: Ints, settled_ns: int) -> Views:
    """Return each observer's first and last view of a state, between the moments at which checks look.

    Every later view is requested after ``settled_ns``.
    """
    if not len(views):
        return views
    order = np.argsort(views.observer, kind="stable")
    changed = np.zeros(order.size - 1, dtype=np.bool_)
    pieces = [np.searchsorted(cuts(moments), times) for times in (views.sent_ns, views.received_ns)]
    columns: list[Ints | Codes] = [views.observer, views.leader, views.epoch, views.isr, *pieces]
    for column in columns:
        changed |= column[order[1:]] != column[order[:-1]]
    keep = views.received_ns > settled_ns
    keep[order[np.append(True, changed)]] = keep[order[np.append(changed, True)]] = True
    return views.take(keep)


def leaders(views: Views) -> dict[tuple[int, int], int]:
    """Return (epoch, leader) → time of first observation."""
    named = np.flatnonzero((views.leader >= 0) & (views.epoch != NULL))
    found: dict[tuple[int, int], int] = {}
    for (epoch, leader), rows in groups(views.epoch[named], views.leader[named]):
        found[epoch, leader] = int(views.received_ns[named[rows]].min())
    return found


def first_leaders(views: Views) -> dict[int, tuple[int, int]]:
    """Return epoch → (leader, first observation); of two leaders, which I19 reports, the smaller."""
    found: dict[int, tuple[int, int]] = {}
    for (epoch, leader), seen_ns in sorted(leaders(views).items()):
        known = found.get(epoch, (leader, seen_ns))
        found[epoch] = known[0], min(known[1], seen_ns)
    return found


def changes(history: Sequence[State], views: Views, names: Names) -> tuple[Change, ...]:
    """Return the controller's states, or the leaders' metadata if they begin late or without usable times."""
    if history and history[0].partition_epoch == 0 and has_good_times(history, first_shown(views)):
        return decided(history)
    return isr_changes(views, names)


def first_shown(views: Views) -> dict[int, int]:
    """Return epoch → a broker's first report, in ns."""
    known = np.flatnonzero(views.epoch != NULL)
    return {epoch: int(views.received_ns[known[rows]].min()) for (epoch,), rows in groups(views.epoch[known])}


def has_good_times(history: Sequence[State], shown: Mapping[int, int]) -> bool:
    """Return whether a controller's history has usable times.

    Each state needs one, and each epoch in ``shown`` an earlier decision.
    """
    decided_ns: dict[int, int] = {}
    for state in history:
        if state.t_ns is None:
            return False
        decided_ns.setdefault(state.leader_epoch, state.t_ns)
    return all(epoch in decided_ns and decided_ns[epoch] <= shown[epoch] + CLOCK_NS for epoch in shown)


def decided(history: Iterable[State]) -> tuple[Change, ...]:
    """Return the controller's dated states by time."""
    found = [
        Change(state.t_ns, state.leader, state.leader_epoch, tuple(sorted(state.isr)), CONTROLLER)
        for state in history
        if state.t_ns is not None
    ]
    return tuple(sorted(found, key=lambda change: change.received_ns))


def isr_changes(views: Views, names: Names) -> tuple[Change, ...]:
    """Return each state when its own leader's metadata first showed it.

    A view counts if no observer has shown a newer epoch, and it is the leader's own (caches only move forward) or the
    first without a leader.
    """
    known = views.take((views.leader != NULL) & (views.epoch != NULL) & (views.isr >= 0))
    newest = np.maximum.accumulate(known.epoch)
    first = np.ones(len(known), dtype=np.bool_)
    first[1:] = known.epoch[1:] > newest[:-1]
    own = (observing(known, names) == known.leader) | ((known.leader < 0) & first)
    kept = known.take(own & (known.epoch == newest))
    new = kept.changed
    return tuple(
        Change(received_ns, leader, epoch, kept.lists[isr], names.listed[observer])
        for received_ns, leader, epoch, isr, observer in zip(
            *(column[new].tolist() for column in (kept.received_ns, kept.leader, kept.epoch, kept.isr, kept.observer)),
            strict=True,
        )
    )


def observing(views: Views, names: Names) -> Ints:
    """Return each view's observing broker, or ``NULL``."""
    found: Ints = np.array([*map(_broker, names.listed), NULL], dtype=np.int64)[views.observer]
    return found


def _broker(name: str) -> int:
    number = int(name) if name.isdecimal() and len(name) <= len(str(_MAX_BROKER)) else NULL
    return number if str(number) == name and number <= _MAX_BROKER else NULL


def final_isr(views: Views) -> tuple[int, ...]:
    """Return the members in the last views of all observers, as those of a disconnected one are stale."""
    known = views.take((views.epoch != NULL) & (views.isr >= 0))
    if not len(known):
        return ()
    newest = np.flatnonzero(known.epoch == known.epoch.max())
    last = [newest[rows[-1]] for _, rows in groups(known.observer[newest])]
    return tuple(sorted(set.intersection(*(set(known.members(row) or ()) for row in last))))


def last_views(where: TopicPartition, views: Views, names: Names) -> list[dict[str, Any]]:
    """Return each observer's last view per leader and epoch."""
    found = []
    for (observer, leader, epoch), rows in groups(views.observer, views.leader, views.epoch):
        row = int(rows[np.lexsort((views.sent_ns[rows], views.received_ns[rows]))[-1]])
        isr = views.members(row)
        found.append(
            {
                **where._asdict(),
                "observer": names.listed[observer],
                "leader": None if leader == NULL else leader,
                "leader_epoch": None if epoch == NULL else epoch,
                "received_ns": int(views.received_ns[row]),
                "sent_ns": int(views.sent_ns[row]),
                "isr": None if isr is None else list(isr),
            }
        )
    return found


def short_isrs(facts: PartitionFacts, views: Views, names: Names) -> list[ShortIsr]:
    """Return the leader's metadata's times below min.insync.replicas."""
    known = known_since(views, names, short_of_members(facts))
    return [
        ShortIsr(state.leader, state.leader_epoch, tuple(sorted(state.isr)), known_ns, until_ns)
        for state, known_ns, until_ns in known
    ]


def known_since(views: Views, names: Names, short: Iterable[Stretch]) -> Iterator[Stretch]:
    """Yield when a leader must respect an ISR: 2 s after its metadata showed it."""
    known = np.flatnonzero(views.isr >= 0)
    observers = observing(views, names)[known]
    shown = {
        (observer, epoch, views.lists[isr]): known[rows]
        for (observer, epoch, isr), rows in groups(observers, views.epoch[known], views.isr[known])
    }
    for state, from_ns, until_ns in short:
        rows = shown.get((state.leader, state.leader_epoch, tuple(sorted(state.isr))))
        if rows is None:
            continue
        begin = np.searchsorted(views.received_ns[rows], from_ns)
        end = np.searchsorted(views.received_ns[rows], until_ns, side="right")
        within = rows[begin:end][views.sent_ns[rows[begin:end]] >= from_ns]
        if within.size:
            yield Stretch(state, int(views.received_ns[within[0]]) + UNFENCED_NS, until_ns)
