"""Check a consumer group on one partition: starts, commits, owners.

A member paused beyond its session may process what it had fetched; only its commits are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from evidence.columns import FINAL, Ints, covered
from evidence.groups import Commits, GroupEvidence, Ownership, Reads
from evidence.partition import PartitionEvidence
from judge.checks.findings import Cases, Check, Checks, columns_of, gathered
from judge.checks.records import record


def group_skip(of: PartitionEvidence) -> Cases:
    """A record below the group's committed offset that no member read, or will: a group resumes there (documentation of
    Kafka's Consumer). Sound: a member records reads before it commits. Permitted if members commit ahead of processing
    (at-most-once).
    """
    group, drained = of.group, (of.polls.pass_ == FINAL) & (of.polls.value >= 0)
    if group is None or not of.clean:
        drained = np.zeros(len(of.polls), dtype=np.bool_)
    offsets, values = of.polls.offset[drained], of.polls.value[drained]
    committed, skipped = 0, _NONE
    if group is not None:
        committed = int(group.taken.offset.max(initial=0))
        skipped = np.flatnonzero((offsets < committed) & ~covered(group.reads.first, group.reads.last, offsets))
    skipped = skipped[np.argsort(offsets[skipped], kind="stable")]

    def example(place: int) -> Mapping[str, Any]:
        offset = int(offsets[skipped[place]])
        name = record(of.names, values[skipped[place]])
        words = f"{name} at offset {offset} was read by no member; the group has committed up to {committed}."
        return {"offset": offset, "explanation": words, "evidence": {"committed": committed}}

    return Cases("group_skip", values[skipped], example)


_NONE = np.empty(0, dtype=np.int64)


@gathered
def i29_starts_at_committed(of: PartitionEvidence) -> Iterator[Check]:
    """I29 (at-least-once). From the group's committed offset (without one: auto.offset.reset) to the owner's start: its
    first record read or, unless the group commits ahead of processing, an earlier requested commit beyond its reads.
    Sound: the owner fetched the committed offset before, at most the largest that any member had requested to commit.
    """
    group = _group(of)
    drained = np.sort(of.polls.offset[of.polls.pass_ == FINAL])
    asked = np.maximum.accumulate(group.commits.offset) if len(group.commits) else _NONE
    for owned in group.owned:
        if (began := _began(group, owned)) is None:
            continue
        began_ns, first = began
        before = int(np.searchsorted(group.commits.asked_ns, began_ns)) - 1
        committed = int(asked[before]) if before >= 0 else 0
        passed = int(np.searchsorted(drained, first) - np.searchsorted(drained, committed)) if first > committed else 0
        evidence = {"member": _name(of, owned), "committed": committed, "started": first, "skipped": passed}
        yield Check(began_ns, passed > 0, evidence)


def _began(group: GroupEvidence, owned: Ownership) -> tuple[int, int] | None:
    found, read_to = [], 0
    if (reads := group.reads_of.get(owned.member)) is not None:
        at = int(np.searchsorted(reads.received_ns, owned.from_ns))
        read_to = int(reads.last[:at].max(initial=-1)) + 1
        found += [(int(reads.received_ns[at]), int(reads.first[at]))] if at < len(reads) else []
    if not group.facts.commits_ahead and (commits := group.commits_of.get(owned.member)) is not None:
        at = int(np.searchsorted(commits.asked_ns, owned.from_ns))
        beyond = at < len(commits) and commits.offset[at] > read_to
        found += [(int(commits.asked_ns[at]), int(commits.offset[at]))] if beyond else []
    return min((each for each in found if each[0] <= owned.to_ns), default=None)


@gathered
def i30_rereads_uncommitted_only(of: PartitionEvidence) -> Iterator[Check]:
    """I30 (at-least-once). Nothing below an offset committed before its assignment. Sound: it receives that offset, or
    a later one, if the commit was answered before the assignment.
    """
    group = _group(of)
    taken = group.taken
    answered, highest = _highest_answered(taken)
    for owned, reads in _read_by_owners(group):
        before = int(np.searchsorted(answered, owned.from_ns)) - 1
        if before < 0:
            continue
        row = int(np.argmin(reads.first))
        first, committed = int(reads.first[row]), int(highest[before])
        evidence = {"member": _name(of, owned), "committed": committed, "read": first}
        yield Check(int(reads.received_ns[row]), first < committed, evidence)


def i31_commits_never_fall(of: PartitionEvidence) -> Checks:
    """I31 (at-least-once). A commit is not below one answered before it was requested. No step resets the offsets.
    Sound: owners start at the committed offset and read upwards, and the coordinator rejects a former member
    (ILLEGAL_GENERATION; KIP-848: STALE_MEMBER_EPOCH).
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


@gathered
def i32_one_owner(of: PartitionEvidence) -> Iterator[Check]:
    """I32 (at-least-once). No commit of an earlier owner succeeds after the next owner's start, and no earlier owner
    that the coordinator can reach still has the partition. Sound: a member gives the partition up before the next one
    receives it (KIP-429, KIP-848), or its session ends. A member counts as unreachable within two session time-outs
    after a fault, and after one without a read.
    """
    group = _group(of)
    last: Ownership | None = None  # the earlier one that ends last
    for owned in group.owned:
        if last is not None and last.member != owned.member:
            late = _late_commit(group, last, owned)
            both = last.to_ns > owned.from_ns and not _excused(of, last, owned)
            evidence = {
                "owner": _name(of, last),
                "until_ns": last.to_ns,
                "next_owner": _name(of, owned),
                "committed": late,
            }
            yield Check(owned.from_ns, late is not None or both, evidence)
        if last is None or owned.to_ns >= last.to_ns:
            last = owned


def _late_commit(group: GroupEvidence, last: Ownership, owned: Ownership) -> int | None:
    """Return an offset that an owner committed after the next one received the partition."""
    taken = group.taken_of.get(last.member)
    if taken is None:
        return None
    first = int(np.searchsorted(taken.asked_ns, owned.from_ns, side="right"))
    return int(taken.offset[first]) if first < len(taken) and taken.asked_ns[first] <= last.to_ns else None


def _excused(of: PartitionEvidence, last: Ownership, owned: Ownership) -> bool:
    """Return whether an owner may have been out of its coordinator's reach by then."""
    group = _group(of)
    since_ns = owned.from_ns - 2 * group.facts.session_ns
    if any(begun <= owned.from_ns and ended >= since_ns for begun, ended in of.run.active_faults):
        return True
    reads = group.reads_of.get(last.member)
    before = int(np.searchsorted(reads.received_ns, owned.from_ns, side="right")) if reads else 0
    return reads is None or not before or int(reads.received_ns[before - 1]) < owned.from_ns - group.facts.session_ns


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
