"""The examples of docs/archive.md read a real archive that two processes write at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from clusters.paths import ROOT
from history import archive
from history.archive import ARCHIVE
from history.java import spark_java_home

PAGE = (ROOT / "docs" / "archive.md").read_text()
LINES = dict(re.findall(r"^# (DuckDB|pandas|Spark)\n(.+)$", PAGE, re.MULTILINE))


def row(number: int, version: str, value: float) -> dict[str, Any]:
    """Return a run with one metric."""
    texts = {field.name: "" for field in ARCHIVE if str(field.type) == "string"}
    told = {"anomalies": {}, "broken": [], "labels": {"campaign": "c"}, "seed": 1, "censored": False, "trusted": True}
    own = {"run_id": f"run-{number}", "kafka_version": version, "metric": "latency_p99_ms", "value": value}
    return {**texts, **told, **own}


def write(folder: Path, version: str, first: int) -> None:
    """Write forty runs of 1 ms to 40 ms."""
    for number in range(40):
        archive.add(folder, [row(first + number, version, number + 1.0)])


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive that two processes wrote."""
    folder = tmp_path_factory.mktemp("archived") / "archive"
    with ProcessPoolExecutor(2) as pool:
        wrote = [pool.submit(write, folder, version, first) for version, first in (("3.9.0", 0), ("3.9.1", 100))]
        while not all(each.done() for each in wrote):
            assert all(found["value"] >= 1 for found in archive.read(folder))  # whole files only
        for each in wrote:
            each.result()
    return folder


@pytest.fixture
def written(archived: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive in the working directory."""
    monkeypatch.chdir(archived.parent)
    return archived


def test_two_processes_write_to_one_archive(written: Path) -> None:
    """An archive written by two processes holds every run of both and nothing else."""
    assert len(archive.read(written)) == 80
    assert sorted(path.suffix for path in written.iterdir()) == [".parquet"] * 80


def test_duckdb_and_pandas_read_it_by_the_page(written: Path) -> None:
    """The page's lines for DuckDB and pandas read the archive with equal results."""
    told = eval(LINES["DuckDB"], {"duckdb": duckdb})  # a line of our own page
    also = eval(LINES["pandas"], {"pandas": pd})  # as above

    assert dict(told.fetchall()) == also.to_dict() == {"3.9.0": 20.5, "3.9.1": 20.5}


@pytest.mark.slow
@pytest.mark.pipeline
def test_spark_reads_it_by_the_page(written: Path) -> None:
    """The page's line for Spark reads the archive in a separate process."""
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        f"print(sorted(tuple(row) for row in {LINES['Spark']}.collect()))\n"
    )
    java = os.environ | {"JAVA_HOME": str(spark_java_home())}
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=written.parent, env=java, check=True, capture_output=True, text=True
    )

    assert ended.stdout.strip() == "[('3.9.0', 20.5), ('3.9.1', 20.5)]"


def test_every_column_is_on_the_page() -> None:
    """The page explains every column of the archive."""
    named = set(re.findall(r"`(\w+)`", PAGE.partition("| column |")[2].partition("\n\n")[0]))

    assert named == set(ARCHIVE.names)
