"""Small tables of a run folder as rows, and the judge's own tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from history.remote import parquet_file, write_parquet


def read_rows(files: Sequence[Path], schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows of a small table, from those of its files that can be read."""
    read = (parquet_file(file).read(columns=schema.names) for file in files)  # pq.read_table imports pandas
    return [row for table in read for row in table.to_pylist()]


def table_of(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table; what a row does not name is null, and what the schema does not name is left out."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


def write_table(table: pa.Table, folder: Path, schema: pa.Schema) -> None:
    """Write a judged table as one file with exactly this schema; the same rows give the same bytes."""
    table = table.select(schema.names).cast(schema)
    keys = [(field.name, "ascending") for field in schema if not pa.types.is_nested(field.type)]
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(table.sort_by(keys) if table.num_rows else table, folder / "part-0.parquet")
