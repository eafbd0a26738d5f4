"""Every recorded row is counted once, wherever it is."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.run import open_folder
from expectations.tallies import COLUMNS, NULLS, UNCOUNTED
from history.tables import RECORDED
from judge.run import judge_run, one_by_one
from tests.evidence.folders import S, clean, sample, sent


def violations(tmp_path, **more):
    """Return rule → rows for a clean run with more files of tables."""
    folder = clean().write(tmp_path / "run")
    for name, table in more.items():
        pq.write_table(table, folder.table(name) / "more.parquet")
    judged = judge_run(open_folder(folder), one_by_one)
    return {(table, rule): (count, rows) for table, rule, count, rows in judged.tallies.violations()}


def rows_of(name, *rows):
    """Return rows of a recorded table, whose columns may be null."""
    schema = pa.schema([field.with_nullable(True) for field in RECORDED[name]])
    return pa.Table.from_pylist(rows, schema)


def test_a_clean_run_keeps_every_contract(tmp_path):
    """A clean run has no violation."""
    assert violations(tmp_path) == {}


def test_a_number_on_two_partitions_is_found(tmp_path):
    """A producer's number that is used on two partitions is a repeated key; an unused one is not."""
    more = rows_of("sends", sent(7, offset=0, partition=1), sent(50, offset=1, partition=1))
    key = {"producer_id": "load-1", "seq": 7}

    assert violations(tmp_path, sends=more) == {("sends", "producer_id, seq are unique together"): (2, [key])}


@pytest.mark.parametrize("received_ns", [S, 3 * S])
def test_rows_that_no_check_reads_are_counted(received_ns, tmp_path):
    """Rows of a partition that is not judged are counted."""
    more = rows_of("replicas", sample(1, 2 * S, 5, 5, topic="others", received_ns=received_ns))
    found = violations(tmp_path, replicas=more)

    assert [rule for _, rule in found] == (["sent_ns is not after received_ns"] if received_ns == S else [])


@pytest.mark.parametrize(("partitions", "rule"), [([0, None], NULLS), ([0, 1, None], UNCOUNTED)])
def test_a_row_without_a_partition_is_found(partitions, rule, tmp_path):
    """A row without a partition breaks its table's contract, also if no partition's pass reads it."""
    more = [sample(1, (at + 2) * S, 5, 5) | {"partition": number} for at, number in enumerate(partitions)]

    assert [*violations(tmp_path, replicas=rows_of("replicas", *more))] == [("replicas", rule)]


def test_a_column_that_the_format_lacks_is_found(tmp_path):
    """A column that the format does not have breaks the contract; an older file without a later column does not."""
    more = rows_of("sends", sent(50, offset=50)).drop_columns(["transaction"])
    found = violations(tmp_path, sends=more.append_column("colour", pa.array(["red"])))

    assert found == {("sends", COLUMNS): (51, [{"column": "colour"}])}


def test_captures_are_counted(tmp_path):
    """Tables that the driver reads whole are counted."""
    found = violations(tmp_path, offsets=rows_of("offsets", {"capture": "after", **sample(1, 9 * S, None, 9)}))

    assert [rule for _, rule in found] == ["never an answer without a high watermark"]
