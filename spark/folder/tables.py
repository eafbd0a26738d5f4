"""The tables of a run folder as DataFrames, with schemas derived from history/tables.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark.evidence.reader import problem_of

PARTITION = ["topic", "partition"]
VALUE = ["producer_id", "seq"]
REPLICA = ["broker_id", *PARTITION]


def rows(spark: SparkSession, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """A DataFrame of literal rows; what a row does not name is null."""
    # From Arrow it is a local relation: no job and no Python worker reads it.
    literal = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    return spark.createDataFrame(literal, from_arrow_schema(schema))


def read_table(spark: SparkSession, folder: Path, schema: pa.Schema) -> tuple[DataFrame, list[str]]:
    """A recorded table, and one sentence for each of its files that cannot be read as such."""
    problems = {file: problem_of(file, schema) for file in sorted(folder.glob("*.parquet"))}
    readable = [str(file) for file, problem in problems.items() if problem is None]
    sentences = [problem for problem in problems.values() if problem is not None]
    if not readable:
        return rows(spark, schema, []), sentences
    return spark.read.schema(from_arrow_schema(schema)).parquet(*readable), sentences


def write_table(frame: DataFrame, folder: Path, schema: pa.Schema) -> None:
    """Write a judged table as one file with exactly this schema; the same rows give the same bytes."""
    ordered = frame.select(*schema.names).toArrow().cast(schema)
    keys = [(field.name, "ascending") for field in schema if not pa.types.is_nested(field.type)]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(ordered.sort_by(keys) if ordered.num_rows else ordered, folder / "part-0.parquet")
