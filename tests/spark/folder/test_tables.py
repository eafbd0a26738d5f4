"""Recorded tables as files of other dates have them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history.tables import SENDS
from spark.folder.tables import read_table
from tests.spark.folders import sent


@pytest.mark.parametrize(
    ("lacking", "problems"),
    [
        ("transaction", []),
        ("offset", ["sends/a.parquet is no table of this format: column offset is missing or of another type."]),
    ],
)
def test_a_column_that_came_later_may_be_lacking(spark, tmp_path, lacking, problems):
    """It is null then; any other column is owed."""
    (tmp_path / "sends").mkdir()
    table = pa.Table.from_pylist([sent(0, offset=5, transaction=1)], SENDS).drop_columns(lacking)
    pq.write_table(table, tmp_path / "sends" / "a.parquet")
    frame, found = read_table(spark, tmp_path / "sends", SENDS)

    assert found == problems
    assert [row[lacking] for row in frame.collect()] == ([] if problems else [None])
