"""Records that a read_committed reader does not receive."""

import struct

import numpy as np
import pytest
from kafka.record import MemoryRecordsBuilder

from kafka_files.aborted import without_aborted
from kafka_files.batches import CONTROL, HEADER, TRANSACTIONAL, last_offsets, whole_batches

ABORT, COMMIT = 0, 1


def batch(offset: int, producer: int, *, transactional: bool = True) -> bytes:
    """Return a batch of one record."""
    return _batch(offset, producer, TRANSACTIONAL if transactional else 0, None, b"value")


def ended(offset: int, producer: int, how: int) -> bytes:
    """Return a marker at the end of a producer's transaction."""
    return _batch(offset, producer, TRANSACTIONAL | CONTROL, struct.pack(">hh", 0, how), b"\0" * 6)


def _batch(offset: int, producer: int, attributes: int, key: bytes | None, value: bytes) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, offset=offset)
    builder.append(1000, key, value)
    builder.close()
    data = bytearray(builder.buffer())
    fields = list(HEADER.unpack_from(data))
    fields[5], fields[9] = attributes, producer
    HEADER.pack_into(data, 0, *fields)
    return bytes(data)


LOG = (
    batch(0, 7)
    + batch(1, 8)
    + batch(2, -1, transactional=False)
    + ended(3, 7, ABORT)
    + batch(4, 7)
    + ended(5, 8, COMMIT)
    + ended(6, 7, COMMIT)
)


@pytest.mark.parametrize(
    ("aborted", "kept"),
    [
        ([], [0, 1, 2, 3, 4, 5, 6]),
        ([(7, 0)], [1, 2, 3, 4, 5, 6]),  # until its marker: what the producer sent after it was committed
        ([(8, 1)], [0, 2, 3, 4, 5, 6]),
        ([(7, 4)], [0, 1, 2, 3, 5, 6]),  # only the second transaction
        ([(9, 0)], [0, 1, 2, 3, 4, 5, 6]),
        ([(7, 0), (7, 4)], [1, 2, 3, 5, 6]),
    ],
)
def test_records_of_aborted_transactions_are_left_out(aborted: list[tuple[int, int]], kept: list[int]) -> None:
    """Records from an aborted transaction's first offset to its abort marker are removed; markers remain."""
    found = without_aborted(whole_batches(LOG), LOG, aborted)

    assert np.array_equal(last_offsets(found), kept)
