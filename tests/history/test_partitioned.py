"""Row groups of one partition each, with every row in its partition's order."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history import partitioned
from history.partitioned import write_partitioned

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("n", pa.int64())])


def written(tmp_path, rows, schema=SCHEMA, batch=4):
    """The row groups of a file, each as its rows."""
    table = pa.Table.from_pylist(rows, schema)
    assert write_partitioned(table.to_batches(max_chunksize=batch), tmp_path / "t.parquet", schema) == len(rows)
    file = pq.ParquetFile(tmp_path / "t.parquet")
    return [file.read_row_group(group).to_pylist() for group in range(file.num_row_groups)]


def mixed(count):
    """Rows of two partitions of t and one of s, in turn."""
    places = [("t", 1), ("s", 0), ("t", 0)]
    return [{"topic": places[n % 3][0], "partition": places[n % 3][1], "n": n} for n in range(count)]


def test_large_partitions_have_groups_of_their_own(tmp_path, monkeypatch):
    """And their rows keep their order."""
    monkeypatch.setattr(partitioned, "SHARED_ROWS", 2)

    groups = written(tmp_path, mixed(9))
    assert [{(row["topic"], row["partition"]) for row in group} for group in groups] == [
        {("s", 0)},
        {("t", 0)},
        {("t", 1)},
    ]
    assert [[row["n"] for row in group] for group in groups] == [[1, 4, 7], [2, 5, 8], [0, 3, 6]]


@pytest.mark.parametrize(("shared", "sizes"), [(100, [9]), (4, [6, 3]), (3, [3, 3, 3])])
def test_small_partitions_share_a_group(tmp_path, monkeypatch, shared, sizes):
    """Up to a number of rows, in the order of topic and partition."""
    monkeypatch.setattr(partitioned, "SHARED_ROWS", shared)

    groups = written(tmp_path, mixed(9))
    assert [len(group) for group in groups] == sizes
    assert [row["n"] for group in groups for row in group] == [1, 4, 7, 2, 5, 8, 0, 3, 6]


def test_a_long_stream_is_sorted_piece_by_piece(tmp_path, monkeypatch):
    """Memory is bounded by the piece; a partition's rows are still in their order over all pieces."""
    monkeypatch.setattr(partitioned, "CHUNK_ROWS", 6)
    monkeypatch.setattr(partitioned, "SHARED_ROWS", 1)

    groups = written(tmp_path, mixed(12), batch=3)
    of_t1 = [row["n"] for group in groups for row in group if (row["topic"], row["partition"]) == ("t", 1)]
    assert (len(groups), of_t1) == (6, [0, 3, 6, 9])


def test_a_table_without_partitions_is_written_as_it_comes(tmp_path):
    """Counters of hosts have none; an empty table has its schema."""
    plain = pa.schema([("n", pa.int64())])

    assert written(tmp_path, [{"n": 2}, {"n": 1}], plain) == [[{"n": 2}, {"n": 1}]]
    assert written(tmp_path, [], SCHEMA) == []
    assert pq.read_schema(tmp_path / "t.parquet") == SCHEMA
