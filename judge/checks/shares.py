"""Check a share group on one partition (KIP-932).

A broker may count a delivery that never arrived, and forgets unpersisted ones when it ends. So two deliveries are
compared only if, from two lock durations before the first until the second, no fault was active and no member started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import FINAL, NULL, Bools, Codes, Ints, largest, positions_in, smallest
from evidence.partition import PartitionEvidence
from evidence.shares import ACCEPT, RELEASE, ShareEvidence
from judge.checks.findings import Cases, Check, Checks, gathered
from judge.checks.records import record

FAULTS = "as many faults as the record lacks deliveries may have taken it from members that had not accepted it"
_NEVER = -1  # a time


class _Open(NamedTuple):
    """Drained records that were certainly not accepted, by offset."""

    value: Ints
    offset: Ints
    first_ns: Ints
    last_ns: Ints
    deliveries: Ints  # by the last delivery; NULL: unknown


def _open(of: PartitionEvidence, share: ShareEvidence) -> _Open:
    """Return the records that were not accepted.

    An acknowledgement that was rejected, or of a member without clean end, may have been applied.
    """
    drained = (of.polls.pass_ == FINAL) & (of.polls.value >= 0)
    offset, at = np.unique(of.polls.offset[drained], return_index=True)
    value = of.polls.value[drained][at]
    reads, acks = share.reads, share.acks
    left = positions_in(np.unique(share.accepted.offset), offset) < 0
    value, offset = value[left], offset[left]
    last = np.searchsorted(reads.offset, offset, side="right") - 1
    given = (last >= 0) & (reads.offset[last] == offset) if len(reads) else np.zeros(offset.size, dtype=np.bool_)
    first_ns, last_ns = np.full(offset.size, _NEVER), np.full(offset.size, _NEVER)
    count = np.zeros(offset.size, dtype=np.int64)
    first_ns[given] = reads.received_ns[np.searchsorted(reads.offset, offset[given])]
    last_ns[given], count[given] = reads.received_ns[last[given]], reads.count[last[given]]
    accepts = acks.kind == ACCEPT
    unclean = np.isin(acks.member, _codes(of, share.facts.unclean))
    asked = _latest(offset, acks.offset, acks.asked_ns, accepts)
    asked_last = _latest(offset, acks.offset, acks.asked_ns, accepts & unclean)
    refused = _latest(offset, acks.offset, acks.answered_ns, accepts & acks.refused)
    asked_since = (asked != _NEVER) & (asked >= last_ns)  # even for a delivery without a row
    doubtful = ((asked_last != _NEVER) & (asked_last >= last_ns)) | (asked_since & (refused >= asked))
    return _Open(*(column[~doubtful] for column in (value, offset, first_ns, last_ns, count)))


def _codes(of: PartitionEvidence, members: frozenset[str]) -> Codes:
    return np.array([code for code, name in enumerate(of.names.listed) if name in members], dtype=np.int32)


def _latest(wanted: Ints, offset: Ints, t_ns: Ints, rows: Bools) -> Ints:
    rows = rows & (t_ns != NULL)
    at = positions_in(wanted, offset[rows])
    return np.maximum(largest(at[at >= 0], t_ns[rows][at >= 0], wanted.size), _NEVER)


def _rest_ns(of: PartitionEvidence, share: ShareEvidence) -> int:
    drained = of.polls.received_ns[of.polls.pass_ == FINAL]
    since = [drained.max(initial=0), share.reads.received_ns.max(initial=0), *(ended for _, ended in share.faults)]
    return share.facts.ended_ns - max(map(int, since))


def stuck_record(of: PartitionEvidence) -> Cases:
    """A record that a share group has neither accepted nor archived although the group came to rest: its members
    received no record for two lock durations and 5 s without a fault. Sound: a broker delivers every available record,
    and an acquired record is available again when its lock expires.
    """
    share = of.share
    if share is None or not of.clean:
        return _cases("stuck_record", of, None, 0, 0)
    rest_ns = _rest_ns(of, share)
    found = _left(of, share) if rest_ns >= share.facts.still_ns else None
    return _cases("stuck_record", of, found, share.facts.delivery_limit, rest_ns)


def _left(of: PartitionEvidence, share: ShareEvidence) -> _Open:
    found = _open(of, share)
    left = (found.deliveries < share.facts.delivery_limit) & ((found.deliveries != NULL) | (found.last_ns == _NEVER))
    return _Open(*(column[left] for column in found))


@gathered
def i37_nothing_left(of: PartitionEvidence) -> Iterator[Check]:
    """I37, share groups, from 4.2: once the group came to rest, no record is a ``stuck_record`` (KIP-932)."""
    share = of.share
    rest_ns = _rest_ns(of, share) if share is not None and of.clean else 0
    if share is None or rest_ns < share.facts.still_ns:
        return
    left = _left(of, share).offset
    shown = {"records_left": left.size, "first_offset": int(left.min(initial=2**63 - 1)), "still_ns": rest_ns}
    yield Check(None, bool(left.size), shown)


def undecided_shares(of: PartitionEvidence) -> list[str]:
    """Return a sentence if I37 cannot judge a share group."""
    share = of.share
    if share is None or not of.clean or (rest_ns := _rest_ns(of, share)) >= share.facts.still_ns:
        return []
    left = _left(of, share).offset.size
    if not left:
        return []
    still_s = share.facts.still_ns / 1e9
    rest = f"it had been at rest for {max(rest_ns, 0) / 1e9:.0f} s of the {still_s:.0f} s that prove a record stuck"
    if not share.facts.ended_ns:
        rest = "no member ended in order, which would show whether it had come to rest"
    return [f"The share group left {left:,} records of {of.where}: {rest}."]


def archived_record(of: PartitionEvidence) -> Cases:
    """A record delivered up to group.share.delivery.count.limit and never accepted: lost for the application. Permitted
    if members release it at every delivery, or if as many faults were active during its deliveries as releases are
    missing.
    """
    share = of.share
    if share is None or not of.clean:
        return _cases("archived_record", of, None, 0, 0)
    found, limit = _open(of, share), share.facts.delivery_limit
    found = _Open(*(column[found.deliveries >= limit] for column in found))
    released = share.asked.offset[share.asked.kind == RELEASE]
    lacking = limit - (np.searchsorted(released, found.offset, side="right") - np.searchsorted(released, found.offset))
    lock_ns = share.facts.lock_ns
    faults = np.zeros(found.offset.size, dtype=np.int64)
    for begun, ended in share.faults:
        faults += (begun <= found.last_ns + lock_ns) & (ended >= found.first_ns - 2 * lock_ns)
    excused = lacking <= faults
    cases = _cases("archived_record", of, found, limit, 0)
    return cases._replace(why=lambda place: FAULTS if excused[place] else None)


def _cases(anomaly: str, of: PartitionEvidence, found: _Open | None, limit: int, rest_ns: int) -> Cases:
    values = np.empty(0, dtype=np.int64) if found is None else found.value

    def example(place: int) -> Mapping[str, Any]:
        assert found is not None
        offset, count = int(found.offset[place]), int(found.deliveries[place])
        delivered = f"delivered {count} times of at most {limit}" if count else "never delivered to a member"
        words = f"{record(of.names, values[place])} at offset {offset} was {delivered}, and not accepted."
        rest = {"at_rest_s": round(rest_ns / 1e9, 1)} if rest_ns else {}
        return {"offset": offset, "explanation": words, "evidence": {"deliveries": count, "limit": limit, **rest}}

    return Cases(anomaly, values, example)


def i33_accepted_for_good(of: PartitionEvidence) -> Checks:
    """I33 (at-least-once), from 4.2. After a broker confirmed it, and so the share coordinator has stored it ("Managing
    durable share-partition state"). Sound: only records fetched later count; by their delivery the member had completed
    eight polls. Not checked if disks lose records, or replicas are elected uncleanly.
    """
    share = _share(of)
    offsets, at = np.unique(share.accepted.offset, return_inverse=True)
    accepted_ns = smallest(at, share.accepted.answered_ns, offsets.size)
    reads = share.reads
    place = positions_in(offsets, reads.offset)
    late = np.flatnonzero(place >= 0)
    late = late[reads.since_ns[late] > accepted_ns[place[late]]]

    def evidence(row: int) -> Mapping[str, Any]:
        again = int(late[row])
        return {**_delivery(of, share, again), "accepted_ns": int(accepted_ns[place[again]])}

    return Checks(int(offsets.size), reads.received_ns[late], evidence)


def i34_one_holder(of: PartitionEvidence) -> Checks:
    """I34 (at-least-once), from 4.2. For half a lock duration from its delivery, unless it was released or the
    acknowledgement was rejected. Sound: the other half covers the way from broker to member.
    """
    share = _share(of)
    reads, again, lock_ns = share.reads, share.again, share.facts.lock_ns
    steady = ~share.disturbed(reads.received_ns - 2 * lock_ns, reads.received_ns + lock_ns // 2)
    back = _given_back(share)
    prompt = share.prompt[again] & share.prompt[again - 1]
    soon = prompt & (reads.received_ns[again] - reads.received_ns[again - 1] < lock_ns // 2)
    return _beside(of, share, int(steady.sum()), again[steady[again - 1] & soon & (back[again - 1] == back[again])])


def _given_back(share: ShareEvidence) -> Ints:
    """Return how often each delivery's record was given back by then."""
    acks, reads = share.acks, share.reads
    back = acks.take(((acks.kind == RELEASE) & ~acks.answered) | acks.refused)
    back_ns = np.where(back.answered, back.answered_ns, back.asked_ns)
    order = np.lexsort(
        (np.concatenate([reads.received_ns, back_ns]), np.concatenate([reads.offset, back.offset])),
    )
    counted = np.empty(order.size, dtype=np.int64)
    counted[order] = np.cumsum(order >= len(reads))
    return counted[: len(reads)]


def i35_delivery_limit(of: PartitionEvidence) -> Checks:
    """I35 (at-least-once), from 4.2. Between 1 and group.share.delivery.count.limit. Sound: brokers persist the count;
    losing it makes counts smaller.
    """
    share = _share(of)
    counted = np.flatnonzero(share.reads.count != NULL)
    count = share.reads.count[counted]
    wrong = counted[(count < 1) | (count > share.facts.delivery_limit)]

    def evidence(place: int) -> Mapping[str, Any]:
        return {**_delivery(of, share, int(wrong[place])), "limit": share.facts.delivery_limit}

    return Checks(int(counted.size), share.reads.received_ns[wrong], evidence)


def i36_deliveries_counted(of: PartitionEvidence) -> Checks:
    """I36 (at-least-once), from 4.2. By one with each acquisition, received or not. Sound: counts are lost only with
    the leading broker, after a fault or a step.
    """
    share = _share(of)
    reads, second = share.reads, share.again
    known = (reads.count[second] != NULL) & (reads.count[second - 1] != NULL)
    from_ns = reads.received_ns[second - 1] - 2 * share.facts.lock_ns
    known &= share.prompt[second] & share.prompt[second - 1]
    second = second[known & ~share.disturbed(from_ns, reads.received_ns[second])]
    return _beside(of, share, int(second.size), second[reads.count[second] <= reads.count[second - 1]])


def _beside(of: PartitionEvidence, share: ShareEvidence, checked: int, violated: Ints) -> Checks:

    def evidence(place: int) -> Mapping[str, Any]:
        row = int(violated[place])
        before = _delivery(of, share, row - 1)
        return {**_delivery(of, share, row), "before": before}

    return Checks(checked, share.reads.received_ns[violated], evidence)


def _delivery(of: PartitionEvidence, share: ShareEvidence, row: int) -> dict[str, Any]:
    count = int(share.reads.count[row])
    return {
        "offset": int(share.reads.offset[row]),
        "member": of.names.listed[share.reads.member[row]],
        "delivery": None if count == NULL else count,
        "received_ns": int(share.reads.received_ns[row]),
    }


def _share(of: PartitionEvidence) -> ShareEvidence:
    if of.share is None:
        raise ValueError("no share group")
    return of.share
