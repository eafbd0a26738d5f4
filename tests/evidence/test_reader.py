"""Tables read partition by partition, whatever their row groups."""

from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.columns import Names, Sends, seq_of
from evidence.reader import Tables
from history.errors import EvidenceError
from history.folder import RunFolder
from history.partition import TopicPartition
from history.payload import MAX_SEQ
from history.tables import SENDS
from tests.evidence.folders import sent

ROWS = [sent(n, offset=n, partition=n % 3) for n in range(9)]


def write(folder, rows, name="one", **options):
    """Write a file of the ledger."""
    folder.table("sends").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SENDS), folder.table("sends") / f"{name}.parquet", **options)


def test_more_names_than_values_can_tell_apart_are_refused():
    """The 65,536th producer is the last with a value; one more is rejected, and consumers beyond it have no value."""
    names, one = Names([f"n{code}" for code in range(65_535)]), pa.chunked_array([pa.array([7], pa.int64())])

    (last,) = names.values(pa.chunked_array([["last"]]), one).tolist()
    assert names.name(last) == ("last", 7)
    assert names.codes(pa.chunked_array([["a consumer"]])).tolist() == [65_536]
    with pytest.raises(EvidenceError, match="name 65,538 producers and consumers, and 65,536 at most"):
        names.values(pa.chunked_array([["last", "one more"]]), pa.chunked_array([pa.array([7, 7], pa.int64())]))


def numbers(folder, partition, topic="orders"):
    """Return the numbers of the sends to a partition, as read."""
    names = Names()
    sends = Sends.of(Tables(folder).read("sends", TopicPartition(topic, partition)), names)
    return seq_of(sends.value).tolist()


@pytest.mark.parametrize("rows_a_group", [1, 2, 100])
def test_a_partitions_rows_are_read_in_their_order(tmp_path, rows_a_group):
    """A partition's rows are read in order, from row groups of one, several or all partitions."""
    folder = RunFolder(tmp_path)
    write(folder, ROWS, row_group_size=rows_a_group)

    assert [numbers(folder, partition) for partition in range(4)] == [[0, 3, 6], [1, 4, 7], [2, 5, 8], []]
    assert numbers(folder, 0, topic="other") == []
    assert Tables(folder).partitions("sends", "polls") == [TopicPartition("orders", n) for n in range(3)]


def test_files_come_one_after_the_other(tmp_path):
    """Files are read one after the other; each has its dictionary for a column of strings."""
    folder = RunFolder(tmp_path)
    write(folder, ROWS[:4], "a")
    write(folder, [sent(30, producer_id="other"), *ROWS[4:]], "b")

    assert numbers(folder, 0) == [0, 3, 30, 6]


def test_a_file_that_is_no_table_is_left_out(tmp_path):
    """A file that is not a table is skipped, and is reported elsewhere; a table without files is empty."""
    folder = RunFolder(tmp_path)
    assert numbers(folder, 0) == []
    write(folder, ROWS)
    (folder.table("sends") / "torn.parquet").write_bytes(b"PAR1")

    assert numbers(folder, 0) == [0, 3, 6]


@pytest.mark.parametrize(("error", "numbered"), [(OSError(5, "EIO"), None), (OSError("no footer"), [])])
def test_a_file_that_another_try_may_read_is_not_left_out(tmp_path, monkeypatch, error, numbered):
    """An I/O error is raised, so that no table lacks rows; a damaged file's error, without a number, is not."""
    folder = RunFolder(tmp_path)
    write(folder, ROWS)
    monkeypatch.setattr("evidence.reader.parquet_file", Mock(side_effect=error))

    if numbered is None:
        with pytest.raises(OSError, match="EIO"):
            numbers(folder, 0)
    else:
        assert numbers(folder, 0) == numbered


def test_values_tell_producers_and_numbers_apart():
    """One integer identifies producer and number, up to the largest number of a payload."""
    names = Names()
    rows = [sent(n, at_ns=0, producer_id=p) for p in ("a", "b") for n in (0, MAX_SEQ)]
    values = Sends.of(pa.Table.from_pylist(rows, SENDS), names).value.tolist()

    assert [names.name(value) for value in values] == [(row["producer_id"], row["seq"]) for row in rows]
    assert len(set(values)) == 4
    assert names.name(-1) == (None, None)
