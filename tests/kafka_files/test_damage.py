"""What follows the last readable byte of a segment."""

import struct

import pytest

from kafka_files.damage import is_cut_batch, next_batch, only_zeros
from tests.evidence.folders import batch, values
from tests.kafka_files.written import message


def test_zeros_are_zeros_up_to_the_last_byte():
    """A single other byte at the end is found, however far it is."""
    assert only_zeros(b"x" + bytes(3 << 20), 1)
    assert not only_zeros(bytes(3 << 20) + b"x", 1)


@pytest.mark.parametrize("following", [batch(7, values(7)), message(7, b"tiny", magic=0), message(7, b"tiny", magic=1)])
def test_the_next_whole_batch_is_found(following):
    """A batch of an earlier offset, or one that does not fit its CRC, is none."""
    earlier, damaged = batch(3, values(3)), batch(6, values(6))[:-1] + b"\xff"
    data = b"\xff" * 100 + earlier + damaged + following

    assert next_batch(data, 0, 4) == (100 + len(earlier) + len(damaged), 7)
    assert next_batch(data, 0, 8) is None


def test_a_batch_across_two_windows_is_found():
    """Its header begins in the last bytes of one window of a MiB."""
    at = (1 << 20) - 5

    assert next_batch(b"\xff" * at + batch(7, values(7)), 0, 0) == (at, 7)


def test_bytes_that_look_like_batches_take_bounded_time():
    """Each header announces all that follows: only some are verified."""
    header = bytearray(batch(1, values(1))[:61])
    struct.pack_into(">i", header, 8, 100_000)

    assert next_batch(bytes(header) * 5_000, 1, 0) is None


@pytest.mark.parametrize(
    ("data", "is_cut"),
    [
        (batch(5, values(5))[:-1], True),
        (batch(5, values(5))[:20], True),
        (batch(5, values(5))[:11], True),
        (message(5, b"tiny", magic=1)[:-1], True),
        (batch(5, values(5)), False),  # whole
        (batch(4, values(4))[:-1], False),
        (batch(6, values(6))[:-1], False),
        (struct.pack(">qi", 5, 2_000_000_000) + bytes(80), False),
        (b"\xff" * 80, False),
    ],
)
def test_a_batch_that_was_cut_off_has_the_next_offset_and_a_length(data, is_cut):
    """Fewer bytes than its header announces are there."""
    assert is_cut_batch(data, 0, 5) is is_cut
