"""What members of a share group recorded of one partition: what each was given, and what became of its
acknowledgements, record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evidence.columns import NULL, Bools, Codes, Columns, Ints, Names, bools, enumerated, ints
from history.share_groups import KINDS

ACCEPT, RELEASE = range(len(KINDS))


@dataclass(frozen=True)
class Deliveries(Columns):
    """A row for each record that a member was given, by offset and then by time."""

    offset: Ints
    member: Codes  # of ``names``
    count: Ints  # of deliveries, as the broker told; NULL: it did not
    since_ns: Ints  # the record was fetched after that
    received_ns: Ints

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        """Of rows of ``history.tables.SHARE_READS``."""
        rows, offset = _each(table)
        found = cls(
            offset=offset,
            member=names.codes(table["member"])[rows],
            count=ints(table["delivery_count"])[rows],
            since_ns=ints(table["since_ns"])[rows],
            received_ns=ints(table["received_ns"])[rows],
        )
        return found.take(np.lexsort((found.received_ns, found.offset)))


@dataclass(frozen=True)
class Acks(Columns):
    """A row for each record of an acknowledgement as it was asked for, and of each answer, by offset."""

    offset: Ints
    member: Codes  # of ``names``
    kind: NDArray[np.int8]  # of ``history.share_groups.KINDS``
    asked_ns: Ints  # NULL: the row of an answer
    answered_ns: Ints  # NULL: the row of the asking
    refused: Bools

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        """Of rows of ``history.tables.SHARE_ACKS``."""
        rows, offset = _each(table)
        found = cls(
            offset=offset,
            member=names.codes(table["member"])[rows],
            kind=enumerated(table["kind"], KINDS, "kind")[rows],
            asked_ns=ints(table["asked_ns"])[rows],
            answered_ns=ints(table["answered_ns"])[rows],
            refused=bools(pc.is_valid(table["error"]))[rows],
        )
        return found.take(np.argsort(found.offset, kind="stable"))

    @property
    def answered(self) -> Bools:
        found: Bools = self.answered_ns != NULL
        return found


def _each(table: pa.Table) -> tuple[Ints, Ints]:
    """The row of each record of stretches, and its offset."""
    first = ints(table["first_offset"])
    lengths = np.maximum(ints(table["last_offset"]) - first + 1, 0)
    rows = np.repeat(np.arange(first.size), lengths)
    within = np.arange(rows.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return rows, first[rows] + within


class ShareFacts(NamedTuple):
    """What holds for every partition of ``topic``, which a share group reads.

    ``still_ns`` is within what time a waiting record is delivered, ``ended_ns`` when the last member ended that did so
    in order, ``unclean`` are those that did not, ``begun_ns`` when each member was started.
    """

    topic: str
    lock_ns: int
    still_ns: int
    delivery_limit: int
    ended_ns: int
    unclean: frozenset[str]
    begun_ns: tuple[int, ...]


@dataclass(frozen=True)
class ShareEvidence:
    """``faults`` are the times in which some fault of the run was active."""

    reads: Deliveries
    acks: Acks
    facts: ShareFacts
    faults: Sequence[tuple[int, int]] = ()

    @cached_property
    def accepted(self) -> Acks:
        """What a broker confirmed as accepted."""
        return self.acks.take((self.acks.kind == ACCEPT) & self.acks.answered & ~self.acks.refused)

    @cached_property
    def asked(self) -> Acks:
        """The rows of the asking."""
        return self.acks.take(~self.acks.answered)

    @cached_property
    def again(self) -> Ints:
        """The rows of ``reads`` whose record was given to a member before: the row before is of that delivery."""
        found: Ints = np.flatnonzero(self.reads.offset[1:] == self.reads.offset[:-1]) + 1
        return found

    @cached_property
    def prompt(self) -> Bools:
        """Which rows of ``reads`` were fetched less than a lock before the member had them: it did not stall."""
        found: Bools = self.reads.received_ns - self.reads.since_ns < self.facts.lock_ns
        return found

    def disturbed(self, from_ns: Ints, to_ns: Ints) -> Bools:
        """In which spans of time a fault was active, or a member was started: the group shares anew."""
        found = np.zeros(from_ns.size, dtype=np.bool_)
        for begun, ended in [*self.faults, *((at, at) for at in self.facts.begun_ns)]:
            found |= (begun <= to_ns) & (ended >= from_ns)
        return found
