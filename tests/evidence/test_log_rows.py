"""A log's rows in windows of offsets."""

import pytest

from evidence import log_rows as module
from evidence.facts import FOREVER_NS, Replica
from evidence.log_rows import last_offsets_of, log_rows, log_windows
from tests.evidence.folders import batch, values

ALL = (-(2**63), FOREVER_NS)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Write two segments: batches of two records from offsets 0, 2, 4, and from 6, 8; two batches are read at once."""
    monkeypatch.setattr(module, "BATCHES", 2)
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for bases in ((0, 2, 4), (6, 8)):
        written = b"".join(batch(base, values(base, base + 1)) for base in bases)
        (folder / f"{bases[0]:020}.log").write_bytes(written)
    return Replica(1, sorted(folder.iterdir()), [])


def windows(log, begin, end):
    """Return (offsets or problems, end) of each window, None for no end."""
    return [
        ([row["offset"] if row["problem"] is None else row["problem"] for row in rows.to_pylist()], ends)
        for rows, ends in log_windows(log, begin, end)
    ]


def test_windows_end_where_the_next_batches_begin(log):
    """A window ends at the first offset of the batches that are read next, also of the next segment."""
    assert windows(log, *ALL) == [([0, 1, 2, 3], 4), ([4, 5], 6), ([6, 7, 8, 9], FOREVER_NS), ([], FOREVER_NS)]


def test_a_batch_belongs_to_each_range_that_has_records_of_it(log):
    """Ranges that divide a batch have its records between them."""
    assert windows(log, 1, 3) == [([1, 2], 4), ([], FOREVER_NS)]
    assert windows(log, 3, 7) == [([3], 4), ([4, 5], 6), ([6], FOREVER_NS), ([], FOREVER_NS)]
    assert windows(log, 10, 99) == [([], FOREVER_NS)]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_torn_tail_is_at_the_last_offset_before_it(log, batches, monkeypatch):
    """A torn tail belongs to the range of the last record before it, whether or not it is read with it."""
    monkeypatch.setattr(module, "BATCHES", batches)
    log.segments[1].write_bytes(log.segments[1].read_bytes()[:-1])

    found = [each for rows, _ in windows(log, 7, 99) for each in rows]
    assert found == [7, "torn tail"]
    assert [each for rows, _ in windows(log, 0, 7) for each in rows] == [0, 1, 2, 3, 4, 5, 6]


def test_a_segment_is_read_at_once(log):
    """The rows of a whole segment name it by its first offset; its last offset is that of its readable batches."""
    first, second = map(log_rows, log.segments)

    assert [first["offset"].to_pylist(), second["offset"].to_pylist()] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
    assert (last_offsets_of(first), last_offsets_of(second)) == ({0: 5}, {6: 9})


def test_an_empty_segment_has_no_rows(log):
    """A segment without bytes, as an active one may be, has no rows and ends no window early."""
    log.segments[1].write_bytes(b"")

    assert log_rows(log.segments[1]).num_rows == 0
    assert windows(log, *ALL) == [([0, 1, 2, 3], 4), ([4, 5], 6), ([], FOREVER_NS)]
