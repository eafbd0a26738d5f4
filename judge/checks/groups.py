"""Check a consumer group on one partition: starts, commits, owners.

A member paused beyond its session may process what it had fetched; only its commits are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from evidence.columns import FINAL, Bools, Ints
from evidence.groups import Commits, GroupEvidence, Ownership, Reads
from evidence.partition import PartitionEvidence
from judge.checks.findings import Cases, Check, Checks, checks_of, columns_of
from judge.checks.records import record


def group_skip(of: PartitionEvidence) -> Cases:
    """A record below an offset that the group committed, and that no member read. A group resumes at its committed
    offset (documentation of Kafka's Consumer), so no member will read it.

    Sound because a member records what it read before it commits it. Permitted if members commit ahead of processing,
    which is at-most-once.
    """
    group, drained = of.group, (of.polls.pass_ == FINAL) & (of.polls.value >= 0)
    if group is None or not of.clean:
        drained = np.zeros(len(of.polls), dtype=np.bool_)
    offsets, values = of.polls.offset[drained], of.polls.value[drained]
    committed = _highest(group.taken.offset) if group else 0
    skipped = np.flatnonzero((offsets < committed) & ~_covered(group.reads, offsets)) if group else _NONE
    skipped = skipped[np.argsort(offsets[skipped], kind="stable")]

    def example(place: int) -> Mapping[str, Any]:
        offset = int(offsets[skipped[place]])
        name = record(of.names, values[skipped[place]])
        words = f"{name} at offset {offset} was read by no member; the group has committed up to {committed}."
        return {"offset": offset, "explanation": words, "evidence": {"committed": committed}}

    return Cases("group_skip", values[skipped], example)


_NONE = np.empty(0, dtype=np.int64)


def _highest(offsets: Ints) -> int:
    return int(offsets.max()) if offsets.size else 0


def _covered(reads: Reads, offsets: Ints) -> Bools:
    if not len(reads):
        return np.zeros(offsets.size, dtype=np.bool_)
    order = np.argsort(reads.first, kind="stable")
    first, furthest = reads.first[order], np.maximum.accumulate(reads.last[order])
    at = np.searchsorted(first, offsets, side="right") - 1
    found: Bools = (at >= 0) & (furthest[at] >= offsets)
    return found


def i29_starts_at_committed(of: PartitionEvidence) -> Checks:
    """I29, all versions; serves at-least-once processing. A new owner skips no record between the group's committed
    offset (without a commit: the log's beginning, as auto.offset.reset configures) and the offset at which it starts.

    The owner's start is its first record read, or, if earlier, its first requested commit beyond everything that it has
    read; the latter not for a group that commits ahead of processing. Sound because the owner fetched the committed
    offset before its start, and that is at most the largest offset that any member had requested to commit by then.
    """
    group = _group(of)
    drained = np.sort(of.polls.offset[of.polls.pass_ == FINAL])
    asked = np.maximum.accumulate(group.commits.offset) if len(group.commits) else _NONE
    found = []
    for owned in group.owned:
        if (began := _began(group, owned)) is None:
            continue
        began_ns, first = began
        before = int(np.searchsorted(group.commits.asked_ns, began_ns)) - 1
        committed = int(asked[before]) if before >= 0 else 0
        passed = int(np.searchsorted(drained, first) - np.searchsorted(drained, committed)) if first > committed else 0
        evidence = {"member": _name(of, owned), "committed": committed, "started": first, "skipped": passed}
        found.append(Check(began_ns, passed > 0, evidence))
    return checks_of(found)


def _began(group: GroupEvidence, owned: Ownership) -> tuple[int, int] | None:
    found, read_to = [], 0
    if (reads := group.reads_of.get(owned.member)) is not None:
        at = int(np.searchsorted(reads.received_ns, owned.from_ns))
        read_to = int(reads.last[:at].max(initial=-1)) + 1
        found += [(int(reads.received_ns[at]), int(reads.first[at]))] if at < len(reads) else []
    if not group.commits_ahead and (commits := group.commits_of.get(owned.member)) is not None:
        at = int(np.searchsorted(commits.asked_ns, owned.from_ns))
        beyond = at < len(commits) and commits.offset[at] > read_to
        found += [(int(commits.asked_ns[at]), int(commits.offset[at]))] if beyond else []
    return min((each for each in found if each[0] <= owned.to_ns), default=None)


def i30_rereads_uncommitted_only(of: PartitionEvidence) -> Checks:
    """I30, all versions; serves at-least-once processing. An owner reads nothing below an offset that was committed
    before the owner's assignment, so that only uncommitted records are read twice.

    Sound because the new owner receives that offset, or a later one, if the commit was answered before the assignment.
    """
    group = _group(of)
    taken = group.taken
    answered, highest = _highest_answered(taken)
    found = []
    for owned, reads in _read_by_owners(group):
        before = int(np.searchsorted(answered, owned.from_ns)) - 1
        if before < 0:
            continue
        row = int(np.argmin(reads.first))
        first, committed = int(reads.first[row]), int(highest[before])
        evidence = {"member": _name(of, owned), "committed": committed, "read": first}
        found.append(Check(int(reads.received_ns[row]), first < committed, evidence))
    return checks_of(found)


def i31_commits_never_fall(of: PartitionEvidence) -> Checks:
    """I31, all versions; serves at-least-once processing. The offset of a successful commit is not below that of a
    commit that was answered before this one was requested. No step of the run resets the group's offsets.

    Sound because owners start at the committed offset and read upwards, and the coordinator rejects a former member
    (classic: ILLEGAL_GENERATION; KIP-848: STALE_MEMBER_EPOCH).
    """
    group = _group(of)
    taken = group.taken
    answered, highest = _highest_answered(taken)
    before = np.searchsorted(answered, taken.asked_ns) - 1
    later = np.flatnonzero(before >= 0)
    fell = later[taken.offset[later] < highest[before[later]]]
    evidence = columns_of(
        (taken.member[fell], {"member": of.names.listed}),
        (before[fell], {"committed": highest}),
        (fell, {"then": taken.offset}),
    )
    return Checks(int(later.size), taken.asked_ns[fell], evidence)


def i32_one_owner(of: PartitionEvidence) -> Checks:
    """I32, all versions; serves at-least-once processing. A member that receives a partition is its only owner. From
    then on no commit of an earlier owner succeeds, and no earlier owner within the coordinator's reach still has the
    partition.

    Sound because a member gives up a partition before the next one receives it (KIP-429, KIP-848), or its session ends.
    The part about reach is not checked within two sessions after a fault, nor for a member that read nothing for one
    session.
    """
    group = _group(of)
    found = []
    last: Ownership | None = None  # the earlier one that ends last
    for owned in group.owned:
        if last is not None and last.member != owned.member:
            late = _late_commit(group, last, owned)
            both = last.to_ns > owned.from_ns and not _excused(group, last, owned)
            evidence = {
                "owner": _name(of, last),
                "until_ns": last.to_ns,
                "next_owner": _name(of, owned),
                "committed": late,
            }
            found.append(Check(owned.from_ns, late is not None or both, evidence))
        if last is None or owned.to_ns >= last.to_ns:
            last = owned
    return checks_of(found)


def _late_commit(group: GroupEvidence, last: Ownership, owned: Ownership) -> int | None:
    """Return an offset that an owner committed after the next one received the partition."""
    taken = group.taken_of.get(last.member)
    if taken is None:
        return None
    first = int(np.searchsorted(taken.asked_ns, owned.from_ns, side="right"))
    return int(taken.offset[first]) if first < len(taken) and taken.asked_ns[first] <= last.to_ns else None


def _excused(group: GroupEvidence, last: Ownership, owned: Ownership) -> bool:
    """Return whether an owner may have been out of its coordinator's reach by then."""
    since_ns = owned.from_ns - 2 * group.session_ns
    if any(begun <= owned.from_ns and ended >= since_ns for begun, ended in group.faults):
        return True
    reads = group.reads_of.get(last.member)
    before = int(np.searchsorted(reads.received_ns, owned.from_ns, side="right")) if reads else 0
    return reads is None or not before or int(reads.received_ns[before - 1]) < owned.from_ns - group.session_ns


def _group(of: PartitionEvidence) -> GroupEvidence:
    if of.group is None:
        raise ValueError("no group")
    return of.group


def _name(of: PartitionEvidence, owned: Ownership) -> str:
    return of.names.listed[owned.member]


def _read_by_owners(group: GroupEvidence) -> Iterator[tuple[Ownership, Reads]]:
    for owned in group.owned:
        if reads := group.reads_of.get(owned.member):
            first = np.searchsorted(reads.received_ns, owned.from_ns)
            own = reads.take(slice(first, np.searchsorted(reads.received_ns, owned.to_ns, side="right")))
            if own:
                yield owned, own


def _highest_answered(taken: Commits) -> tuple[Ints, Ints]:
    """Return the answer times, and the largest offset committed by each."""
    order = np.argsort(taken.answered_ns, kind="stable")
    offsets = taken.offset[order]
    return taken.answered_ns[order], np.maximum.accumulate(offsets) if offsets.size else offsets
