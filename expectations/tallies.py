"""Count the rows that break a contract, in the pass that reads them; tallies of parts of a table add up.

A key that spans parts, such as a producer's numbers, is kept as one bit or two bytes per number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from expectations.contracts import CONTRACTS, Contract, Term, Unique

WHOLE = ("offsets", "usage")  # small tables, which the driver reads
BY_PARTITION = [name for name in CONTRACTS if name not in WHOLE]
MAX_EXAMPLES = 20  # failing rows of a rule
AT = "at"  # a row's number where the rows are read in another order than they were recorded
COLUMNS, NULLS, UNCOUNTED = "declared columns", "no null in required columns", "every row has a partition"
_BITS = 16  # numbers of a block
_SPARSE = 1 << _BITS - 4  # fewer numbers take two bytes each

Row = Mapping[str, Any]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass
class Numbers:
    """Distinct numbers below 2^16, and those of them that were there more than once, both encoded."""

    seen: bytes
    repeated: bytes = b""

    def __or__(self, other: Numbers) -> Numbers:
        mine, others = _decoded(self.seen), _decoded(other.seen)
        repeated = _decoded(self.repeated) | _decoded(other.repeated) | (mine & others)
        return Numbers(_encoded(mine | others), _encoded(repeated))


@dataclass
class Tallies:
    """By table: its rows. By table and rule: the rows that break it, and the first of them with their keys."""

    rows: Counter[str] = field(default_factory=Counter)
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], list[Row]] = field(default_factory=dict)
    spanning: dict[tuple[str, str], dict[tuple[Any, int], Numbers]] = field(default_factory=dict)

    def add(self, table: str, rows: pa.Table, *, whole: bool = True) -> None:
        """Count rows of a recorded table; if they are not ``whole``, without the keys that ``add_keys`` compares."""
        contract = CONTRACTS[table]
        self.rows[table] += rows.num_rows
        rows = rows.unify_dictionaries()
        for rule in contract.rules:
            if isinstance(rule, Unique):
                if whole or contract.spans(rule):
                    self._add_keys(contract, rule, rows)
            else:
                self._add_where(contract, rule.name, rows, _mask(rows, rule.where), rule.columns)
        lacking = [name for name in contract.required if name in rows.column_names and rows[name].null_count]
        if lacking:
            nulls = reduce(pc.or_, (pc.is_null(rows[name]) for name in lacking))
            self._add_where(contract, NULLS, rows, nulls, lacking)

    def add_keys(self, table: str, rows: pa.Table) -> None:
        """Count the repeated keys of a partition, whose other rows are counted and have keys of their own."""
        contract = CONTRACTS[table]
        for rule in contract.rules:
            if isinstance(rule, Unique) and not contract.spans(rule):
                self._add_keys(contract, rule, rows.unify_dictionaries())

    def add_broken(self, table: str, rule: str, count: int, examples: Iterable[Row] = ()) -> None:
        """Add rows that break a rule."""
        self.broken[table, rule] += count
        known = self.examples.setdefault((table, rule), [])
        known.extend(examples)
        known.sort(key=lambda row: row.get(AT, 0))
        del known[MAX_EXAMPLES:]

    def merge(self, others: Iterable[Tallies]) -> Tallies:
        """Add the tallies of other parts, in the order of the parts."""
        for other in others:
            self.rows.update(other.rows)
            for (table, rule), count in other.broken.items():
                self.add_broken(table, rule, count, other.examples[table, rule])
            for rule_of, numbers in other.spanning.items():
                mine = self.spanning.setdefault(rule_of, {})
                for place, more in numbers.items():
                    mine[place] = mine[place] | more if place in mine else more
        return self

    def violations(self) -> Iterator[tuple[str, str, int, list[Row]]]:
        """Yield table, rule, the number of rows that break it, and the first of them."""
        for (table, rule), count in self.broken.items():
            examples = self.examples[table, rule]
            yield table, rule, count, [{name: row[name] for name in row if name != AT} for row in examples]
        for (table, rule), numbers in self.spanning.items():
            once = sum(_count(each.seen) - _count(each.repeated) for each in numbers.values())
            if self.rows[table] > once:
                columns = next(each.columns for each in CONTRACTS[table].rules if each.name == rule)
                keys = (dict(zip(columns, key, strict=True)) for key in _repeated(numbers))
                yield table, rule, self.rows[table] - once, [*islice(keys, MAX_EXAMPLES)]

    def _add_where(self, contract: Contract, rule: str, rows: pa.Table, mask: Any, columns: Iterable[str]) -> None:
        if count := pc.sum(mask).as_py():
            numbered = [AT] if AT in rows.column_names else []
            shown = rows.select([*dict.fromkeys([*contract.key, *columns]), *numbered]).filter(mask)
            shown = shown.sort_by(AT) if numbered else shown
            self.add_broken(contract.table, rule, count, shown[:MAX_EXAMPLES].to_pylist())

    def _add_keys(self, contract: Contract, rule: Unique, rows: pa.Table) -> None:
        codes = [_codes(rows[name]) for name in rule.columns]
        order = np.lexsort(codes[::-1])
        ordered = [each[order] for each in codes]
        first = np.ones(order.size, dtype=np.bool_)
        first[1:] = reduce(np.logical_or, (each[1:] != each[:-1] for each in ordered))
        starts = np.flatnonzero(first)
        several = np.diff(starts, append=order.size) > 1
        if contract.spans(rule):
            names = rows[rule.columns[0]]
            numbers = self.spanning.setdefault((contract.table, rule.name), {})
            for at, place, found in _blocks(ordered[0][starts], ordered[1][starts], several):
                key = names[int(order[starts[at]])].as_py(), place
                numbers[key] = numbers[key] | found if key in numbers else found
        elif several.any():
            repeated = order[np.repeat(several, np.diff(starts, append=order.size))]
            self.add_broken(
                contract.table,
                rule.name,
                repeated.size,
                rows.select(rule.columns).take(repeated[:MAX_EXAMPLES]).to_pylist(),
            )


def _codes(column: pa.ChunkedArray) -> Ints:
    """Return integers that are equal where the values are; null equals null."""
    values = column.combine_chunks()
    if not pa.types.is_integer(values.type):
        values = (values if pa.types.is_dictionary(values.type) else values.dictionary_encode()).indices
    found: Ints = pc.fill_null(values.cast(pa.int64()), np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
    return found


def _blocks(names: Ints, numbers: Ints, several: Bools) -> Iterator[tuple[int, int, Numbers]]:
    """Yield each block's first row, its place among the blocks and its numbers; rows are sorted and distinct."""
    blocks = numbers >> _BITS
    ends = np.flatnonzero((np.diff(names) != 0) | (np.diff(blocks) != 0)) + 1
    within = (numbers & ((1 << _BITS) - 1)).astype(np.uint16)
    for start, end in zip([0, *ends.tolist()], [*ends.tolist(), numbers.size], strict=True):
        if end > start:
            own = within[start:end]
            repeated = _packed(own[several[start:end]])
            yield start, int(blocks[start]), Numbers(_packed(own), repeated)


def _packed(numbers: NDArray[np.uint16]) -> bytes:
    if numbers.size < _SPARSE:
        return numbers.tobytes()
    bits = np.zeros(1 << _BITS, dtype=np.bool_)
    bits[numbers] = True
    return np.packbits(bits).tobytes()


def _encoded(bits: Bools) -> bytes:
    return _packed(np.flatnonzero(bits).astype(np.uint16))


def _decoded(data: bytes) -> Bools:
    if len(data) == 1 << _BITS - 3:
        return np.unpackbits(np.frombuffer(data, np.uint8)).view(np.bool_)
    bits = np.zeros(1 << _BITS, dtype=np.bool_)
    bits[np.frombuffer(data, np.uint16)] = True
    return bits


def _count(data: bytes) -> int:
    return int(_decoded(data).sum())


def _repeated(numbers: Mapping[tuple[Any, int], Numbers]) -> Iterator[tuple[Any, int]]:
    for (name, block), found in sorted(numbers.items(), key=lambda each: (str(each[0][0]), each[0][1])):
        for number in np.flatnonzero(_decoded(found.repeated)).tolist():
            yield name, (block << _BITS) + number


def _mask(rows: pa.Table, where: Sequence[Term]) -> Any:
    return reduce(pc.and_, (pc.fill_null(_term(rows, *term), fill_value=False) for term in where))


def _term(rows: pa.Table, column: str, relation: str, operand: Any = None) -> Any:
    values = rows[column]
    if relation == "is null":
        return pc.is_null(values)
    if relation == "is not null":
        return pc.is_valid(values)
    if relation == "not in":
        return pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, pa.array(operand))))
    return _COMPARISONS[relation](values, rows[operand["column"]] if isinstance(operand, Mapping) else operand)
