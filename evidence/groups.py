"""Consumer group members' reads, commits and ownership of one partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evidence.columns import FAILED, NULL, Bools, Codes, Columns, Ints, Names, column, enumerated, groups, ints

CHANGES = ("assigned", "revoked", "lost")
ASSIGNED = 0


@dataclass(frozen=True)
class Reads(Columns):
    """One partition's rows of ``history.tables.GROUP_READS``, by time."""

    order = ("received_ns",)
    member: Codes
    first: Ints = field(metadata=column("first_offset"))
    last: Ints = field(metadata=column("last_offset"))
    received_ns: Ints


@dataclass(frozen=True)
class Commits(Columns):
    """One partition's rows of ``history.tables.COMMITS``, by request time."""

    order = ("asked_ns",)
    member: Codes
    offset: Ints
    asked_ns: Ints
    answered_ns: Ints  # NULL: the request's row
    refused: Bools = field(metadata=FAILED)

    @property
    def taken(self) -> Commits:
        return self.take((self.answered_ns != NULL) & ~self.refused)


class Ownership(NamedTuple):
    """When a member owned a partition, until it released or last used it."""

    member: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class GroupEvidence:
    """Evidence about a consumer group."""

    reads: Reads
    commits: Commits
    owned: Sequence[Ownership]
    facts: GroupFacts

    @cached_property
    def taken(self) -> Commits:
        return self.commits.taken

    @cached_property
    def reads_of(self) -> Mapping[int, Reads]:
        return {member: self.reads.take(rows) for (member,), rows in groups(self.reads.member)}

    @cached_property
    def commits_of(self) -> Mapping[int, Commits]:
        return {member: self.commits.take(rows) for (member,), rows in groups(self.commits.member)}

    @cached_property
    def taken_of(self) -> Mapping[int, Commits]:
        return {member: self.taken.take(rows) for (member,), rows in groups(self.taken.member)}


class GroupFacts(NamedTuple):
    """Facts about a topic that a consumer group reads.

    ``ended``: members that a fault ended or paused, as (node, since). ``commits_ahead``: before processing.
    """

    topic: str
    session_ns: int
    ended: tuple[tuple[str, int], ...] = ()
    commits_ahead: bool = False


def ownerships(rebalances: pa.Table, reads: Reads, commits: Commits, names: Names) -> list[Ownership]:
    """Return ownerships from rows of ``history.tables.REBALANCES``."""
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
    for who, since_ns in begun.items():  # killed, or owner until the end
        used_ns = [*reads.received_ns[reads.member == who][-1:], *commits.asked_ns[commits.member == who][-1:]]
        found.append(Ownership(who, since_ns, max([since_ns, *map(int, used_ns)])))
    return sorted(found, key=lambda owned: owned.from_ns)
