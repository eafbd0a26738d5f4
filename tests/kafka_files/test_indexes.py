"""Sparse indexes: the entry of a lookup, and the number of batches to read from there."""

import struct

from kafka_files.indexes import LookUp, by_offset, by_time, offset_entries, segments_of, time_entries
from tests.claims.test_storage import FIRST_MS, replica


def test_a_look_up_reads_on_from_the_entry_below(tmp_path):
    """A lookup reads from the entry below: six batches from offset 20 to 25; beyond the log it finds none."""
    (segment,) = segments_of(replica(tmp_path / "orders-0"))

    found = by_offset(segment, 25)
    assert (found.found.first, found.read) == (25, 6)
    timed = by_time(segment, FIRST_MS + 25)
    assert (timed.found.first, timed.read) == (25, 6)
    assert by_offset(segment, 40).found is None
    assert by_time(segment, FIRST_MS + 40).found is None


def test_a_look_up_without_an_entry_reads_from_the_beginning(tmp_path):
    """A lookup without an entry, or without the index file, reads from the beginning."""
    folder = replica(tmp_path / "orders-0")
    for file in folder.glob("*index"):
        file.unlink()
    (segment,) = segments_of(folder)

    assert by_offset(segment, 25).read == 26
    assert by_time(segment, FIRST_MS).read == 1


def test_an_entry_that_leads_into_a_batch_finds_nothing(tmp_path):
    """An entry that points inside a batch finds no batch."""
    (segment,) = segments_of(replica(tmp_path / "orders-0"))
    wrong = segment._replace(offsets=[(0, 1)])

    assert by_offset(wrong, 25) == LookUp(None, 0)


def test_entries_end_where_the_preallocated_zeros_begin():
    """Entries end at the preallocated zeros, without an incomplete entry; offsets are relative to the segment."""
    assert offset_entries(struct.pack(">iiii", 3, 90, 0, 0), 100) == [(103, 90)]
    assert time_entries(struct.pack(">qiqi", 7, 3, 0, 0), 100) == [(7, 103)]
    assert offset_entries(struct.pack(">ii", 3, 90) + b"half", 100) == [(103, 90)]
