"""Read small tables as rows, and write the judge's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from history.partition import TopicPartition
from history.remote import parquet_file, write_parquet

_ROWS_AT_ONCE = 1 << 20


def read_table(files: Sequence[Path], schema: pa.Schema) -> pa.Table:
    """Read a small table."""
    read = (parquet_file(file).read(columns=schema.names) for file in files)  # pq.read_table imports pandas
    return pa.concat_tables([schema.empty_table(), *read], promote_options="default")


def read_rows(files: Sequence[Path], schema: pa.Schema) -> list[dict[str, Any]]:
    """Read all rows of a small table."""
    rows: list[dict[str, Any]] = read_table(files, schema).to_pylist()
    return rows


def read_rows_of(files: Sequence[Path], schema: pa.Schema, wanted: Collection[TopicPartition]) -> list[dict[str, Any]]:
    """Read some partitions' rows of a table."""
    return [row for file in files for part in _parts(file, schema, wanted) for row in part.to_pylist()]


def _parts(file: Path, schema: pa.Schema, wanted: Collection[TopicPartition]) -> Iterator[pa.RecordBatch]:
    numbers: dict[str, list[int]] = {}
    for topic, partition in wanted:
        numbers.setdefault(topic, []).append(partition)
    for batch in parquet_file(file).iter_batches(_ROWS_AT_ONCE, columns=schema.names):
        for topic, partitions in numbers.items():
            of_partitions = pc.is_in(batch["partition"], pa.array(partitions, batch["partition"].type))
            yield batch.filter(pc.and_(pc.equal(batch["topic"], topic), of_partitions))


def table_of(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Convert rows: missing fields become null, extra ones are dropped."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


def write_table(table: pa.Table, folder: Path, schema: pa.Schema) -> None:
    """Write a judge's table; equal rows give equal bytes."""
    table = table.select(schema.names).cast(schema)
    keys = [(field.name, "ascending") for field in schema if not pa.types.is_nested(field.type)]
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(table.sort_by(keys) if table.num_rows else table, folder / "part-0.parquet")
