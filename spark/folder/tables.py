"""The tables of a run folder as DataFrames, with schemas derived from history/tables.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from history.tables import LATER

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
    problems = {file: _problem(file, schema) for file in sorted(folder.glob("*.parquet"))}
    readable = [str(file) for file, problem in problems.items() if problem is None]
    sentences = [problem for problem in problems.values() if problem is not None]
    if not readable:
        return rows(spark, schema, []), sentences
    return spark.read.schema(from_arrow_schema(schema)).parquet(*readable), sentences


def _problem(file: Path, schema: pa.Schema) -> str | None:
    name = f"{file.parent.name}/{file.name}"
    try:
        found = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        return f"{name} cannot be read as Parquet: {' '.join(str(error).split())[:160].rstrip('.')}."
    types = {field.name: field.type for field in found}
    owed = [field for field in schema if field.name in types or field.name not in LATER]
    wrong = [field.name for field in owed if not _compatible(types.get(field.name), field.type)]
    return f"{name} is no table of this format: column {wrong[0]} is missing or of another type." if wrong else None


def _compatible(found: pa.DataType | None, wanted: pa.DataType) -> bool:
    # A list's element field may be called item or element, as its writer likes.
    if found is not None and pa.types.is_list(wanted):
        return pa.types.is_list(found) and bool(found.value_type == wanted.value_type)
    return bool(found == wanted)


def write_table(frame: DataFrame, folder: Path, schema: pa.Schema) -> None:
    """Write a judged table as one file with exactly this schema; the same rows give the same bytes."""
    ordered = frame.select(*schema.names).toArrow().cast(schema)
    keys = [(field.name, "ascending") for field in schema if not pa.types.is_nested(field.type)]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(ordered.sort_by(keys) if ordered.num_rows else ordered, folder / "part-0.parquet")
