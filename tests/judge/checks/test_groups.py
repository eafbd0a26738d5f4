"""What a consumer group may do with one partition, and what it must not."""

from dataclasses import replace

import pyarrow as pa
import pytest

from evidence.columns import Names
from evidence.groups import Commits, GroupEvidence, GroupFacts, Reads, ownerships
from history.tables import COMMITS, GROUP_READS, REBALANCES
from judge.checks import groups
from tests.evidence.folders import TP, S, polled
from tests.evidence.partitions import evidence, explanations, offsets
from tests.evidence.probed import counted

A, B = "member-1.1", "member-2.1"


def read(member, first, last, at_s):
    """Return a stretch that a member read."""
    return {"member": member, **TP, "first_offset": first, "last_offset": last, "received_ns": int(at_s * S)}


def told(member, change, at_s):
    """Return a rebalance as a member's library reported it."""
    return {"member": member, **TP, "change": change, "changed_ns": int(at_s * S)}


def commit(member, offset, asked_s, answered_s=None, error=None):
    """Return the rows of a commit: its request and its answer."""
    asked = {"member": member, **TP, "number": 0, "offset": offset, "asked_ns": int(asked_s * S)}
    answer = asked | {"answered_ns": int(answered_s * S), "error": error} if answered_s else None
    return [asked, *([answer] if answer else [])]


def partition(reads, rebalances=(), commits=(), *, faults=(), drained=range(10), **known):
    """Return evidence of a group with a session time-out of 6 s; the final drain found ten records."""
    of = evidence(polls=[polled(offset, offset) for offset in drained], active_faults=faults, **known)
    names: Names = of.names
    read_ = Reads.of(pa.Table.from_pylist(list(reads), GROUP_READS), names)
    rows = [row for each in commits for row in each]
    committed = Commits.of(pa.Table.from_pylist(rows, COMMITS), names)
    owned = ownerships(pa.Table.from_pylist(list(rebalances), REBALANCES), read_, committed, names)
    return replace(of, group=GroupEvidence(read_, committed, owned, GroupFacts("orders", 6 * S)))


HANDED = [told(A, "assigned", 1), told(A, "revoked", 3), told(B, "assigned", 4)]
READ_ON = [read(A, 0, 4, 2), read(B, 5, 9, 5)]
COMMITTED = [commit(A, 5, 2.5, 2.6), commit(B, 10, 6, 6.1)]


def test_group_skip():
    """A record below a committed offset that no member read is skipped; above it the record may still be read."""
    missing = [read(A, 0, 3, 2), read(B, 5, 9, 5)]
    assert offsets(groups.group_skip(partition(missing, commits=COMMITTED))) == [4]
    assert offsets(groups.group_skip(partition(missing, commits=[commit(A, 4, 2, 2.1)]))) == []
    assert offsets(groups.group_skip(partition(READ_ON, commits=COMMITTED))) == []


def test_group_skip_names_the_record_and_what_is_committed():
    """The explanation of a skip has the record and the committed offset."""
    skipped = groups.group_skip(partition([read(A, 0, 8, 2)], commits=[commit(A, 10, 2, 2.1)]))

    assert explanations(skipped) == [
        "Record load-1/9 at offset 9 was read by no member; the group has committed up to 10."
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"drained": [0, 1, 2, 3, 5, 6, 7, 8, 9]},  # a marker, or compacted away
        {"clean": False},  # the record may have taken the place of one that was read
        {"reads": [read(B, 0, 9, 2), read(A, 3, 3, 5)]},  # the other member's stretch covers it
        {"commits": [commit(A, 10, 2)]},  # unknown whether the commit was applied
        {"commits": [commit(A, 10, 2, 2.1, "ILLEGAL_GENERATION")]},
    ],
)
def test_group_skip_needs_a_record_and_a_commit(change):
    """A skip needs a record at the offset, a confirmed commit above it, and no reader."""
    given = {"reads": [read(A, 0, 3, 2), read(B, 5, 9, 5)], "commits": COMMITTED} | change
    assert offsets(groups.group_skip(partition(**given))) == []


def test_group_skip_says_nothing_without_a_group():
    """Without a group there is no skip."""
    assert offsets(groups.group_skip(evidence(polls=[polled(0, 0)]))) == []


def test_i29_a_new_owner_starts_at_the_committed_offset():
    """I29 is violated if a new owner starts above the committed offset and skips a record."""
    late = [read(A, 0, 4, 2), read(B, 6, 9, 5)]
    assert counted(groups.i29_starts_at_committed(partition(late, HANDED, COMMITTED))) == (2, 1)
    assert counted(groups.i29_starts_at_committed(partition(READ_ON, HANDED, COMMITTED))) == (2, 0)
    marker = partition(late, HANDED, COMMITTED, drained=[0, 1, 2, 3, 4, 6, 7])
    assert counted(groups.i29_starts_at_committed(marker)) == (2, 0)


def test_i29_an_owner_may_show_by_a_commit_where_it_starts():
    """For I29, an owner's first commit shows where it started; commits of records that it read do not count."""
    reads = [read(A, 0, 4, 2), read(B, 6, 9, 6)]
    of_a = commit(A, 5, 2.5, 2.6)
    assert counted(groups.i29_starts_at_committed(partition(reads, HANDED, [of_a, commit(B, 6, 5)]))) == (2, 1)
    assert counted(groups.i29_starts_at_committed(partition(reads[:1], HANDED, [of_a, commit(B, 6, 4)]))) == (2, 1)
    assert counted(groups.i29_starts_at_committed(partition(reads[:1], HANDED, [of_a, commit(B, 5, 4)]))) == (2, 0)
    ahead = partition(reads[:1], HANDED, [of_a, commit(B, 6, 4)])
    object.__setattr__(ahead, "group", replace(ahead.group, facts=ahead.group.facts._replace(commits_ahead=True)))
    assert counted(groups.i29_starts_at_committed(ahead)) == (1, 0)
    back = [*HANDED[:2], told(A, "assigned", 4)]
    assert counted(groups.i29_starts_at_committed(partition(reads[:1], back, [commit(A, 5, 5)]))) == (1, 0)


def test_i29_a_commit_without_an_answer_may_have_been_taken():
    """I29 accepts a start at an unanswered commit's offset, if that commit was sent before the owner's first read."""
    late = [read(A, 0, 4, 2), read(B, 6, 9, 5)]
    assert counted(groups.i29_starts_at_committed(partition(late, HANDED, [commit(A, 6, 2)]))) == (2, 0)
    assert counted(groups.i29_starts_at_committed(partition(late, HANDED, [commit(A, 6, 6, 7)]))) == (2, 1)


def test_i29_without_a_commit_the_log_is_read_from_its_beginning():
    """Without a commit, I29 requires a start at the log's beginning; deleted records do not count."""
    assigned = [told(A, "assigned", 1)]
    assert counted(groups.i29_starts_at_committed(partition([read(A, 3, 9, 2)], assigned))) == (1, 1)
    assert counted(groups.i29_starts_at_committed(partition([read(A, 0, 9, 2)], assigned))) == (1, 0)
    deleted = partition([read(A, 3, 9, 2)], assigned, drained=range(3, 10))
    assert counted(groups.i29_starts_at_committed(deleted)) == (1, 0)


def test_i30_what_is_read_twice_was_not_committed():
    """I30 is violated if an owner reads records that were committed before its assignment."""
    again = [read(A, 0, 6, 2), read(B, 4, 9, 5)]
    assert counted(groups.i30_rereads_uncommitted_only(partition(again, HANDED, [commit(A, 5, 2.5, 2.6)]))) == (1, 1)
    assert counted(groups.i30_rereads_uncommitted_only(partition(again, HANDED, [commit(A, 4, 2.5, 2.6)]))) == (1, 0)
    unanswered = [commit(A, 4, 2, 2.1), commit(A, 5, 2.5)]
    assert counted(groups.i30_rereads_uncommitted_only(partition(again, HANDED, unanswered))) == (1, 0)
    answered_late = [commit(A, 4, 2, 2.1), commit(A, 5, 2.5, 4.5)]
    assert counted(groups.i30_rereads_uncommitted_only(partition(again, HANDED, answered_late))) == (1, 0)


def test_i31_a_commit_never_falls():
    """I31 is violated if a confirmed commit is below an earlier one; overlapping and rejected commits do not count."""
    first = commit(A, 8, 1, 2)
    assert counted(groups.i31_commits_never_fall(partition([], commits=[first, commit(B, 5, 3, 4)]))) == (1, 1)
    assert counted(groups.i31_commits_never_fall(partition([], commits=[first, commit(B, 8, 3, 4)]))) == (1, 0)
    overlapping = [first, commit(B, 5, 1.5, 4), commit(B, 9, 5, 6)]
    assert counted(groups.i31_commits_never_fall(partition([], commits=overlapping))) == (1, 0)
    refused = [first, commit(B, 5, 3, 4, "STALE_MEMBER_EPOCH"), commit(B, 9, 5, 6)]
    assert counted(groups.i31_commits_never_fall(partition([], commits=refused))) == (1, 0)


LATE = [told(A, "assigned", 1), told(A, "revoked", 20), told(B, "assigned", 10)]
BUSY = [read(A, 0, 4, 9), read(A, 5, 5, 11)]


def test_i32_one_owner():
    """I32 is violated if a member keeps a partition after another one got it, without a fault that explains it."""
    assert counted(groups.i32_one_owner(partition(BUSY, LATE))) == (1, 1)
    assert counted(groups.i32_one_owner(partition(READ_ON, HANDED))) == (1, 0)


@pytest.mark.parametrize(
    "given",
    [
        partition(BUSY, LATE, faults=[(0, 5 * S)]),  # its session may have ended meanwhile
        partition([read(A, 0, 4, 3), read(A, 5, 5, 19)], LATE),  # it read nothing for a session
        partition([], [told(A, "assigned", 1), told(B, "assigned", 10)]),  # killed: nothing is seen of it any more
    ],
)
def test_i32_two_owners_are_permitted_while_one_cannot_know(given):
    """I32 accepts reads of fetched records until the member's library reports the loss of the partition."""
    assert counted(groups.i32_one_owner(given)) == (1, 0)


def test_i32_the_commit_of_a_former_owner_is_refused():
    """I32 is violated if a former owner's commit is accepted, unless it was sent before the new assignment."""
    paused = {"faults": [(0, 15 * S)]}
    taken = partition(BUSY, LATE, [commit(A, 5, 19, 19.1)], **paused)
    assert counted(groups.i32_one_owner(taken)) == (1, 1)
    refused = partition(BUSY, LATE, [commit(A, 5, 19, 19.1, "ILLEGAL_GENERATION")], **paused)
    assert counted(groups.i32_one_owner(refused)) == (1, 0)
    before = partition(BUSY, LATE, [commit(A, 5, 9.9, 10.1)], **paused)
    assert counted(groups.i32_one_owner(before)) == (1, 0)
