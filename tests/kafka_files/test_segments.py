"""Segments are read record by record, and damage is reported where it stands."""

import google_crc32c
import pytest

from kafka_files.segments import batches, read_segment, records, segment_files
from tests.spark.folders import batch, values, varint

TWO = batch(0, values(0, 1)) + batch(2, values(2), epoch=1)


def segment(folder, data, replica="orders-0"):
    """A segment file of one replica of broker-1."""
    path = folder / "broker-1" / "data" / replica
    path.mkdir(parents=True)
    file = path / f"{0:020}.log"
    file.write_bytes(data)
    return file


def problems(data):
    """The problems of a segment's batches, None for a sound one."""
    return [found.problem for found in batches(data)]


def test_offsets_epochs_and_values_come_back():
    """Each record has its offset, its batch's leader epoch and its value."""
    found = [(offset, b.leader_epoch, value) for b in batches(TWO) for offset, value in records(b)]

    assert found == [
        (offset, epoch, value) for offset, epoch, value in zip((0, 1, 2), (0, 0, 1), values(0, 1, 2), strict=True)
    ]


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_a_torn_tail_is_reported_and_the_rest_read(cut):
    """A segment that ends within a batch keeps the batches before it."""
    assert problems(TWO[:-cut]) == [None, "torn tail"]


def test_a_changed_byte_is_a_bad_crc_and_the_next_batch_is_read():
    """One flipped bit below the checksum shows; the batch's epoch is not covered by it."""
    damaged = bytearray(TWO)
    damaged[90] ^= 1
    moved = bytearray(TWO)
    moved[15] ^= 1  # partitionLeaderEpoch

    assert problems(bytes(damaged)) == ["bad crc", None]
    assert problems(bytes(moved)) == [None, None]


def test_a_compressed_batch_is_reported():
    """A codec in the attributes is a problem, not a guess."""
    assert problems(batch(0, values(0), attributes=1)) == ["compressed"]


def control(base_offset, key):
    """A control batch: one record with this key."""
    plain = batch(base_offset, [b"12345678"], attributes=0x30)
    body = b"\0" + varint(0) + varint(0) + varint(len(key)) + key + varint(4) + b"\0" * 4 + varint(0)
    covered = plain[21:61] + varint(len(body)) + body
    head = plain[12:17] + google_crc32c.value(covered).to_bytes(4, "big")
    return plain[:8] + (len(head) + len(covered)).to_bytes(4, "big") + head + covered


@pytest.mark.parametrize(
    ("key", "kind"),
    [(b"\0\0\0\1", "commit"), (b"\0\0\0\0", "abort"), (b"\0\0\0\2", "other"), (b"\0", "other")],
)
def test_a_control_batch_is_a_marker_and_holds_no_records(tmp_path, key, kind):
    """It has a row of its own, which tells how far the log goes; beside it a record has no marker."""
    data = batch(0, values(0), attributes=0x10) + control(1, key)
    assert [list(records(found)) for found in batches(data)][1] == []

    rows = read_segment("broker-1", segment(tmp_path, data)).to_pylist()
    told = [[row[name] for name in ("offset", "last_offset", "transactional", "marker", "problem")] for row in rows]
    assert told == [[0, 0, True, None, None], [None, 1, True, kind, None]]


def test_records_that_do_not_fill_their_batch_are_malformed(tmp_path):
    """A batch that promises more records than it holds, under a right checksum, is one row with a problem."""
    lying = bytearray(batch(0, values(0)))
    lying[60] = 2  # recordCount
    lying[17:21] = google_crc32c.value(bytes(lying[21:])).to_bytes(4, "big")

    assert read_segment("broker-1", segment(tmp_path, bytes(lying))).column("problem").to_pylist()[-1] == "malformed"


def test_internal_topics_are_left_out(tmp_path):
    """Only the run's own topics are listed."""
    kept = segment(tmp_path, b"")
    segment(tmp_path, b"", replica="__consumer_offsets-0")

    assert segment_files(tmp_path) == [kept]
