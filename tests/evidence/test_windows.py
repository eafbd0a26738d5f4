"""Windows of a partition's rows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.facts import FOREVER_NS
from evidence.reader import NOWHERE, Tables
from evidence.windows import Window, aligned, windows
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import REPLICAS, SENDS
from tests.evidence.folders import TP, sample, sent

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


# --- windows of offsets ------------------------------------------------------------------------------


def ledger(folder, **files):
    """Write files of sends, three rows a group; a send is its offset."""
    of = RunFolder(folder)
    of.table("sends").mkdir()
    for name, offsets in files.items():
        rows = [sent(number, offset=offset) for number, offset in enumerate(offsets)]
        pq.write_table(pa.Table.from_pylist(rows, SENDS), of.table("sends") / f"{name}.parquet", row_group_size=3)
    return of


def offsets_of(folder, begin, end):
    """Return (offsets, end) of each window of a range, None for no end."""
    found = windows(Tables(folder, within=(begin, end)), "sends", WHERE, "offset", rows=3)
    return [(each.rows["offset"].to_pylist(), None if each.ends == FOREVER_NS else each.ends) for each in found]


def test_a_range_has_its_offsets_only(tmp_path):
    """The windows of a range have its rows, wherever they stand, and not those of others."""
    folder = ledger(tmp_path, one=[0, 1, 2, 5, 3, 4, 6, 7, 8])

    assert offsets_of(folder, 2, 7) == [([2], 3), ([5, 3, 4], 6), ([6], None)]
    assert offsets_of(folder, 20, 30) == [([], None)]


def test_a_row_without_offset_is_in_the_first_range(tmp_path):
    """Unknown offsets belong to the range that begins with ``NOWHERE``, also if they are last in the file."""
    folder = ledger(tmp_path, one=[0, None, 1, 2, 3, 4, None, None])

    assert [row for rows, _ in offsets_of(folder, NOWHERE, 2) for row in rows] == [0, None, 1, None, None]
    assert [row for rows, _ in offsets_of(folder, 2, FOREVER_NS) for row in rows] == [2, 3, 4]


def test_rows_of_ranges_are_numbered_as_recorded(tmp_path):
    """A row's number tells its place in all files, whichever range it is read with."""
    folder = ledger(tmp_path, a=[3, 0], b=[1, 2])

    parts = [Tables(folder, within=each).read("sends", WHERE) for each in ((NOWHERE, 2), (2, FOREVER_NS))]
    rows = pa.concat_tables(parts).sort_by("at")
    assert rows["offset"].to_pylist() == [3, 0, 1, 2]


def test_sources_are_aligned():
    """All sources' rows come in common ranges, which end where a source has not been read further."""

    def source(*parts):
        return iter([Window(pa.table({"offset": pa.array(own, pa.int64())}), end) for own, end in parts])

    found = aligned(
        {"a": source(([0, 1], 2), ([2, 5], FOREVER_NS)), "b": source(([0], 1), ([1, 2, 3], 4), ([4], FOREVER_NS))},
        {"a": "offset", "b": "offset"},
    )

    assert [tuple(each[name]["offset"].to_pylist() for name in "ab") for each in found] == [
        ([0], [0]),
        ([1], [1]),
        ([2], [2, 3]),
        ([5], [4]),
    ]
