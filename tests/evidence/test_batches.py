"""A replica's batches as columns: fields, content by bytes, first offsets, and the place where a log is torn."""

import struct

import google_crc32c
import numpy as np
import pytest

from evidence.batches import read_batches
from kafka_files.batches import CONTROL
from tests.evidence.folders import batch, values

A, B, C = batch(0, values(0, 1)), batch(2, values(2)), batch(3, values(3))


@pytest.fixture
def read(tmp_path):
    """Write segments (lists of batches) and read them."""

    def run(*segments):
        files = []
        for number, batches in enumerate(segments):
            files.append(tmp_path / f"{number}.log")
            files[-1].write_bytes(b"".join(batches))
        return read_batches(files)

    return run


def changed(data, at, form, *fields, crc=False):
    """Return a batch with other bytes at a position, with a valid CRC or the old one."""
    data = bytearray(data)
    struct.pack_into(form, data, at, *fields)
    if crc:
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def test_columns_are_the_fields_of_the_headers(read):
    """Columns are the header fields of all segments in order; a segment can be empty."""
    sequenced = changed(batch(2, values(2, 3, 4), epoch=5), 43, ">qhi", 7, 1, 9, crc=True)
    found = read([A], [], [sequenced])

    assert (found.torn, found.first_offset) == (False, 0)
    assert found.batches.base_offset.tolist() == [0, 2]
    assert found.batches.last_offset.tolist() == [1, 4]
    assert found.batches.leader_epoch.tolist() == [0, 5]
    assert found.batches.kafka_producer_id.tolist() == [-1, 7]
    assert found.batches.producer_epoch.tolist() == [-1, 1]
    assert found.batches.base_sequence.tolist() == [-1, 9]
    assert found.batches.record_count.tolist() == [2, 3]
    assert found.batches.idempotent.tolist() == [False, True]


def test_a_control_batch_has_no_sequence_that_counts(read):
    """A control batch and one with a producer id but no sequence do not count as idempotent."""
    control = changed(batch(0, values(0), attributes=CONTROL), 43, ">qhi", 7, 0, 0, crc=True)
    without = changed(batch(1, values(0)), 43, ">qhi", 7, 0, -1, crc=True)

    assert read([control, without]).batches.idempotent.tolist() == [False, False]


def test_no_segments_are_no_batches(read):
    """A log without segments, or with an empty one, has no batches."""
    for found in (read(), read([])):
        assert (len(found.batches), found.torn, found.first_offset) == (0, False, None)


def test_a_torn_tail_ends_the_log(read):
    """A torn tail ends the log: the whole batches before it count, and segments after it do not."""
    found = read([A, B[:-1]], [C])

    assert (found.torn, found.batches.base_offset.tolist()) == (True, [0])
    assert (read([A[:9]]).torn, read([A[:9]]).first_offset) == (True, None)


@pytest.mark.parametrize(
    "other",
    [
        changed(A, 0, ">q", 1),  # the offset
        changed(A, 12, ">i", 1),  # the leader epoch: no CRC covers it
        batch(0, values(0, 2)),
        batch(0, values(0)),
        changed(A, len(A) - 2, ">b", 7),  # damaged, with the CRC of the intact one
    ],
)
def test_other_bytes_are_another_content(read, other):
    """Equal bytes are the same content in any log or segment; other bytes are another content."""
    (own,) = read([A]).batches.content.tolist()

    assert read([], [A]).batches.content.tolist() == [own]
    assert read([other]).batches.content.tolist() != [own]


def test_two_damaged_batches_differ_by_their_bytes(read):
    """Two corrupt batches with the same CRC field differ by their bytes."""
    one, other = changed(A, len(A) - 2, ">b", 7), changed(A, len(A) - 2, ">b", 8)

    assert read([one]).batches.content.tolist() == read([one]).batches.content.tolist()
    assert read([one]).batches.content.tolist() != read([other]).batches.content.tolist()


def test_a_chain_stands_for_everything_so_far(read):
    """A chain identifies the log's content up to a batch, across segments; any difference before it changes it."""
    whole = read([A, B, C]).batches.chain

    assert np.array_equal(whole, read([A], [B, C]).batches.chain)
    assert (whole == read([A, batch(2, values(9)), C]).batches.chain).tolist() == [True, False, False]
    assert (whole == read([B, A, C]).batches.chain).tolist() == [False, False, False]
    assert read([B, C]).batches.chain[-1] != whole[-1]
