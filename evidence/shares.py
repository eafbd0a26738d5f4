"""Share group members' deliveries and acknowledgements of one partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evidence.columns import FAILED, NULL, Bools, Codes, Columns, Ints, Names, column, ints, words
from history.share_groups import KINDS

ACCEPT, RELEASE = range(len(KINDS))


@dataclass(frozen=True)
class Deliveries(Columns):
    """One row per record and delivery, by offset, then time."""

    order = ("offset", "received_ns")
    offset: Ints
    member: Codes
    count: Ints = field(metadata=column("delivery_count"))  # from the broker; NULL: unknown
    since_ns: Ints  # fetched after this time
    received_ns: Ints

    @classmethod
    def of(cls, table: pa.Table, names: Names | None = None) -> Self:
        return super().of(_by_record(table), names)


@dataclass(frozen=True)
class Acks(Columns):
    """One row per record of each acknowledgement and response, by offset."""

    order = ("offset",)
    offset: Ints
    member: Codes
    kind: NDArray[np.int8] = field(metadata=words("kind", KINDS))
    asked_ns: Ints  # NULL: a response's row
    answered_ns: Ints  # NULL: a request's row
    refused: Bools = field(metadata=FAILED)

    @classmethod
    def of(cls, table: pa.Table, names: Names | None = None) -> Self:
        return super().of(_by_record(table), names)

    @property
    def answered(self) -> Bools:
        found: Bools = self.answered_ns != NULL
        return found


def _by_record(table: pa.Table) -> pa.Table:
    """Return a row for each offset of a row's range."""
    first = ints(table["first_offset"])
    lengths = np.maximum(ints(table["last_offset"]) - first + 1, 0)
    rows = np.repeat(np.arange(first.size), lengths)
    within = np.arange(rows.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return table.take(pa.array(rows)).append_column("offset", pa.array(first[rows] + within))


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
