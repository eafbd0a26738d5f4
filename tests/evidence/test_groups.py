"""The records of a group's members as columns."""

import pyarrow as pa

from evidence.columns import Names
from evidence.groups import Commits, Reads, ownerships
from history.tables import COMMITS, GROUP_READS, REBALANCES
from tests.evidence.folders import TP


def test_who_owned_a_partition_and_when():
    """A member owns a partition until it revokes or loses it, and otherwise until its last read or commit."""
    names = Names()
    reads = [{"member": "b", **TP, "first_offset": 0, "last_offset": 3, "received_ns": 55}]
    commits = [{"member": "c", **TP, "number": 0, "offset": 3, "asked_ns": 77}]
    changes = [("a", "assigned", 10), ("a", "revoked", 20), ("b", "assigned", 30), ("a", "assigned", 40)]
    changes += [("a", "lost", 50), ("c", "assigned", 60), ("d", "assigned", 70)]
    told = [{"member": member, **TP, "change": change, "changed_ns": at} for member, change, at in changes]
    read = Reads.of(pa.Table.from_pylist(reads, GROUP_READS), names)
    committed = Commits.of(pa.Table.from_pylist(commits, COMMITS), names)

    found = ownerships(pa.Table.from_pylist(told, REBALANCES), read, committed, names)

    assert [(names.listed[owned.member], owned.from_ns, owned.to_ns) for owned in found] == [
        ("a", 10, 20),
        ("b", 30, 55),
        ("a", 40, 50),
        ("c", 60, 77),
        ("d", 70, 70),
    ]


def test_a_commit_counts_as_taken_by_its_answer():
    """A commit counts from its answer, not from its request, and not if it was rejected."""
    row = {"member": "a", **TP, "number": 0, "offset": 3, "asked_ns": 1}
    rows = [row, row | {"answered_ns": 2}, row | {"answered_ns": 3, "error": "ILLEGAL_GENERATION"}]

    commits = Commits.of(pa.Table.from_pylist(rows, COMMITS), Names())

    assert commits.taken.answered_ns.tolist() == [2]
