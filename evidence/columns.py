"""One partition's recorded rows as NumPy columns.

A null integer is ``NULL``; names are codes of ``Names``, -1 for none. A test record's ``value`` combines producer and
sequence number; -1 is any other record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

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


def positions_in(ordered: Ints, wanted: Ints) -> Ints:
    """Return each value's index in sorted distinct values, or -1."""
    if not ordered.size:
        return np.full(wanted.size, -1, dtype=np.int64)
    at = np.searchsorted(ordered, wanted)
    at[at == ordered.size] = 0
    return np.where(ordered[at] == wanted, at, -1)


def joined(parts: Iterable[Ints]) -> Ints:
    """Concatenate arrays."""
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def smallest(group: Ints, values: Ints, size: int) -> Ints:
    """Return each group's smallest value, or the largest integer."""
    found = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(found, group, values)
    return found


def largest(group: Ints, values: Ints, size: int) -> Ints:
    """Return each group's largest value, or ``NULL``."""
    found = np.full(size, NULL)
    np.maximum.at(found, group, values)
    return found


def smallest_of_equal(keys: Ints, values: Ints) -> Ints:
    """Return the smallest value with each row's key."""
    distinct, group = np.unique(keys, return_inverse=True)
    return smallest(group, values, distinct.size)[group]


def covered(first: Ints, last: Ints, offsets: Ints) -> Bools:
    """Return which offsets are in a range from ``first`` to ``last``."""
    if not first.size:
        return np.zeros(offsets.size, dtype=np.bool_)
    order = np.argsort(first, kind="stable")
    furthest = np.maximum.accumulate(last[order])
    at = np.searchsorted(first[order], offsets, side="right") - 1
    found: Bools = (at >= 0) & (furthest[at] >= offsets)
    return found


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


Made = Mapping[str, Callable[[pa.Table, Names], NDArray[Any]]]


def made(make: Callable[[pa.Table, Names], NDArray[Any]]) -> Made:
    """Declare a column that a function makes."""
    return {"make": make}


def column(source: str) -> Mapping[str, str]:
    """Declare a column's name in the table."""
    return {"source": source}


def words(name: str, known: tuple[str, ...]) -> Made:
    """Declare a column of indices in ``known``."""
    return made(lambda table, _: enumerated(table[name], known, name))


VALUES = made(lambda table, names: names.values(table["producer_id"], table["seq"]))
DAMAGED = made(lambda table, _: bools(pc.invert(table["checksum_ok"])))  # does not match its checksum
FAILED = made(lambda table, _: bools(pc.is_valid(table["error"])))


@dataclass(frozen=True)
class Columns:
    """Columns of equal length; a table's rows are sorted by ``order``."""

    order: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, table: pa.Table, names: Names | None = None) -> Self:
        """Convert a table's columns as declared, or by type."""
        names = Names() if names is None else names
        by_type = {"Ints": ints, "Bools": bools, "Codes": names.codes}
        found = cls(
            **{
                each.name: each.metadata["make"](table, names)
                if "make" in each.metadata
                else by_type[str(each.type)](table[each.metadata.get("source", each.name)])
                for each in fields(cls)
            }
        )
        return found.sorted()

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Any) -> Self:
        if getattr(rows, "dtype", None) == np.bool_ and rows.all():
            return self
        return type(self)(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    def then(self, other: Self) -> Self:
        """Return these rows and then others."""
        names = [each.name for each in fields(self)]
        return type(self)(**{name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names})

    def with_rows(self, other: Self) -> Self:
        """Return the rows of both, sorted by ``order``."""
        return self.then(other).sorted() if len(self) else other

    def sorted(self) -> Self:
        return self.take(np.lexsort([getattr(self, name) for name in self.order[::-1]])) if self.order else self


@dataclass(frozen=True)
class Sends(Columns):
    """One partition's rows of ``history.tables.SENDS``, in ledger order."""

    value: Ints = field(metadata=VALUES)
    due_ns: Ints
    sent_ns: Ints
    done_ns: Ints
    outcome: NDArray[np.int8] = field(metadata=words("outcome", OUTCOMES))
    offset: Ints
    acks: NDArray[np.int8] = field(metadata=words("acks", ACKS))
    error: Codes
    transaction: Ints


@dataclass(frozen=True)
class Polls(Columns):
    """One partition's rows of ``history.tables.POLLS``, ordered by consumer."""

    consumer: Codes = field(metadata=column("consumer_id"))
    pass_: NDArray[np.int8] = field(metadata=words("pass", PASSES))
    position: Ints
    offset: Ints
    leader_epoch: Ints
    value: Ints = field(metadata=VALUES)
    damaged: Bools = field(metadata=DAMAGED)
    received_ns: Ints
    committed_only: Bools = field(metadata=made(lambda table, _: bools(pc.equal(table["isolation"], "read_committed"))))


@dataclass(frozen=True)
class Seeks(Columns):
    """One partition's rows of ``history.tables.SEEKS``."""

    consumer: Codes = field(metadata=column("consumer_id"))
    pass_: NDArray[np.int8] = field(metadata=words("pass", PASSES))
    position: Ints


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
    def of(cls, table: pa.Table, names: Names | None = None) -> Self:
        names = Names() if names is None else names
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
        return found.in_order(names)

    def in_order(self, names: Names) -> Self:
        ranks = np.argsort(np.argsort(np.array(names.listed, dtype=np.str_)))
        return self.take(np.lexsort((ranks[self.observer], self.received_ns)) if len(self) else slice(0))

    @classmethod
    def nothing(cls) -> Self:
        none, no_codes = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        return cls(no_codes, none, none, no_codes, none, none, ())

    def take(self, rows: Any) -> Self:
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        return type(self)(**{name: column if name == "lists" else column[rows] for name, column in columns.items()})

    def with_views(self, later: Self, names: Names) -> Self:
        """Return these views and others."""
        lists = [*self.lists, *(each for each in later.lists if each not in self.lists)]
        codes = np.array([*map(lists.index, later.lists), -1], dtype=np.int32)
        names_of = [each.name for each in fields(self) if each.name != "lists"]
        columns: dict[str, Any] = {n: np.concatenate([getattr(self, n), getattr(later, n)]) for n in names_of}
        isr = np.concatenate([self.isr, codes[later.isr]])
        return type(self)(**columns | {"isr": isr, "lists": tuple(lists)}).in_order(names) if len(self) else later

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
    first = np.flatnonzero(np.append(True, (members[1:] != members[:-1]).any(axis=1)))  # most rows repeat the last
    distinct, of_first = np.unique(members[first], axis=0, return_inverse=True)
    codes[known] = np.repeat(of_first.reshape(-1), np.diff(first, append=known.size))
    return codes, tuple(tuple(one for one in row if one != _PAST) for row in distinct.tolist())


@dataclass(frozen=True)
class Log(Columns):
    """A replica's readable records (``kafka_files.segments.SEGMENTS``), by offset."""

    offset: Ints
    value: Ints = field(metadata=VALUES)
    leader_epoch: Ints
    damaged: Bools = field(metadata=DAMAGED)
    kafka_producer_id: Ints  # NULL: neither idempotent nor transactional
    transactional: Bools


@dataclass(frozen=True)
class Markers(Columns):
    """A replica's commit and abort markers, by offset."""

    kafka_producer_id: Ints
    offset: Ints = field(metadata=column("last_offset"))
    committed: Bools = field(metadata=made(lambda table, _: bools(pc.equal(table["marker"], "commit"))))


@dataclass(frozen=True)
class ImportedNames(Columns):
    """Imported names of records, by value (``history.tables.IMPORTED``).

    ``operation``: an atomic one of several records, or ``NULL``. A ``record_key`` of -1 is unknown.
    """

    order = ("value",)
    value: Ints = field(metadata=VALUES)
    operation: Ints
    key: NDArray[np.object_] = field(
        metadata=made(lambda table, _: np.array(table["key"].to_pylist(), dtype=np.object_))
    )
    name: NDArray[np.object_] = field(
        metadata=made(lambda table, _: np.array(table["value"].to_pylist(), dtype=np.object_))
    )
    record_key: Codes


def with_operations(sends: Sends, imported: ImportedNames) -> Sends:
    """Treat each imported atomic operation as a transaction."""
    at = positions_in(imported.value, sends.value)
    operation = np.where(at >= 0, imported.operation[at], NULL) if len(imported) else np.full(len(sends), NULL)
    return replace(sends, transaction=np.where(sends.transaction == NULL, operation, sends.transaction))
