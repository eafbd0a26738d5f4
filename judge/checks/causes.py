"""Decide whether a permission's cause can explain an anomaly.

If evidence of the cause is missing, the case is undecided. docs/checks.md shows the docstrings of ``CAUSES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evidence.columns import FINAL, NULL, Bools, Ints, groups, positions_in, producer_of
from evidence.facts import FOREVER_NS, SETTLE_NS, SLACK_NS, Cause, at_most_all
from evidence.groups import GroupEvidence
from evidence.partition import PartitionEvidence
from evidence.shares import RELEASE
from evidence.views import CLOCK_NS
from judge.checks.findings import Cases, Ruling
from judge.checks.leader_changes import Loss, Sent, caused_by_losses, history_gaps

_NOT_IMPORTED = (
    "an import does not show whether a client sent a record again (if the producers were idempotent, state "
    "--idempotence true)"
)


def brought_about(of: PartitionEvidence, losses: Sequence[Loss], cases: Cases, cause: str) -> Ruling:
    """Return which cases of an anomaly the cause can explain; ``losses`` are those of the partition."""
    if cause in {Cause.NEW_LEADER, Cause.UNCLEAN_LEADER, Cause.LOST_COPY}:
        return caused_by_losses(of, losses, cases, cause)
    return CAUSES[cause](of, cases)


def sent_again(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A client sends a record again when its request times out, a connection breaks, or a broker returns an error.
    After a time-out, at least ``request.timeout.ms`` passed between send and answer. In the other cases a fault, or a
    change of leader or ISR, came between them (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND).
    """
    if of.imported_names is not None:
        nowhere = np.zeros(cases.values.size, dtype=np.bool_)
        return Ruling(nowhere, ~nowhere, _NOT_IMPORTED)
    values = cases.values if cases.again is None else cases.again
    _, sent_ns, done_ns = Sent.of(of, values)
    limits = np.array([of.run.request_timeouts_ns.get(name, NULL) for name in of.names.listed] + [NULL], dtype=np.int64)
    limit_ns = limits[producer_of(values)]
    timed = sent_ns > 0
    late = timed & (limit_ns != NULL) & (done_ns - sent_ns >= limit_ns - SLACK_NS)
    decided = [state.t_ns for state in of.states[1:] if state.t_ns is not None]
    changes = [(t_ns - CLOCK_NS, t_ns + SETTLE_NS) for t_ns in decided]
    brought = late | (timed & _meets([*of.run.disturbances, *changes], sent_ns, done_ns))
    missing: dict[str, Bools] = {
        "the ledger lacks the time at which the record was sent": ~timed,
        "the client's request timeout is unknown": timed & (limit_ns == NULL),
    }
    states = of.states
    for gap in history_gaps(of):
        from_ns = states[gap.first].t_ns or 0 if gap.first >= 0 else 0
        until_ns = states[gap.last].t_ns if gap.last < len(states) else None
        missing[gap.why] = (done_ns >= from_ns) & (until_ns is None or sent_ns <= until_ns)
    return _ruling(brought, missing)


def _meets(spans: Sequence[tuple[int, int]], from_ns: Ints, until_ns: Ints) -> Bools:
    begins, ends = (np.sort(np.array([span[side] for span in spans], dtype=np.int64)) for side in (0, 1))
    begun = np.searchsorted(begins, until_ns, side="right")
    over = np.searchsorted(ends, from_ns, side="left")
    meets: Bools = begun > over
    return meets


def never_read(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A record without an acknowledgement may never have reached a broker, unless a reader received it."""
    return _ruling(positions_in(np.unique(of.polls.value), cases.values) < 0, {})


def short_isr(of: PartitionEvidence, cases: Cases) -> Ruling:
    """During the final drain the ISR was below min.insync.replicas, so that the high watermark did not move."""
    states, everywhere = of.states, np.ones(cases.values.size, dtype=np.bool_)
    drained = of.polls.received_ns[of.polls.pass_ == FINAL]
    from_ns, until_ns = int(drained.min(initial=FOREVER_NS)) - SETTLE_NS, int(drained.max(initial=0))
    if not drained.size:
        return Ruling(~everywhere, everywhere, f"the final drain returned no record of {of.where}")
    for gap in history_gaps(of):
        end_ns = states[gap.last].t_ns if gap.last < len(states) else None
        if end_ns is None or end_ns >= from_ns:
            return Ruling(~everywhere, everywhere, gap.why)
    short = any(
        len(state.isr) < at_most_all(of.effective_min_isr, state)
        for state, since_ns, to_ns in of.stretches
        if since_ns <= until_ns and to_ns >= from_ns
    )
    return _ruling(everywhere & short, {})


def copier_resumed(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A copier resumes at its group's committed offset when it starts or after an error, and copies records after
    that offset again. The error needs a fault that began before the second copy was first seen.
    """
    shown_ns = np.full(cases.values.size, NULL) if cases.shown_ns is None else cases.shown_ns
    first_ns = min((begun_ns for begun_ns, _ in of.run.active_faults), default=FOREVER_NS)
    brought = (shown_ns != NULL) & (first_ns <= shown_ns)
    if not of.run.active_faults:
        return Ruling(brought, ~brought, "the copier does not record its restarts, and there was no fault")
    missing: dict[str, Bools] = {
        "the time at which the second copy was written is unknown": shown_ns == NULL,
        "the copier does not record its restarts, and the second copy precedes every fault": shown_ns != NULL,
    }
    return _ruling(brought, missing)


def _ruling(brought: Bools, missing: Mapping[str, Bools]) -> Ruling:
    open_ones = {why: rows & ~brought for why, rows in missing.items() if (rows & ~brought).any()}
    undecided = np.any([np.zeros(brought.size, dtype=np.bool_), *open_ones.values()], axis=0)
    return Ruling(brought, undecided, "; ".join(open_ones))


def _drained_at(of: PartitionEvidence, values: Ints) -> Ints:
    rows = np.flatnonzero(of.polls.pass_ == FINAL)
    found, first = np.unique(of.polls.value[rows], return_index=True)
    offsets: Ints = of.polls.offset[rows[first]][positions_in(found, values)]
    return offsets


def member_ended(of: PartitionEvidence, cases: Cases) -> Ruling:
    """A member ended or was paused after it had requested a commit beyond the record, and before it polled records
    above it. A member processes the records of a poll in order, so it may have skipped this one.
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
    """Return which records a member may not have processed when it ended."""
    node = of.names.listed[member].rpartition(".")[0]
    ended_ns = min((t_ns for name, t_ns in group.facts.ended if name == node and t_ns >= asked_ns), default=None)
    if ended_ns is None:
        return np.zeros(offsets.size, dtype=np.bool_)
    reads = group.reads_of.get(member)
    if reads is None:
        return np.ones(offsets.size, dtype=np.bool_)
    meanwhile = (reads.received_ns > asked_ns) & (reads.received_ns <= ended_ns)
    left: Bools = offsets >= reads.last[meanwhile].max(initial=NULL)
    return left


def released(of: PartitionEvidence, cases: Cases) -> Ruling:
    """Members requested the release of a record at least as often as the delivery limit of the share group."""
    share = of.share
    if share is None or not cases.values.size:
        return _ruling(np.zeros(cases.values.size, dtype=np.bool_), {})
    offsets = _drained_at(of, cases.values)
    asked = share.asked.offset[share.asked.kind == RELEASE]
    times = np.searchsorted(asked, offsets, side="right") - np.searchsorted(asked, offsets)
    return _ruling(times >= share.facts.delivery_limit, {})


CAUSES: Mapping[str, Callable[[PartitionEvidence, Cases], Ruling]] = {
    Cause.SENT_AGAIN: sent_again,
    Cause.NEVER_READ: never_read,
    Cause.SHORT_ISR: short_isr,
    Cause.COPIER_RESUMED: copier_resumed,
    Cause.MEMBER_ENDED: member_ended,
    Cause.RELEASED: released,
}
