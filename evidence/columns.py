"""One partition's recorded rows as NumPy columns.

A null integer is ``NULL``; names are codes of ``Names``, -1 for none. A test record's ``value`` combines producer and
sequence number; -1 is any other record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from history.errors import EvidenceError
from history.payload import MAX_SEQ
from history.tables import POLLS, SENDS

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Bools = NDArray[np.bool_]

NULL = int(np.iinfo(np.int64).min)
_SEQ_BITS = 47
_MAX_NAMES = 1 << (63 - _SEQ_BITS)
_PAST = int(np.iinfo(np.int64).max)  # sorts after every member of a list
OUTCOMES = ("ok", "fail", "info")
OK, FAIL, INFO = range(3)
ACKS = ("0", "1", "all")
ACKS_0, ACKS_1, ACKS_ALL = range(3)
PASSES = ("live", "final", "incomplete")
LIVE, FINAL, INCOMPLETE = range(3)


@dataclass
class Names:
    """Names and their codes."""

    listed: list[str] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def code(self, name: str) -> int:
        found = self._codes.setdefault(name, len(self.listed))
        if found == len(self.listed):
            self.listed.append(name)
        return found

    def held(self, names: Iterable[str]) -> Codes:
        return np.array([self._codes[name] for name in names if name in self._codes], dtype=np.int32)

    def codes(self, column: pa.ChunkedArray) -> Codes:
        encoded = column.combine_chunks().dictionary_encode()
        own = np.array([self.code(name) for name in encoded.dictionary.to_pylist()] + [-1], dtype=np.int32)
        at: Codes = pc.fill_null(encoded.indices, len(own) - 1).to_numpy(zero_copy_only=False)
        return own[at]

    def values(self, producers: pa.ChunkedArray, numbers: pa.ChunkedArray) -> Ints:
        """Return each record's value, -1 without producer or valid number.

        Raises: EvidenceError: a producer's code does not fit.
        """
        codes, seq = self.codes(producers).astype(np.int64), ints(numbers)
        if codes.size and int(codes.max()) >= _MAX_NAMES:
            raise EvidenceError(
                f"A partition's records name {int(codes.max()) + 1:,} producers and consumers, and {_MAX_NAMES:,} at "
                "most can be told apart; judge a history of fewer."
            )
        ours = (codes >= 0) & (seq >= 0) & (seq <= MAX_SEQ)
        return np.where(ours, (codes << _SEQ_BITS) | np.where(ours, seq, 0), -1)

    def value(self, producer: str, seq: int) -> int:
        return self.code(producer) << _SEQ_BITS | seq

    def fields(self, value: int) -> dict[str, Any]:
        return dict(zip(("producer_id", "seq"), self.name(value), strict=True))

    def name(self, value: int) -> tuple[str | None, int | None]:
        """Return a value's producer and number, if any."""
        if value < 0:
            return None, None
        return self.listed[value >> _SEQ_BITS], value & MAX_SEQ


def producer_of(values: Ints) -> Ints:
    """Return each value's producer code, or -1."""
    return values >> _SEQ_BITS


def seq_of(values: Ints) -> Ints:
    """Return each test record's number."""
    return values & MAX_SEQ


def ints(column: pa.ChunkedArray) -> Ints:
    """Convert integers, with ``NULL`` for nulls."""
    filled = pc.fill_null(column.cast(pa.int64()), NULL) if column.null_count else column
    found: Ints = filled.to_numpy().astype(np.int64, copy=False)
    return found


def bools(column: pa.ChunkedArray) -> Bools:
    """Convert booleans, with False for nulls."""
    found: Bools = pc.fill_null(column, False).to_numpy().astype(np.bool_, copy=False)
    return found


def damaged(checksum_ok: pa.ChunkedArray) -> Bools:
    """Return which values fail their checksum."""
    return bools(pc.invert(checksum_ok))


def enumerated(column: pa.ChunkedArray, words: tuple[str, ...], what: str) -> NDArray[np.int8]:
    """Return each word's index in ``words``.

    Raises: EvidenceError.
    """
    encoded = column.combine_chunks().dictionary_encode()
    known = encoded.dictionary.to_pylist()
    if unknown := sorted(
        {str(word) for word in known if word not in words} | ({"null"} if column.null_count else set())
    ):
        raise EvidenceError(f"The column {what} holds {unknown[0]!r}; known are {', '.join(words)}.")
    places = np.array([words.index(word) for word in known], dtype=np.int8)
    return places[encoded.indices.to_numpy(zero_copy_only=False)] if known else np.empty(0, dtype=np.int8)


def known(value: int) -> int | None:
    """Return the number, None for ``NULL``."""
    return None if value == NULL else int(value)


def number(column: Ints, row: int) -> int | None:
    """Return one value, None for ``NULL``."""
    return known(column[row])


def places(ordered: Ints, wanted: Ints) -> Ints:
    """Return each value's index in sorted distinct values, or -1."""
    if not ordered.size:
        return np.full(wanted.size, -1, dtype=np.int64)
    at = np.searchsorted(ordered, wanted)
    at[at == ordered.size] = 0
    return np.where(ordered[at] == wanted, at, -1)


def groups(*keys: Ints | Codes) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Yield each combination of keys with its rows."""
    if not keys[0].size:
        return
    order = np.lexsort(keys[::-1])
    changed = np.zeros(order.size - 1, dtype=np.bool_)
    for key in keys:
        changed |= key[order[1:]] != key[order[:-1]]
    for rows in np.split(order, np.flatnonzero(changed) + 1):
        yield tuple(int(key[rows[0]]) for key in keys), rows


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    for field_of in schema:
        if field_of.name not in table.column_names:
            table = table.append_column(field_of, pa.nulls(table.num_rows, field_of.type))
    return table


@dataclass(frozen=True)
class Columns:
    """Columns of equal length."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Any) -> Self:
        if getattr(rows, "dtype", None) == np.bool_ and rows.all():
            return self
        return type(self)(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


@dataclass(frozen=True)
class Sends(Columns):
    """One partition's rows of ``history.tables.SENDS``, in ledger order."""

    value: Ints
    due_ns: Ints
    sent_ns: Ints
    done_ns: Ints
    outcome: NDArray[np.int8]  # index in OUTCOMES
    offset: Ints
    acks: NDArray[np.int8]  # index in ACKS
    error: Codes
    transaction: Ints

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        table = _widened(table, SENDS)
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
    """One partition's rows of ``history.tables.POLLS``, ordered by consumer."""

    consumer: Codes
    pass_: NDArray[np.int8]  # index in PASSES
    position: Ints
    offset: Ints
    leader_epoch: Ints
    value: Ints
    damaged: Bools
    received_ns: Ints
    committed_only: Bools

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        table = _widened(table, POLLS)
        return cls(
            consumer=names.codes(table["consumer_id"]),
            pass_=enumerated(table["pass"], PASSES, "pass"),
            position=ints(table["position"]),
            offset=ints(table["offset"]),
            leader_epoch=ints(table["leader_epoch"]),
            value=names.values(table["producer_id"], table["seq"]),
            damaged=damaged(table["checksum_ok"]),
            received_ns=ints(table["received_ns"]),
            committed_only=bools(pc.equal(table["isolation"], "read_committed")),
        )


@dataclass(frozen=True)
class Seeks(Columns):
    """One partition's rows of ``history.tables.SEEKS``."""

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
    """The probe's valid responses, by request time and broker."""

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
        """Convert rows of ``history.tables.REPLICAS`` with HW, LEO and no error."""
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

    @cached_property
    def with_epoch(self) -> Samples:
        return self.take(self.epoch != NULL)

    @cached_property
    def answered(self) -> Samples:
        in_order = bool(np.all(self.received_ns[1:] >= self.received_ns[:-1]))
        return self if in_order else self.take(np.argsort(self.received_ns, kind="stable"))

    @cached_property
    def highest(self) -> Ints:
        return np.maximum.accumulate(self.hw)

    @cached_property
    def rows_of_broker(self) -> dict[int, Ints]:
        return {broker: rows for (broker,), rows in groups(self.broker)}

    @cached_property
    def _of_broker(self) -> dict[int, Samples]:
        return {broker: self.take(rows) for broker, rows in self.rows_of_broker.items()}

    @cached_property
    def _of_epoch(self) -> dict[tuple[int, int], Samples]:
        return {
            (broker, epoch): of_broker.take(rows)
            for broker, of_broker in self._of_broker.items()
            for (epoch,), rows in groups(of_broker.epoch)
        }

    def of_broker(self, broker: int) -> Samples:
        return self._of_broker.get(broker) or self.take(slice(0))

    def of_epoch(self, broker: int, epoch: int) -> Samples:
        return self._of_epoch.get((broker, epoch)) or self.take(slice(0))

    @cached_property
    def before(self) -> Ints:
        """Return the row of the same broker's, incarnation's and epoch's previous sample, or -1."""
        found = np.full(len(self), -1, dtype=np.int64)
        for of_broker in self.rows_of_broker.values():
            for _, rows in groups(self.incarnation[of_broker], self.epoch[of_broker]):
                found[of_broker[rows[1:]]] = of_broker[rows[:-1]]
        return found

    def of_leaders(self, leaders: Iterable[tuple[int, int]]) -> Bools:
        pairs = set(leaders)
        found = np.zeros(len(self), dtype=np.bool_)
        for broker, rows in self.rows_of_broker.items():
            led = np.array(sorted(epoch for epoch, leader in pairs if leader == broker), dtype=np.int64)
            found[rows] = np.isin(self.epoch[rows], led)
        return found


@dataclass(frozen=True)
class Views(Columns):
    """One partition's rows of ``history.tables.ISR``, by response time and observer.

    ``isr`` indexes ``lists``, -1 for null.
    """

    observer: Codes
    leader: Ints
    epoch: Ints
    isr: Codes
    sent_ns: Ints
    received_ns: Ints
    lists: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        isr, lists = _lists(table["isr"])
        observer = names.codes(table["observer"])
        found = cls(
            observer=observer,
            leader=ints(table["leader"]),
            epoch=ints(table["leader_epoch"]),
            isr=isr,
            sent_ns=ints(table["sent_ns"]),
            received_ns=ints(table["received_ns"]),
            lists=lists,
        )
        ranks = np.argsort(np.argsort(np.array(names.listed, dtype=np.str_)))
        return found.take(np.lexsort((ranks[observer], found.received_ns)) if len(found) else slice(0))

    @classmethod
    def nothing(cls) -> Self:
        none, no_codes = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        return cls(no_codes, none, none, no_codes, none, none, ())

    def take(self, rows: Any) -> Self:
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        return type(self)(**{name: column if name == "lists" else column[rows] for name, column in columns.items()})

    @property
    def changed(self) -> Bools:
        """Return which views differ from the one before."""
        found = np.ones(len(self), dtype=np.bool_)
        found[1:] = False
        for column in (self.leader, self.epoch, self.isr):
            found[1:] |= column[1:] != column[:-1]
        return found

    def members(self, row: int) -> tuple[int, ...] | None:
        code = int(self.isr[row])
        return None if code < 0 else self.lists[code]


def _lists(column: pa.ChunkedArray) -> tuple[Codes, tuple[tuple[int, ...], ...]]:
    column = column.combine_chunks()
    sizes = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    codes = np.full(sizes.size, -1, dtype=np.int32)
    known = np.flatnonzero(sizes >= 0)
    if not known.size:
        return codes, ()
    sizes = sizes[known]
    members = np.full((known.size, max(1, int(sizes.max()))), _PAST, dtype=np.int64)
    filled = np.arange(members.shape[1]) < sizes[:, None]
    members[filled] = column.flatten().to_numpy(zero_copy_only=False)
    members.sort(axis=1)
    distinct, of_row = np.unique(members, axis=0, return_inverse=True)
    codes[known] = of_row.reshape(-1)
    return codes, tuple(tuple(one for one in row if one != _PAST) for row in distinct.tolist())


@dataclass(frozen=True)
class Log(Columns):
    """A replica's readable records, by offset."""

    offset: Ints
    value: Ints
    leader_epoch: Ints
    damaged: Bools
    kafka_producer_id: Ints  # NULL: neither idempotent nor transactional
    transactional: Bools


@dataclass(frozen=True)
class Markers(Columns):
    """A replica's commit and abort markers, by offset."""

    kafka_producer_id: Ints
    offset: Ints
    committed: Bools


@dataclass(frozen=True)
class ToldNames(Columns):
    """Imported names of records, by value (``history.tables.IMPORTED``).

    ``operation``: an atomic one of several records, or ``NULL``.
    """

    value: Ints
    operation: Ints
    key: NDArray[np.object_]
    name: NDArray[np.object_]
    record_key: Codes  # -1: unknown

    @classmethod
    def of(cls, table: pa.Table, names: Names) -> Self:
        value = names.values(table["producer_id"], table["seq"])
        found = cls(
            value=value,
            operation=ints(table["operation"]),
            key=np.array(table["key"].to_pylist(), dtype=np.object_),
            name=np.array(table["value"].to_pylist(), dtype=np.object_),
            record_key=names.codes(table["record_key"]),
        )
        return found.take(np.argsort(value, kind="stable"))


def with_operations(sends: Sends, told: ToldNames) -> Sends:
    """Treat each imported atomic operation as a transaction."""
    at = places(told.value, sends.value)
    operation = np.where(at >= 0, told.operation[at], NULL) if len(told) else np.full(len(sends), NULL)
    return replace(sends, transaction=np.where(sends.transaction == NULL, operation, sends.transaction))
