"""Windows of a partition's rows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.facts import FOREVER_NS
from evidence.reader import Tables
from evidence.windows import windows
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import REPLICAS
from tests.evidence.folders import TP, sample

WHERE = TopicPartition(**TP)
OTHER = {"partition": 1}  # of the topic


def written(folder, **files):
    """Write files of the probes' table, three rows a group; a probe is its time, or a row."""
    of = RunFolder(folder)
    of.table("replicas").mkdir()
    for name, probes in files.items():
        rows = [sample(1, each, 0, 0) if isinstance(each, int) else each for each in probes]
        pq.write_table(pa.Table.from_pylist(rows, REPLICAS), of.table("replicas") / f"{name}.parquet", row_group_size=3)
    return Tables(of)


def cut(tables, rows=3):
    """Return (times, end) of each window, None for no end."""
    found = windows(tables, "replicas", WHERE, "sent_ns", rows=rows)
    return [(each.rows["sent_ns"].to_pylist(), None if each.ends == FOREVER_NS else each.ends) for each in found]


@pytest.mark.parametrize("times", [[], [1, 2, 3]])
def test_few_rows_are_one_window(tmp_path, times):
    """A partition of few rows, or none, is one window without an end."""
    assert cut(written(tmp_path, one=times)) == [(times, None)]


def test_windows_do_not_overlap(tmp_path):
    """A row that is late in its file is in the window of its time, and no window ends before a later row."""
    assert cut(written(tmp_path, one=[1, 2, 5, 3, 4, 6, 7, 8])) == [([1, 2], 3), ([5, 3, 4, 6], 7), ([7, 8], None)]


def test_files_are_read_side_by_side(tmp_path):
    """Windows of several files end where the earliest unread row begins."""
    tables = written(tmp_path, a=[1, 2, 3, 10, 11, 12], b=[2, 4, 5, 13])

    assert cut(tables) == [([1], 2), ([2, 3, 2, 4, 5], 10), ([10, 11, 12], 13), ([13], None)]


def test_other_partitions_are_left_out(tmp_path):
    """Rows of other partitions in the same groups belong to no window."""
    mixed = [1, sample(1, 2, 0, 0, **OTHER), 3, sample(1, 4, 0, 0, **OTHER), 5, 6]

    assert cut(written(tmp_path, one=mixed)) == [([1, 3], 5), ([5, 6], None)]
