"""Recorded tables in older formats, and the bytes of judged tables."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.reader import Tables
from evidence.run import readable
from evidence.tables import read_rows, read_rows_of, table_of, write_table
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import ANOMALY_COUNTS, SENDS, TIMELINE_REPLICAS
from tests.evidence.folders import TP, sent


@pytest.mark.parametrize(
    ("lacking", "problems"),
    [
        ("transaction", []),
        ("offset", ["sends/a.parquet is no table of this format: column offset is missing or of another type."]),
    ],
)
def test_a_column_that_came_later_may_be_lacking(tmp_path, lacking, problems):
    """A column added later may be missing, and is null then; any other column is required."""
    (tmp_path / "sends").mkdir()
    table = pa.Table.from_pylist([sent(0, offset=5, transaction=1)], SENDS).drop_columns(lacking)
    pq.write_table(table, tmp_path / "sends" / "a.parquet")
    _, found = readable(tmp_path / "sends", SENDS)
    read = Tables(RunFolder(tmp_path)).read("sends", TopicPartition(**TP))

    assert found == problems
    assert [row[lacking] for row in read.to_pylist()] == ([] if problems else [None])


def test_the_same_rows_give_the_same_bytes(tmp_path):
    """The same rows yield the same bytes in any order; a missing value is null."""
    counted = [{"anomaly": name, "severity": "S1", "allowed": False, "cases": n} for n, name in enumerate("ba")]
    for name, rows in (("one", counted), ("other", counted[::-1])):
        write_table(table_of(rows, ANOMALY_COUNTS), tmp_path / name, ANOMALY_COUNTS)
    files = [tmp_path / name / "part-0.parquet" for name in ("one", "other")]

    assert files[0].read_bytes() == files[1].read_bytes()
    assert [row["anomaly"] for row in read_rows(files[:1], ANOMALY_COUNTS)] == ["a", "b"]
    assert [row["allowed_why"] for row in read_rows(files[:1], ANOMALY_COUNTS)] == [None, None]


def test_rows_of_some_partitions_are_read_from_a_large_table(tmp_path):
    """Rows of some partitions are read from a large table, without other topics' partitions of the same number."""
    places = [TopicPartition(topic, number) for topic in ("orders", "trades") for number in range(4)]
    rows = [{**where._asdict(), "broker_id": 1, "t_ns": 5} for where in places]
    file = tmp_path / "part-0.parquet"
    pq.write_table(table_of(rows, TIMELINE_REPLICAS), file, row_group_size=3)
    wanted = [TopicPartition("orders", 3), TopicPartition("trades", 0)]

    assert [TopicPartition.of(row) for row in read_rows_of([file], TIMELINE_REPLICAS, wanted)] == wanted
    assert read_rows_of([file], TIMELINE_REPLICAS, []) == []
