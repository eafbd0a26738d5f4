"""Unreadable files of a run are named; empty tables are empty."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history.errors import EvidenceError
from history.folder import RunFolder
from history.tables import JUDGED
from reports.run_data import read_run
from reports.run_page import render
from reports.shown import MOST_SHOWN
from tests.reports.sample_run import write_sample_run


def test_a_whole_run_misses_nothing(tmp_path: Path) -> None:
    """A complete run has no missing tables; every table is read, including one without rows."""
    run = read_run(write_sample_run(tmp_path / "run-1"))

    assert run.missing == []
    assert run.tables["anomalies"] == []


def test_a_table_that_was_not_written_is_named(tmp_path: Path) -> None:
    """A table that was not written is named, and is not an empty one."""
    folder = write_sample_run(tmp_path / "run-1")
    (folder / "verdict" / "anomalies" / "part-00000.parquet").unlink()

    run = read_run(folder)

    assert run.missing == ["verdict/anomalies: the table was not written"]
    assert "anomalies" not in run.tables


def test_a_table_that_lacks_a_column_is_named(tmp_path: Path) -> None:
    """A table that lacks a column is named."""
    folder = write_sample_run(tmp_path / "run-1")
    pq.write_table(pa.table({"phase": ["steady"]}), folder / "verdict" / "latency" / "part-00000.parquet")

    assert read_run(folder).missing == [
        "latency/part-00000.parquet is no table of this format: column seconds is missing or of another type."
    ]


def test_a_run_that_was_not_judged_is_unknown(tmp_path: Path) -> None:
    """A run that was not judged is unknown and is named as such."""
    folder = write_sample_run(tmp_path / "run-1")
    (folder / "verdict" / "verdict.json").unlink()

    run = read_run(folder)

    assert run.verdict["verdict"] == "unknown"
    assert run.missing == ["verdict/verdict.json: the run was not judged"]


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("manifest.json", "unknown"),
        ("events.jsonl", "unknown"),
        ("clients/producer.json", "unknown"),
        ("offsets/part-00000.parquet", "unknown"),
        ("brokers/broker-1/server.log", "pass"),  # is not read here
        ("verdict/verdict.json", "pass"),  # is not sealed
    ],
)
def test_of_a_run_that_was_altered_after_sealing_the_verdict_is_unknown(tmp_path: Path, file: str, shown: str) -> None:
    """The verdict of a run changed after sealing is unknown, and its sentence names the changed file."""
    folder = write_sample_run(tmp_path / "runs" / "run-1")
    RunFolder(folder).seal()
    before = read_run(folder).verdict
    (folder / file).open("a").write("\n")
    run = read_run(folder)

    assert before["verdict"] == "pass"
    assert run.verdict["verdict"] == shown
    altered = f"The run folder run-1 is not what was sealed: {file} was changed after sealing."
    assert run.verdict["sentence"] == (altered if shown == "unknown" else before["sentence"])
    assert f'data-verdict="{shown}"' in render(run, tmp_path / "site")


def test_a_word_that_is_no_verdict_is_unknown(tmp_path: Path) -> None:
    """A verdict other than pass, fail and unknown is unknown."""
    folder = write_sample_run(tmp_path / "run-1")
    (folder / "verdict" / "verdict.json").write_text(json.dumps({"verdict": "passed"}))

    run = read_run(folder)

    assert run.verdict["verdict"] == "unknown"
    assert run.missing == ["verdict/verdict.json: 'passed' is no verdict"]


def test_a_rate_that_is_no_number_is_not_known(tmp_path: Path) -> None:
    """A rate of NaN, which JSON lacks, becomes null."""
    folder = write_sample_run(tmp_path / "run-1")
    place = folder / "verdict" / "delivery" / "part-00000.parquet"
    rows = pq.read_table(place).to_pylist()
    pq.write_table(pa.Table.from_pylist([{**rows[0], "duplicate_rate": float("nan")}], JUDGED["delivery"]), place)

    assert read_run(folder).tables["delivery"][0]["duplicate_rate"] is None


def test_a_folder_without_a_manifest_is_no_run(tmp_path: Path) -> None:
    """A folder without a manifest is no run."""
    with pytest.raises(EvidenceError, match=r"manifest\.json is missing"):
        read_run(tmp_path)


def test_of_a_wide_run_only_the_series_that_are_shown_are_read(tmp_path: Path) -> None:
    """Only the shown series of a wide run are read; tables with counts are read completely."""
    folder = write_sample_run(tmp_path / "run-1")
    wide = MOST_SHOWN + 6
    for name in ("delivery", "timeline_replicas"):
        place = next((folder / "verdict" / name).glob("*.parquet"))
        rows = [row for row in pq.read_table(place).to_pylist() if row["partition"] == 0]
        many = [{**row, "partition": number} for number in range(wide) for row in rows]
        pq.write_table(pa.Table.from_pylist(many, JUDGED[name]), place)
    run = read_run(folder)

    assert len(run.partitions) == wide
    assert len(run.rows("delivery")) == wide
    assert {row["partition"] for row in run.rows("timeline_replicas")} == set(range(MOST_SHOWN))
    assert {row["partition"] for row in run.rows_shown("delivery")} == set(range(MOST_SHOWN))
    assert f"of {MOST_SHOWN} of {wide} partitions" in render(run, tmp_path / "site")
