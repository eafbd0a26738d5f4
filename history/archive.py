"""The archive: one immutable Parquet file per judged run, a row per (run, metric, phase).

It outlives the run folders, and is rebuilt from them: ``make archive REBUILD=1``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# What was measured. A row without a value says that nothing was seen, and `note` says why.
METRIC = [
    pa.field("metric", pa.string(), nullable=False),  # a name of docs/metrics.md, with its unit as its ending
    pa.field("phase", pa.string(), nullable=False),  # "" for the whole run
    pa.field("value", pa.float64()),
    pa.field("samples", pa.int64()),  # records, sends or probes behind the value
    pa.field("censored", pa.bool_(), nullable=False),  # at least the value: the observation ended first
    pa.field("trusted", pa.bool_(), nullable=False),  # false: no basis for a comparison, for the reason in `note`
    pa.field("note", pa.string()),
]
_RUN = [
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("started_at", pa.string(), nullable=False),  # ISO 8601, UTC
    pa.field("scenario", pa.string(), nullable=False),
    pa.field("scenario_digest", pa.string(), nullable=False),
    pa.field("kafka_version", pa.string(), nullable=False),
    pa.field("kafka_jars_digest", pa.string(), nullable=False),
    pa.field("mode", pa.string(), nullable=False),
    pa.field("runtime", pa.string(), nullable=False),
    pa.field("jvm", pa.string(), nullable=False),  # stock, or quick (for correctness alone)
    pa.field("seed", pa.int64(), nullable=False),
    pa.field("host", pa.string(), nullable=False),  # a digest of what makes a host comparable with itself
    pa.field("verdict", pa.string(), nullable=False),  # pass, fail or unknown
    pa.field("sentence", pa.string(), nullable=False),  # the verdict in words
    pa.field("anomalies", pa.map_(pa.string(), pa.int64()), nullable=False),  # of the verdict, allowed ones included
    pa.field("broken", pa.list_(pa.string()), nullable=False),  # invariants that did not hold
    pa.field("labels", pa.map_(pa.string(), pa.string()), nullable=False),  # campaign, item, and the campaign's own
]
ARCHIVE = pa.schema([*_RUN, *METRIC])


def add(archive: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the rows of one run, aside and then renamed; a run that is judged anew replaces its own file."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=ARCHIVE)
    run_id = table["run_id"][0].as_py()
    archive.mkdir(parents=True, exist_ok=True)
    partial = archive / f".{run_id}.{os.getpid()}"
    pq.write_table(table, partial)
    return partial.rename(archive / f"{run_id}.parquet")


def read(archive: Path, **labels: str) -> list[dict[str, Any]]:
    """The rows of every run, or of those that carry these labels; oldest run first, maps as dictionaries."""
    files = sorted(archive.glob("*.parquet"))
    tables = [pq.read_table(file, schema=ARCHIVE) for file in files]
    rows = [row for table in tables for row in table.to_pylist(maps_as_pydicts="strict")]
    return [row for row in rows if labels.items() <= row["labels"].items()]
