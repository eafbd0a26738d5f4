"""What a run recorded of one partition, as columns.

Every column is a NumPy array; a null integer is ``NULL``. Names (producers, consumers) are codes of ``Names``, -1 for
none. A record of ours is told by one integer, its ``value``: the producer's code and its number (``Names.value``); -1
says that a record is not one of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from history.errors import EvidenceError
from history.payload import MAX_SEQ

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Bools = NDArray[np.bool_]

NULL = int(np.iinfo(np.int64).min)
_SEQ_BITS = 47
OUTCOMES = ("ok", "fail", "info")
OK, FAIL, INFO = range(3)
ACKS = ("0", "1", "all")
ACKS_0, ACKS_1, ACKS_ALL = range(3)
PASSES = ("live", "final", "incomplete")
LIVE, FINAL, INCOMPLETE = range(3)


@dataclass
class Names:
    """Names and their codes, from 0 in the order in which they were first met."""

    listed: list[str] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def code(self, name: str) -> int:
        found = self._codes.setdefault(name, len(self.listed))
        if found == len(self.listed):
            self.listed.append(name)
        return found

    def codes(self, column: pa.ChunkedArray) -> Codes:
        """The codes of a column of strings, -1 for a null."""
        encoded = column.combine_chunks().dictionary_encode()
        own = np.array([self.code(name) for name in encoded.dictionary.to_pylist()] + [-1], dtype=np.int32)
        at: Codes = pc.fill_null(encoded.indices, len(own) - 1).to_numpy(zero_copy_only=False)
        return own[at]

    def values(self, producers: pa.ChunkedArray, numbers: pa.ChunkedArray) -> Ints:
        """The value of each record by its producer's name and its number; -1 where either is null."""
        codes, seq = self.codes(producers).astype(np.int64), ints(numbers)
        if seq.size and seq.max() > MAX_SEQ:
            raise EvidenceError(f"A record's number is {seq.max()}; the largest that can be judged is {MAX_SEQ}.")
        ours = (codes >= 0) & (seq >= 0)
        return np.where(ours, (codes << _SEQ_BITS) | np.where(ours, seq, 0), -1)

    def name(self, value: int) -> tuple[str | None, int | None]:
        """A value's producer and number; (None, None) of a record that is not one of ours."""
        if value < 0:
            return None, None
        return self.listed[value >> _SEQ_BITS], value & MAX_SEQ


def producer_of(values: Ints) -> Ints:
    """The producer's code of each value, -1 where the record is not one of ours."""
    return values >> _SEQ_BITS


def seq_of(values: Ints) -> Ints:
    """The number of each value of ours."""
    return values & MAX_SEQ


def ints(column: pa.ChunkedArray) -> Ints:
    """A column of integers, ``NULL`` for a null."""
    filled = pc.fill_null(column.cast(pa.int64()), NULL) if column.null_count else column
    found: Ints = filled.to_numpy().astype(np.int64, copy=False)
    return found


def bools(column: pa.ChunkedArray) -> Bools:
    """A column of truth values, a null being false."""
    found: Bools = pc.fill_null(column, False).to_numpy().astype(np.bool_, copy=False)
    return found


def enumerated(column: pa.ChunkedArray, words: tuple[str, ...], what: str) -> NDArray[np.int8]:
    """The place of each word among ``words``.

    Raises:
        EvidenceError: another word stands in the column.
    """
    encoded = column.combine_chunks().dictionary_encode()
    known = encoded.dictionary.to_pylist()
    if unknown := sorted(
        {str(word) for word in known if word not in words} | ({"null"} if column.null_count else set())
    ):
        raise EvidenceError(f"The column {what} holds {unknown[0]!r}; known are {', '.join(words)}.")
    places = np.array([words.index(word) for word in known], dtype=np.int8)
    return places[encoded.indices.to_numpy(zero_copy_only=False)] if known else np.empty(0, dtype=np.int8)


@dataclass(frozen=True)
class Columns:
    """Columns of one length."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Any) -> Self:
        """Some of the rows: a mask, or their places."""
        return type(self)(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


@dataclass(frozen=True)
class Sends(Columns):
    """Rows of ``history.tables.SENDS`` of one partition, in the ledgers' order."""

    value: Ints
    due_ns: Ints
    sent_ns: Ints
    done_ns: Ints
    outcome: NDArray[np.int8]  # of OUTCOMES
    offset: Ints
    acks: NDArray[np.int8]  # of ACKS
    error: Codes  # of ``names``
    transaction: Ints

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        return cls(
            value=names.values(table["producer_id"], table["seq"]),
            due_ns=ints(table["due_ns"]),
            sent_ns=ints(table["sent_ns"]),
            done_ns=ints(table["done_ns"]),
            outcome=enumerated(table["outcome"], OUTCOMES, "outcome"),
            offset=ints(table["offset"]),
            acks=enumerated(table["acks"], ACKS, "acks"),
            error=names.codes(table["error"]),
            transaction=ints(table["transaction"]),
        )


@dataclass(frozen=True)
class Polls(Columns):
    """Rows of ``history.tables.POLLS`` of one partition, in each consumer's order."""

    consumer: Codes  # of ``names``
    pass_: NDArray[np.int8]  # of PASSES
    position: Ints
    offset: Ints
    leader_epoch: Ints
    value: Ints
    checksum_ok: Bools
    received_ns: Ints
    committed_only: Bools  # isolation read_committed

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        return cls(
            consumer=names.codes(table["consumer_id"]),
            pass_=enumerated(table["pass"], PASSES, "pass"),
            position=ints(table["position"]),
            offset=ints(table["offset"]),
            leader_epoch=ints(table["leader_epoch"]),
            value=names.values(table["producer_id"], table["seq"]),
            checksum_ok=bools(table["checksum_ok"]),
            received_ns=ints(table["received_ns"]),
            committed_only=bools(pc.equal(table["isolation"], "read_committed")),
        )


@dataclass(frozen=True)
class Seeks(Columns):
    """Rows of ``history.tables.SEEKS`` of one partition."""

    consumer: Codes
    pass_: NDArray[np.int8]
    position: Ints

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        return cls(
            consumer=names.codes(table["consumer_id"]),
            pass_=enumerated(table["pass"], PASSES, "pass"),
            position=ints(table["position"]),
        )


@dataclass(frozen=True)
class Samples(Columns):
    """The probe's good answers of one partition, in the order in which they were asked for (then by broker)."""

    broker: Ints
    incarnation: Ints
    epoch: Ints
    sent_ns: Ints
    received_ns: Ints
    log_start: Ints
    hw: Ints
    lso: Ints
    leo: Ints
    single_reply: Bools

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Of the rows of ``history.tables.REPLICAS``; one without HW or LEO is no good answer."""
        good = pc.and_(
            pc.is_null(table["error"]),
            pc.and_(pc.is_valid(table["high_watermark"]), pc.is_valid(table["log_end_offset"])),
        )
        table = table.filter(good)
        found = cls(
            broker=ints(table["broker_id"]),
            incarnation=ints(table["incarnation"]),
            epoch=ints(table["leader_epoch"]),
            sent_ns=ints(table["sent_ns"]),
            received_ns=ints(table["received_ns"]),
            log_start=ints(table["log_start_offset"]),
            hw=ints(table["high_watermark"]),
            lso=ints(table["last_stable_offset"]),
            leo=ints(table["log_end_offset"]),
            single_reply=bools(table["single_reply"]),
        )
        return found.take(np.lexsort((found.broker, found.sent_ns)))


@dataclass(frozen=True)
class Log(Columns):
    """The records of one replica's log, by their offsets; what cannot be read is not among them."""

    offset: Ints
    value: Ints
    leader_epoch: Ints
    checksum_ok: Bools
    kafka_producer_id: Ints  # of the batch; NULL: neither idempotent nor transactional
    transactional: Bools


@dataclass(frozen=True)
class Markers(Columns):
    """The control batches of a replica's log that end a transaction, by offset."""

    kafka_producer_id: Ints
    offset: Ints
    committed: Bools


@dataclass(frozen=True)
class ToldNames(Columns):
    """What an imported history called its records (``history.tables.IMPORTED``), by value; ``operation`` is ``NULL`` of
    a record that no atomic operation sent with others.
    """

    value: Ints
    operation: Ints
    key: NDArray[np.object_]
    name: NDArray[np.object_]

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        value = names.values(table["producer_id"], table["seq"])
        found = cls(
            value=value,
            operation=ints(table["operation"]),
            key=np.array(table["key"].to_pylist(), dtype=np.object_),
            name=np.array(table["value"].to_pylist(), dtype=np.object_),
        )
        return found.take(np.argsort(value, kind="stable"))
