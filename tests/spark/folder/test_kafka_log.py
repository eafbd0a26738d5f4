"""The format ``kafka_log``: segments of a folder as rows."""

import pytest

from spark.folder.kafka_log import together
from tests.kafka_files.test_segments import TWO, segment


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [([], []), ([5, 5], [[0, 1]]), ([5, 6], [[0], [1]]), ([3, 20, 3, 7], [[0], [1], [2, 3]])],
    ids=["none", "both", "too many", "one too large"],
)
def test_small_segments_share_a_task(sizes, groups):
    """In their order, up to ten bytes here; none is left out."""
    assert [list(group) for group in together(sizes, 10)] == groups


def test_spark_reads_a_folder_of_segments(spark, tmp_path):
    """The format kafka_log gives one row a record with the payload decoded."""
    segment(tmp_path, TWO)
    found = spark.read.format("kafka_log").load(str(tmp_path)).orderBy("offset")

    rows = [tuple(row) for row in found.select("node", "topic", "partition", "offset", "seq", "checksum_ok").collect()]
    assert rows == [("broker-1", "orders", 0, n, n, True) for n in range(3)]


def test_spark_reads_a_folder_without_segments(spark, tmp_path):
    """No segment is no row and no error."""
    assert spark.read.format("kafka_log").load(str(tmp_path)).collect() == []
