"""Messages of formats 0 and 1: framed by any length, with wrapped messages counted."""

import gzip

import cramjam
import pytest

from kafka_files.batches import headers, last_offsets
from kafka_files.message_sets import NOT_COUNTED
from tests.kafka_files.written import message


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("value", [b"", b"tiny", bytes(100)])
def test_a_message_of_any_length_is_a_row(magic, value):
    """A message of any length is a row with offset, size, time and format; missing fields are -1."""
    (row,) = headers(message(7, value, magic=magic))

    assert (row["base_offset"], row["magic"], row["record_count"]) == (7, magic, 1)
    assert row["size"] == len(message(7, value, magic=magic))
    assert row["max_timestamp"] == (1_466_000_000_000 if magic else -1)
    assert (row["leader_epoch"], row["producer_id"]) == (-1, -1)


@pytest.mark.parametrize(("magic", "inner"), [(0, (40, 41, 42)), (1, (0, 1, 2))])
def test_wrapped_messages_are_counted(magic, inner):
    """Wrapped messages are counted, and offsets are right: absolute in format 0, relative in format 1."""
    wrapped = b"".join(message(offset, b"v", magic=magic) for offset in inner)
    for codec, block in ((1, gzip.compress(wrapped)), (2, bytes(cramjam.snappy.compress_raw(wrapped)))):
        (row,) = found = headers(message(42, block, magic=magic, attributes=codec))

        assert (row["base_offset"], last_offsets(found)[0], row["record_count"]) == (40, 42, 3)


def test_a_wrapper_that_cannot_be_decompressed_is_not_counted():
    """A wrapper that cannot be decompressed is not counted, as with LZ4 in format 0 (KAFKA-3160); the next is read."""
    data = message(42, b"no lz4", magic=0, attributes=3) + message(43, b"v", magic=0)

    assert headers(data)["record_count"].tolist() == [NOT_COUNTED, 1]
    assert headers(data)["base_offset"].tolist() == [42, 43]


def test_zeros_are_no_message():
    """Zeros are a torn tail and no message."""
    assert headers(bytes(30))["size"].tolist() == [30]
