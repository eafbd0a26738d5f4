"""Parquet files with one partition per row group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from history.streams import read_stream

CHUNK_ROWS = 2_000_000  # limits memory
SHARED_ROWS = 65_536  # smaller partitions share a group


def write_partitioned(batches: Iterable[pa.RecordBatch], file: Path, schema: pa.Schema) -> int:
    """Write rows by partition and return their number."""
    written = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for chunk in _chunks(batches, schema):
            written += chunk.num_rows
            if {"topic", "partition"} <= set(schema.names):
                for group in _groups(chunk):
                    writer.write_table(group, row_group_size=CHUNK_ROWS)
            else:
                writer.write_table(chunk)
    return written


def _chunks(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held, schema)


def _groups(chunk: pa.Table) -> Iterator[pa.Table]:
    order = pc.sort_indices(chunk, sort_keys=[("topic", "ascending"), ("partition", "ascending")])  # stable
    ordered = chunk.take(order)
    topic = ordered["topic"].combine_chunks().dictionary_encode().indices.to_numpy()
    partition = ordered["partition"].to_numpy()
    begins = np.flatnonzero((np.diff(topic, prepend=-1) != 0) | (np.diff(partition, prepend=-1) != 0)).tolist()
    start = 0
    for begin, end in zip(begins, [*begins[1:], ordered.num_rows], strict=True):
        if end - start >= SHARED_ROWS or end - begin >= SHARED_ROWS:
            if begin > start and end - begin >= SHARED_ROWS:
                yield ordered.slice(start, begin - start)
                start = begin
            yield ordered.slice(start, end - start)
            start = end
    if start < ordered.num_rows:
        yield ordered.slice(start)


Read = Callable[[Path], Iterable[pa.RecordBatch]]


def streams_to_parquet(streams: list[Path], folder: Path, schema: pa.Schema, read: Read = read_stream) -> int:
    """Convert streams to ``<folder>/<stream name>.parquet`` and return the rows."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = 0
    for path in streams:
        rows += write_partitioned(read(path), folder / f"{path.stem}.parquet", schema)
    return rows
