"""A record's value decodes to what was encoded, and damage is detected."""

import pytest

from history.errors import BadInput
from history.payload import FOREIGN, Payload, decode, encode


@pytest.mark.parametrize("record_bytes", [64, 100, 4096])
def test_there_and_back(record_bytes):
    """A value has exactly the requested length and decodes to what was encoded."""
    value = encode("load-1", 2**46, record_bytes)

    assert record_bytes == len(value)
    assert Payload("load-1", 2**46, checksum_ok=True) == decode(value)


def test_the_same_arguments_give_the_same_bytes():
    """The same arguments yield the same bytes, and another sequence number yields others."""
    assert encode("load-1", 7, 100) == encode("load-1", 7, 100)
    assert encode("load-1", 7, 100) != encode("load-1", 8, 100)


def test_the_layout_is_fixed():
    """The layout is readable and does not change between versions."""
    assert encode("load-1", 7, 64) == b"load-1|7|abcdefghijklmnopqrstuvwxyz012345abcdefghijklmno8e47f0a7"


@pytest.mark.parametrize("at", [10, 40, 63])
def test_a_flipped_bit_shows(at):
    """A changed bit in padding or checksum is a wrong checksum with the names intact."""
    value = bytearray(encode("load-1", 7, 64))
    value[at] ^= 1

    assert Payload("load-1", 7, checksum_ok=False) == decode(bytes(value))


def test_a_value_of_verifiable_producer_has_no_checksum():
    """A VerifiableProducer's value has no checksum, so that damage to it cannot be detected."""
    assert decode(b"1.17") == Payload("verifiable-1", 17, checksum_ok=None)


@pytest.mark.parametrize(
    "value",
    [
        b"1.%d" % 2**47,
        None,
        b"",
        b"hello",
        b"a|b|c12345678",
        b"\xff\xfe|7|xxxxxxxxxxxxxxxx",
        b"a|%d|c12345678" % (2**47),
    ],
)
def test_a_foreign_value_is_nobodys(value):
    """Foreign bytes decode to no name, and never raise an error."""
    assert decode(value) == FOREIGN


@pytest.mark.parametrize(("producer_id", "record_bytes"), [("a|b", 100), ("load-1", 30), ("x" * 40, 64)])
def test_what_does_not_fit_is_refused(producer_id, record_bytes):
    """An id with the separator, or a record too small for its id, is rejected with the limit."""
    with pytest.raises(BadInput, match="at least 64 bytes"):
        encode(producer_id, 1, record_bytes)
