"""What members of a consumer group recorded of one partition: what each read, committed, and when it owned it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.columns import NULL, Bools, Codes, Columns, Ints, Names, bools, enumerated, groups, ints

CHANGES = ("assigned", "revoked", "lost")
ASSIGNED = 0


@dataclass(frozen=True)
class Reads(Columns):
    """Rows of ``history.tables.GROUP_READS`` of one partition, by time."""

    member: Codes  # of ``names``
    first: Ints
    last: Ints
    received_ns: Ints

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        found = cls(
            member=names.codes(table["member"]),
            first=ints(table["first_offset"]),
            last=ints(table["last_offset"]),
            received_ns=ints(table["received_ns"]),
        )
        return found.take(np.argsort(found.received_ns, kind="stable"))


@dataclass(frozen=True)
class Commits(Columns):
    """Rows of ``history.tables.COMMITS`` of one partition, by the time at which they were asked for."""

    member: Codes  # of ``names``
    offset: Ints
    asked_ns: Ints
    answered_ns: Ints  # NULL: the row of the asking
    refused: Bools

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        found = cls(
            member=names.codes(table["member"]),
            offset=ints(table["offset"]),
            asked_ns=ints(table["asked_ns"]),
            answered_ns=ints(table["answered_ns"]),
            refused=bools(pc.is_valid(table["error"])),
        )
        return found.take(np.argsort(found.asked_ns, kind="stable"))

    @property
    def taken(self) -> Commits:
        """Those that the coordinator took."""
        return self.take((self.answered_ns != NULL) & ~self.refused)


class Ownership(NamedTuple):
    """From when to when a member took a partition for its own: until it gave it up, or was last seen to use it."""

    member: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class GroupEvidence:
    """``owned`` in the order of their beginnings. ``faults`` are the times in which some fault of the run was active; a
    member that its coordinator does not hear for ``session_ns`` loses its partitions. The rest is as in ``GroupFacts``.
    """

    reads: Reads
    commits: Commits
    owned: Sequence[Ownership]
    session_ns: int
    faults: Sequence[tuple[int, int]] = ()
    ended: Sequence[tuple[str, int]] = ()
    commits_ahead: bool = False

    @cached_property
    def taken(self) -> Commits:
        """The commits that the coordinator took."""
        return self.commits.taken

    @cached_property
    def reads_of(self) -> Mapping[int, Reads]:
        """The reads of each member."""
        return {member: self.reads.take(rows) for (member,), rows in groups(self.reads.member)}

    @cached_property
    def commits_of(self) -> Mapping[int, Commits]:
        """The commits of each member, those without an answer among them."""
        return {member: self.commits.take(rows) for (member,), rows in groups(self.commits.member)}

    @cached_property
    def taken_of(self) -> Mapping[int, Commits]:
        """The commits of each member that the coordinator took."""
        return {member: self.taken.take(rows) for (member,), rows in groups(self.taken.member)}


class GroupFacts(NamedTuple):
    """What holds for every partition of ``topic``, which a consumer group reads. ``ended`` are the members that a fault
    ended or paused, each by its node's name and from when on. ``commits_ahead``: members commit what they have not
    processed yet.
    """

    topic: str
    session_ns: int
    ended: tuple[tuple[str, int], ...] = ()
    commits_ahead: bool = False


def ownerships(rebalances: pa.Table, reads: Reads, commits: Commits, names: Names) -> list[Ownership]:
    """Who owned a partition when, of rows of ``history.tables.REBALANCES``."""
    member, changed_ns = names.codes(rebalances["member"]), ints(rebalances["changed_ns"])
    change = enumerated(rebalances["change"], CHANGES, "change")
    begun: dict[int, int] = {}
    found = []
    for row in np.argsort(changed_ns, kind="stable").tolist():
        who, at_ns = int(member[row]), int(changed_ns[row])
        since_ns = begun.pop(who, None)
        if since_ns is not None:
            found.append(Ownership(who, since_ns, at_ns))
        if change[row] == ASSIGNED:
            begun[who] = at_ns
    for who, since_ns in begun.items():  # killed, or owner to the end
        used_ns = [*reads.received_ns[reads.member == who][-1:], *commits.asked_ns[commits.member == who][-1:]]
        found.append(Ownership(who, since_ns, max([since_ns, *map(int, used_ns)])))
    return sorted(found, key=lambda owned: owned.from_ns)
