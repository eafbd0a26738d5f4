"""Decide whether a permission's cause could have produced the harm.

Missing evidence leaves a case undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evidence.columns import FINAL, NULL, Bools, Ints, groups, places, producer_of
from evidence.facts import FOREVER_NS, SETTLE_NS, SLACK_NS, at_most_all
from evidence.gather import (
    COPIER_BEGAN_ANEW,
    LOST_COPY,
    MEMBER_ENDED,
    NEVER_READ,
    NEW_LEADER,
    RELEASED,
    SENT_AGAIN,
    SHORT_ISR,
    UNCLEAN_LEADER,
)
from evidence.groups import GroupEvidence
from evidence.partition import PartitionEvidence
from evidence.shares import RELEASE
from evidence.views import CLOCK_NS
from judge.checks.findings import Cases, Ruling
from judge.checks.takeovers import Loss, Sent, holes, taken

_NOT_IMPORTED = (
    "an import does not show whether a client sent a record again (if the producers were idempotent, state "
    "--idempotence true)"
)


def brought_about(of: PartitionEvidence, found: Sequence[Loss], cases: Cases, cause: str) -> Ruling:
    """Return which cases a cause may have brought about."""
    if cause in {NEW_LEADER, UNCLEAN_LEADER, LOST_COPY}:
        return taken(of, found, cases, cause)
    return CAUSES[cause](of, cases)


def sent_again(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A client sends a record again when its request times out, a connection breaks, or a broker returns an error.

    A time-out takes at least ``request.timeout.ms`` from send to answer. The others need a disturbance in between: a
    fault, or a change of the partition's leader or ISR (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND).
    """
    if of.told_names is not None:
        nowhere = np.zeros(cases.values.size, dtype=np.bool_)
        return Ruling(nowhere, ~nowhere, _NOT_IMPORTED)
    values = cases.values if cases.again is None else cases.again
    _, sent_ns, done_ns = Sent.of(of, values)
    limits = np.array([of.request_timeouts_ns.get(name, NULL) for name in of.names.listed] + [NULL], dtype=np.int64)
    limit_ns = limits[producer_of(values)]
    timed = sent_ns > 0
    late = timed & (limit_ns != NULL) & (done_ns - sent_ns >= limit_ns - SLACK_NS)
    decided = [state.t_ns for state in of.facts.states[1:] if state.t_ns is not None]
    changes = [(t_ns - CLOCK_NS, t_ns + SETTLE_NS) for t_ns in decided]
    brought = late | (timed & _meets([*of.disturbances, *changes], sent_ns, done_ns))
    missing: dict[str, Bools] = {
        "the ledger does not say when the record was sent": ~timed,
        "nothing says after which time the client sends a record again": timed & (limit_ns == NULL),
    }
    states = of.facts.states
    for hole in holes(of):
        from_ns = states[hole.first].t_ns or 0 if hole.first >= 0 else 0
        until_ns = states[hole.last].t_ns if hole.last < len(states) else None
        missing[hole.why] = (done_ns >= from_ns) & (until_ns is None or sent_ns <= until_ns)
    return _ruling(brought, missing)


def _meets(spans: Sequence[tuple[int, int]], from_ns: Ints, until_ns: Ints) -> Bools:
    begins, ends = (np.sort(np.array([span[side] for span in spans], dtype=np.int64)) for side in (0, 1))
    begun = np.searchsorted(begins, until_ns, side="right")
    over = np.searchsorted(ends, from_ns, side="left")
    meets: Bools = begun > over
    return meets


def never_read(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A record without an acknowledgement may never have reached a broker, unless a reader received it."""
    return _ruling(places(np.unique(of.polls.value), cases.values) < 0, {})


def short_isr(of: PartitionEvidence, cases: Cases) -> Ruling:
    """At the final drain the ISR was below min.insync.replicas, so that the high watermark did not move."""
    states, everywhere = of.facts.states, np.ones(cases.values.size, dtype=np.bool_)
    drained = of.polls.received_ns[of.polls.pass_ == FINAL]
    from_ns, until_ns = int(drained.min(initial=FOREVER_NS)) - SETTLE_NS, int(drained.max(initial=0))
    if not drained.size:
        return Ruling(~everywhere, everywhere, f"nothing of {of.where} was drained")
    for hole in holes(of):
        end_ns = states[hole.last].t_ns if hole.last < len(states) else None
        if end_ns is None or end_ns >= from_ns:
            return Ruling(~everywhere, everywhere, hole.why)
    short = any(
        len(state.isr) < at_most_all(of.facts.effective_min_isr, state)
        for state, since_ns, to_ns in of.facts.stretches
        if since_ns <= until_ns and to_ns >= from_ns
    )
    return _ruling(everywhere & short, {})


def copier_began_anew(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A copier resumes at its group's committed offset when it starts, or after an error. A fault that began before the
    copy was first seen may have caused that; the copier does not record when it resumes.
    """
    shown_ns = np.full(cases.values.size, NULL) if cases.shown_ns is None else cases.shown_ns
    first_ns = min((begun_ns for begun_ns, _ in of.faults), default=FOREVER_NS)
    brought = (shown_ns != NULL) & (first_ns <= shown_ns)
    if not of.faults:
        return Ruling(brought, ~brought, "the copier does not record when it begins anew, and there was no fault")
    missing: dict[str, Bools] = {
        "the time at which the second copy was written is unknown": shown_ns == NULL,
        "the copier does not record when it begins anew, and the second copy precedes every fault": shown_ns != NULL,
    }
    return _ruling(brought, missing)


def _ruling(brought: Bools, missing: Mapping[str, Bools]) -> Ruling:
    open_ones = {why: rows & ~brought for why, rows in missing.items() if (rows & ~brought).any()}
    undecided = np.any([np.zeros(brought.size, dtype=np.bool_), *open_ones.values()], axis=0)
    return Ruling(brought, undecided, "; ".join(open_ones))


def _drained_at(of: PartitionEvidence, values: Ints) -> Ints:
    rows = np.flatnonzero(of.polls.pass_ == FINAL)
    found, first = np.unique(of.polls.value[rows], return_index=True)
    offsets: Ints = of.polls.offset[rows[first]][places(found, values)]
    return offsets


def member_ended(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A member ended or was paused after it had requested a commit past the record, answered or not, and before it read
    on past the record. A member processes what it polled in order.
    """
    group, brought = of.group, np.zeros(cases.values.size, dtype=np.bool_)
    if group is None or not cases.values.size:
        return _ruling(brought, {})
    offsets = _drained_at(of, cases.values)
    for (member,), own in groups(group.commits.member):
        commits = group.commits.take(own)
        passed = np.searchsorted(np.maximum.accumulate(commits.offset), offsets, side="right")
        for commit in np.unique(passed[passed < own.size]).tolist():
            rows = passed == commit
            brought[rows] |= _left(of, group, member, int(commits.asked_ns[commit]), offsets[rows])
    return _ruling(brought, {})


def _left(of: PartitionEvidence, group: GroupEvidence, member: int, asked_ns: int, offsets: Ints) -> Bools:
    """Return which records a member may not have processed."""
    node = of.names.listed[member].rpartition(".")[0]
    ended_ns = min((t_ns for name, t_ns in group.ended if name == node and t_ns >= asked_ns), default=None)
    if ended_ns is None:
        return np.zeros(offsets.size, dtype=np.bool_)
    reads = group.reads_of.get(member)
    if reads is None:
        return np.ones(offsets.size, dtype=np.bool_)
    meanwhile = (reads.received_ns > asked_ns) & (reads.received_ns <= ended_ns)
    left: Bools = offsets >= reads.last[meanwhile].max(initial=NULL)
    return left


def released(of: PartitionEvidence, cases: Cases) -> Ruling:
    """Members requested the release of a record at least as often as it may be delivered."""
    share = of.share
    if share is None or not cases.values.size:
        return _ruling(np.zeros(cases.values.size, dtype=np.bool_), {})
    offsets = _drained_at(of, cases.values)
    asked = share.asked.offset[share.asked.kind == RELEASE]
    times = np.searchsorted(asked, offsets, side="right") - np.searchsorted(asked, offsets)
    return _ruling(times >= share.facts.delivery_limit, {})


CAUSES: Mapping[str, Callable[[PartitionEvidence, Cases], Ruling]] = {
    SENT_AGAIN: sent_again,
    NEVER_READ: never_read,
    SHORT_ISR: short_isr,
    COPIER_BEGAN_ANEW: copier_began_anew,
    MEMBER_ENDED: member_ended,
    RELEASED: released,
}
