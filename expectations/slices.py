"""Evaluate expectations on DataFrames, or on Parquet files in slices: a table may have hundreds of millions of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from history.remote import parquet_file, path_of

FILES = "parquet_file"  # the only column of a DataFrame that represents files
_ROWS_AT_ONCE = 1 << 20  # row groups may be small
_FILE_BITS = 4
MAX_EXAMPLES = 20  # violating rows in a result

# (column, operator) or (column, operator, operand); {"column": name} is another column
Term = Sequence[Any]
_Hashes = NDArray[np.uint64]
_NULL = 0x9E3779B97F4A7C15

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def of_files(files: Sequence[Path]) -> pd.DataFrame:
    """Represent Parquet files as a DataFrame; a missing column is null."""
    return pd.DataFrame({FILES: [str(file) for file in files]})


def slices(frame: pd.DataFrame, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows with at least these columns."""
    if list(frame.columns) != [FILES]:
        yield pa.Table.from_pandas(frame, preserve_index=False)
        return
    for name in frame[FILES]:
        with parquet_file(path_of(name)) as file:
            there = [column for column in file.schema_arrow.names if column in columns]
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=there):
                yield pa.Table.from_batches([batch])


def types(frame: pd.DataFrame) -> dict[str, str]:
    """Return each column's Arrow type; all types if files differ."""
    if list(frame.columns) != [FILES]:
        return {str(name): str(getattr(kind, "pyarrow_dtype", kind)) for name, kind in frame.dtypes.items()}
    found: dict[str, list[str]] = {}
    for name in frame[FILES]:
        with parquet_file(path_of(name)) as file:
            for field in file.schema_arrow:
                found.setdefault(field.name, []).append(str(field.type))
    return {name: " or ".join(sorted(set(kinds))) for name, kinds in found.items()}


def rows_where(
    frame: pd.DataFrame, where: Sequence[Term], weight: str | None = None, show: Sequence[str] | None = None
) -> tuple[int, int, list[dict[str, Any]]]:
    """Return the number of rows, the weighted number that satisfy all terms, and the first."""
    rows, counted = 0, 0
    for part in slices(frame, [*_asked(where), *([weight] if weight else [])]):
        mask = _mask(part, where)
        rows += len(mask)
        found = pc.sum(mask).as_py() or 0
        counted += (pc.sum(part[weight].filter(mask)).as_py() or 0) if weight else found
    if not counted:
        return rows, 0, []
    shown = list(show or types(frame))
    examples = _first(slices(frame, [*_asked(where), *shown]), where)
    return rows, counted, [{name: row.get(name) for name in shown} for row in examples.to_pylist()]


def _first(parts: Iterator[pa.Table], where: Sequence[Term]) -> pa.Table:
    found: list[pa.Table] = []
    for part in parts:
        left = MAX_EXAMPLES - sum(table.num_rows for table in found)
        if not left:
            break
        found.append(part.filter(_mask(part, where))[:left])
    return pa.concat_tables(found, promote_options="default") if found else pa.table({})


def _asked(where: Sequence[Term]) -> list[str]:
    operands = [term[2]["column"] for term in where if len(term) > 2 and isinstance(term[2], Mapping)]
    return [term[0] for term in where] + operands


def _mask(part: pa.Table, where: Sequence[Term]) -> Any:
    return reduce(pc.and_, (pc.fill_null(_term(part, *term), fill_value=False) for term in where))


def _term(part: pa.Table, column: str, relation: str, operand: Any = None) -> Any:
    needed = [column, operand["column"]] if isinstance(operand, Mapping) else [column]
    if not set(needed) <= set(part.column_names):
        return pa.chunked_array([pa.repeat(relation == "is null", part.num_rows)])
    values = part[column]
    if relation == "is null":
        return pc.is_null(values)
    if relation == "is not null":
        return pc.is_valid(values)
    if relation in {"in", "not in"}:
        known = pc.is_in(values, value_set=pa.array(operand, values.type))
        return pc.and_(pc.is_valid(values), known if relation == "in" else pc.invert(known))
    return _COMPARISONS[relation](values, part[operand["column"]] if isinstance(operand, Mapping) else operand)


def null_counts(frame: pd.DataFrame, columns: Sequence[str]) -> list[int]:
    """Return the number of nulls in each column."""
    found = np.zeros(len(columns), dtype=np.int64)
    for part in slices(frame, columns):
        there = set(part.column_names)
        found += [part[name].null_count if name in there else part.num_rows for name in columns]
    return [int(count) for count in found]


def duplicated(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of rows with repeated values, and the first values; null equals null.

    Hashes of 8 bytes per row are on disk; equal ones are compared by value.
    """
    several = _more_than_once(_hashes(part, columns) for part in slices(frame, columns))
    if not several.size:
        return 0, []
    alike = pa.concat_tables(
        part.filter(pa.array(np.isin(_hashes(part, columns), several))) for part in slices(frame, columns)
    )
    counted = alike.group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
    same = counted.filter(pc.greater(counted["count_all"], 1))
    return int(pc.sum(same["count_all"]).as_py() or 0), same.select(list(columns))[:MAX_EXAMPLES].to_pylist()


def _more_than_once(parts: Iterator[_Hashes]) -> _Hashes:
    """Equal hashes are in one file, read one at a time."""
    with ExitStack() as opened:
        files = [opened.enter_context(TemporaryFile()) for _ in range(1 << _FILE_BITS)]
        for hashes in parts:
            of_file = hashes >> np.uint64(64 - _FILE_BITS)
            for at, file in enumerate(files):
                hashes[of_file == at].tofile(file)
        return np.concatenate([_again(file) for file in files])


def _again(file: IO[bytes]) -> _Hashes:
    file.seek(0)
    hashes = np.fromfile(file, np.uint64)
    hashes.sort()
    again: _Hashes = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    return again


def _hashes(part: pa.Table, columns: Sequence[str]) -> _Hashes:
    return reduce(
        lambda known, new: (known * np.uint64(0x100000001B3)) ^ new,
        (_hash(part[name].combine_chunks()) for name in columns),
        np.zeros(part.num_rows, np.uint64),
    )


def _hash(values: Any) -> _Hashes:
    if pa.types.is_integer(values.type):
        found = pd.util.hash_array(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))
    else:
        encoded = values.dictionary_encode()
        each = pd.util.hash_array(np.array([*map(str, encoded.dictionary.to_pylist()), ""], dtype=object))
        found = each[pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)]
    missing = values.is_null().to_numpy(zero_copy_only=False)
    found[missing] = _NULL
    return found
