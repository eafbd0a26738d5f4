"""Share group members' deliveries and acknowledgements of one partition."""

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
    """One row per record and delivery, by offset, then time."""

    offset: Ints
    member: Codes
    count: Ints  # from the broker; NULL: unknown
    since_ns: Ints  # fetched after this time
    received_ns: Ints

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
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
    """One row per record of each acknowledgement and response, by offset."""

    offset: Ints
    member: Codes
    kind: NDArray[np.int8]  # index in KINDS
    asked_ns: Ints  # NULL: a response's row
    answered_ns: Ints  # NULL: a request's row
    refused: Bools

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
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
    first = ints(table["first_offset"])
    lengths = np.maximum(ints(table["last_offset"]) - first + 1, 0)
    rows = np.repeat(np.arange(first.size), lengths)
    within = np.arange(rows.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return rows, first[rows] + within


class ShareFacts(NamedTuple):
    """Facts about a topic that a share group reads.

    A waiting record is delivered within ``still_ns``. ``ended_ns``: a member's last clean end; ``unclean`` ones had
    none.
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
    """Evidence about a share group."""

    reads: Deliveries
    acks: Acks
    facts: ShareFacts
    faults: Sequence[tuple[int, int]] = ()

    @cached_property
    def accepted(self) -> Acks:
        return self.acks.take((self.acks.kind == ACCEPT) & self.acks.answered & ~self.acks.refused)

    @cached_property
    def asked(self) -> Acks:
        return self.acks.take(~self.acks.answered)

    @cached_property
    def again(self) -> Ints:
        """Return the rows of redeliveries; the row before each is the previous delivery."""
        found: Ints = np.flatnonzero(self.reads.offset[1:] == self.reads.offset[:-1]) + 1
        return found

    @cached_property
    def prompt(self) -> Bools:
        """Return which deliveries took less than a lock duration from the fetch."""
        found: Bools = self.reads.received_ns - self.reads.since_ns < self.facts.lock_ns
        return found

    def disturbed(self, from_ns: Ints, to_ns: Ints) -> Bools:
        """Return which intervals have a fault, or a member's start, which redistributes records."""
        found = np.zeros(from_ns.size, dtype=np.bool_)
        for begun, ended in [*self.faults, *((at, at) for at in self.facts.begun_ns)]:
            found |= (begun <= to_ns) & (ended >= from_ns)
        return found
