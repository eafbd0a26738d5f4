"""Cases in which reads of one partition contradict the order of a log.

Consumers read in assign mode. A step across a seek proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from evidence.columns import (
    ACKS_0,
    ACKS_ALL,
    FINAL,
    NULL,
    OK,
    Bools,
    Ints,
    known,
    producer_of,
    seq_of,
    smallest_of_equal,
)
from evidence.partition import PartitionEvidence
from judge.checks.account import Account
from judge.checks.findings import Cases
from judge.checks.imported import misplaced
from judge.checks.records import clashes, record


@dataclass(frozen=True)
class Steps:
    """Consecutive reads of one consumer, as rows."""

    before: Ints
    after: Ints


def steps(of: PartitionEvidence) -> Steps:
    """Return every consumer's steps, without those across a seek."""
    polls, seeks = of.polls, of.seeks
    consumer = np.concatenate([polls.consumer, seeks.consumer])
    pass_ = np.concatenate([polls.pass_, seeks.pass_])
    position = np.concatenate([polls.position, seeks.position])
    turn = np.concatenate([np.ones(len(polls), dtype=np.int8), np.zeros(len(seeks), dtype=np.int8)])
    order = np.lexsort((turn, position, pass_, consumer))
    same = (np.diff(consumer[order]) == 0) & (np.diff(pass_[order]) == 0)
    both = (turn[order][1:] == 1) & (turn[order][:-1] == 1)
    step = np.flatnonzero(same & both)
    return Steps(order[step], order[step + 1])


def poll_skip(of: PartitionEvidence, taken: Steps, standing: tuple[Ints, Ints] | None = None) -> Cases:
    """Between two of its reads, a consumer passed over a record that the final drain found (of an import: that was read
    or acknowledged); serves C2. Sound: every offset below one that was read was filled by then. A gap without the run's
    own records is legal.
    """
    if standing is None:
        drained = (of.polls.pass_ == FINAL) & (of.polls.value >= 0)
        standing = of.polls.offset[drained], of.polls.value[drained]
    order = np.lexsort((standing[1], standing[0]))
    offsets, values = standing[0][order], standing[1][order]
    since, until = of.polls.offset[taken.before], of.polls.offset[taken.after]
    gap = np.flatnonzero(until > since + 1)
    first = np.searchsorted(offsets, since[gap], side="right")
    passed = np.searchsorted(offsets, until[gap]) - first
    over = passed > 0
    gap, first, passed = gap[over], first[over], passed[over]
    consumers = of.polls.consumer[taken.after[gap]]
    _, distinct = np.unique(np.stack([consumers, since[gap], until[gap]]), axis=1, return_index=True)
    distinct = np.sort(distinct)

    def example(place: int) -> Mapping[str, Any]:
        at = int(distinct[place])
        name = of.names.listed[consumers[at]]
        here, there, records = int(since[gap[at]]), int(until[gap[at]]), int(passed[at])
        return {
            "offset": int(offsets[first[at]]),
            "explanation": f"Consumer {name} went from offset {here} to {there} past {records} records that are in "
            "the log.",
            "evidence": {"consumer_id": name, "from_offset": here, "records": records, "to_offset": there},
        }

    passed_ns = of.polls.received_ns[taken.after[gap[distinct]]]
    return Cases("poll_skip", values[first[distinct]], example, shown_ns=passed_ns)


def nonmonotonic_poll(of: PartitionEvidence, taken: Steps) -> Cases:
    """A consumer received an offset at or below the one before it, without a seek; serves C2 and C46."""
    back = np.flatnonzero(of.polls.offset[taken.after] <= of.polls.offset[taken.before])

    def example(place: int) -> Mapping[str, Any]:
        row, before = int(taken.after[back[place]]), int(of.polls.offset[taken.before[back[place]]])
        name, offset = of.names.listed[of.polls.consumer[row]], int(of.polls.offset[row])
        return {
            "offset": offset,
            "explanation": f"Consumer {name} went back from offset {before} to {offset}.",
            "evidence": {"consumer_id": name, "before": before},
        }

    rows = taken.after[back]
    return Cases("nonmonotonic_poll", of.polls.value[rows], example, shown_ns=of.polls.received_ns[rows])


def leader_epoch_regression(of: PartitionEvidence, taken: Steps) -> Cases:
    """A consumer received, further up in the log, a batch of an older leader epoch; serves C26."""
    epoch, offset = of.polls.leader_epoch, of.polls.offset
    ahead = offset[taken.after] > offset[taken.before]
    fell = np.flatnonzero(ahead & (epoch[taken.after] < epoch[taken.before]) & (epoch[taken.after] != NULL))

    def example(place: int) -> Mapping[str, Any]:
        row, before = int(taken.after[fell[place]]), int(taken.before[fell[place]])
        name = of.names.listed[of.polls.consumer[row]]
        return {
            "offset": int(offset[row]),
            "explanation": f"Consumer {name} read epoch {epoch[row]} at offset {offset[row]}, after epoch "
            f"{epoch[before]} at {offset[before]}.",
            "evidence": {
                "consumer_id": name,
                "leader_epoch": int(epoch[row]),
                "before": {"offset": int(offset[before]), "leader_epoch": int(epoch[before])},
            },
        }

    return Cases("leader_epoch_regression", of.polls.value[taken.after[fell]], example)


def nonrepeatable_read(of: PartitionEvidence) -> Cases:
    """An offset was read with two values, or was read although a complete drain found no record there or ended below
    it; serves C2, C46. Sound: a received record is committed, and no leader's end offset is below what was committed
    before its epoch (KIP-207). In a compacted topic only two values count. A ``read_committed`` drain omits what only
    ``read_uncommitted`` readers received. Records read after the drain began may be beyond its end.
    """
    ours, final = of.polls.value >= 0, of.polls.pass_ == FINAL
    drained, live = ours & final, ours & ~final
    polled, valued = of.polls.offset, of.polls.value
    changed = clashes(polled[drained], valued[drained], polled[live], valued[live], of.names)
    found: dict[int, list[int]] = {clash.offset: clash.values for clash in changed}
    gone = np.flatnonzero(live)[_vanished(of, drained, live)]
    vanished: dict[int, set[int]] = {}
    for offset, value in zip(polled[gone].tolist(), valued[gone].tolist(), strict=True):
        if offset not in found:
            vanished.setdefault(offset, set()).add(value)
    places = sorted({**found, **vanished})
    values = [found.get(offset) or sorted(vanished[offset], key=of.names.name) for offset in places]

    def example(place: int) -> Mapping[str, Any]:
        offset = places[place]
        readers = np.unique(of.polls.consumer[ours & (polled == offset)]).tolist()
        changed = len(values[place]) > 1
        return {
            "offset": offset,
            "explanation": f"Offset {offset} was read with {len(values[place])} different values."
            if changed
            else f"The record at offset {offset} was read, and is not there any more.",
            "evidence": {
                "values": [of.names.fields(v) for v in values[place]],
                "readers": sorted(of.names.listed[code] for code in readers),
            },
        }

    return Cases("nonrepeatable_read", np.array([each[0] for each in values], dtype=np.int64), example)


def _vanished(of: PartitionEvidence, drained: Bools, live: Bools) -> Bools:
    polls, drain = of.polls, of.drain
    offset = polls.offset[live]
    if not of.kept or not drained.any() or drain is None or not drain.complete or drain.position is None:
        return np.zeros(offset.size, dtype=np.bool_)
    found = polls.offset[drained]
    missed = (offset >= max(of.deleted_before or 0, int(found.min()))) & ~np.isin(offset, found)
    if (drained & polls.committed_only).any():
        missed &= np.isin(offset, np.unique(polls.offset[live & polls.committed_only]))
    beyond = missed & (offset >= drain.position)
    if beyond.any():
        first_ns = smallest_of_equal(offset[beyond], polls.received_ns[live][beyond])
        missed[beyond] = first_ns < polls.received_ns[drained].min()
    return missed


def realtime_order_violation(of: PartitionEvidence) -> Cases:
    """A record was acknowledged at or below an offset known to be filled before it was sent; serves C7. Filled: read,
    or acknowledged with acks=all; with acks=1 only against acks=1, as after the loss of a leader acks=all may get the
    same offset.
    """
    sends, polls = of.sends, of.polls
    acked = (sends.outcome == OK) & (sends.offset >= 0) & (sends.acks != ACKS_0)
    asked = np.flatnonzero(acked & (sends.sent_ns != NULL))
    last_ns = sends.sent_ns[asked].max(initial=NULL)
    answered = acked & (sends.done_ns != NULL) & (sends.done_ns < last_ns)
    all_told = answered & (sends.acks == ACKS_ALL)
    read = polls.received_ns < last_ns
    top = np.full(len(sends), NULL)
    for which, sure in ((sends.acks[asked] == ACKS_ALL, all_told), (sends.acks[asked] != ACKS_ALL, answered)):
        rows = asked[which]
        if not rows.size:
            continue
        t_ns = np.concatenate([sends.done_ns[sure], polls.received_ns[read]])
        offset = np.concatenate([sends.offset[sure], polls.offset[read]])
        order = np.argsort(t_ns, kind="stable")
        highest = np.maximum.accumulate(offset[order])
        at = np.searchsorted(t_ns[order], sends.sent_ns[rows]) - 1
        known_before = at >= 0
        top[rows[known_before]] = highest[at[known_before]]
    late = asked[sends.offset[asked] <= top[asked]]

    def example(place: int) -> Mapping[str, Any]:
        row = int(late[place])
        name = record(of.names, sends.value[row])
        return {
            "offset": int(sends.offset[row]),
            "explanation": f"{name} was acknowledged at offset {sends.offset[row]}; offset {top[row]} was known to be "
            "filled before it was sent.",
            "evidence": {"known_offset": int(top[row]), "sent_ns": int(sends.sent_ns[row])},
        }

    return Cases("realtime_order_violation", sends.value[late], example)


@dataclass(frozen=True)
class Acknowledged:
    """Acknowledged sends (rows) by producer and number.

    ``top``: the largest offset before; ``top_value``: its last send's.
    """

    rows: Ints
    top: Ints
    top_value: Ints


def acknowledged(of: PartitionEvidence, trusted: Bools | None = None) -> Acknowledged:
    """Return each producer's acknowledged sends by number; acks=0 is none."""
    acked = (of.sends.outcome == OK) & (of.sends.acks != ACKS_0)
    rows = np.flatnonzero(acked if trusted is None else acked & trusted)
    plain = [(of.names.value(name, high), at) for each in of.plain for name, (_, high, at) in each.numbers.items()]
    more = np.array(plain, dtype=np.int64).reshape(-1, 2)
    value = np.concatenate([of.sends.value[rows], more[:, 0]])
    offset = np.concatenate([of.sends.offset[rows], more[:, 1]])
    order = np.argsort(value, kind="stable")
    value, offset, producers = value[order], offset[order], producer_of(value[order])
    top, top_value = np.full(order.size, NULL), np.full(order.size, NULL)
    starts = np.flatnonzero(np.diff(producers, prepend=-2))
    for begin, end in pairwise([*starts.tolist(), order.size]):
        highest = np.maximum.accumulate(offset[begin:end])
        at = np.maximum.accumulate(np.where(offset[begin:end] == highest, np.arange(begin, end), NULL))
        top[begin + 1 : end] = highest[:-1]
        top_value[begin + 1 : end] = value[at[:-1]]
    own = order < rows.size
    return Acknowledged(rows[order[own]], top[own], top_value[own])


def _earlier(acked: Acknowledged, at: int) -> dict[str, int]:
    return {"offset": int(acked.top[at]), "seq": int(seq_of(acked.top_value[at]))}


def nonmonotonic_send(of: PartitionEvidence, acked: Acknowledged) -> Cases:
    """A producer's later record was acknowledged at or below the offset of an earlier one in the same partition; serves
    C27.
    """
    offset = of.sends.offset[acked.rows]
    back = np.flatnonzero((offset >= 0) & (offset <= acked.top))

    def example(place: int) -> Mapping[str, Any]:
        at = int(back[place])
        earlier = _earlier(acked, at)
        producer, _ = of.names.name(int(of.sends.value[acked.rows[at]]))
        name = record(of.names, of.sends.value[acked.rows[at]])
        return {
            "offset": int(offset[at]),
            "explanation": f"{name} was acknowledged at offset {offset[at]}, after {producer}/{earlier['seq']} at "
            f"{earlier['offset']}.",
            "evidence": {"earlier": earlier},
            "at_ns": known(of.sends.done_ns[acked.rows[at]]),
        }

    return Cases("nonmonotonic_send", of.sends.value[acked.rows[back]], example, again=acked.top_value[back])


_KNOWN_ALREADY = (
    "an idempotent producer's batch that was sent again is acknowledged without its offset by a leader that only knows "
    "that it has it (DUPLICATE_SEQUENCE_NUMBER)"
)


def bad_ack_offset(
    of: PartitionEvidence, acked: Acknowledged, resending: Collection[str] = (), account: Account | None = None
) -> Cases:
    """An acknowledgement without an offset, with -1, or (acks=all) with 0 after a larger one of the same producer;
    serves C7. A missing offset is permitted to idempotent producers that may have sent a batch again to a new leader.
    In an import, which may omit offsets, one is wrong if readers returned the record only at others, if it is beyond
    the log's end, or if no reader returned it and it is such a 0.
    """
    offset = of.sends.offset[acked.rows]
    zero = (offset == 0) & (acked.top > 0) & (of.sends.acks[acked.rows] == ACKS_ALL)
    if account is None:
        bad = np.flatnonzero((offset < 0) | zero)
    else:
        bad = np.flatnonzero(misplaced(account, of.sends)[acked.rows] | (zero & ~account.read[acked.rows]))

    def example(place: int) -> Mapping[str, Any]:
        at = int(bad[place])
        what = "no offset" if offset[at] == NULL else f"offset {offset[at]}"
        name = record(of.names, of.sends.value[acked.rows[at]])
        earlier = None if acked.top[at] == NULL else _earlier(acked, at)
        read_at = account.offsets(int(acked.rows[at])) if account else []
        where = f" and was read at offset {', '.join(map(str, read_at))}" if read_at else ""
        return {
            "offset": known(offset[at]),
            "explanation": f"{name} was acknowledged with {what}{where}.",
            "evidence": {"offset": known(offset[at]), "earlier": earlier} | ({"read_at": read_at} if read_at else {}),
            "at_ns": known(of.sends.done_ns[acked.rows[at]]),
        }

    def why(place: int) -> str | None:
        producer, _ = of.names.name(int(of.sends.value[acked.rows[bad[place]]]))
        return _KNOWN_ALREADY if offset[bad[place]] < 0 and producer in resending else None

    return Cases("bad_ack_offset", of.sends.value[acked.rows[bad]], example, why if resending else None)
