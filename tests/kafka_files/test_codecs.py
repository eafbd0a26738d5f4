"""Codecs: what clients' own encoders wrote is read, and blocks that lie end at the limit."""

import gzip
import zlib

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder

from history.payload import encode
from kafka_files.batches import headers
from kafka_files.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, CodecError, OutputFullError, decompress_into
from kafka_files.records import decode

DATA = b"what a batch holds, " * 500
SIZE = len(DATA)
FRAME = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
PACKED = {
    GZIP: gzip.compress(DATA),
    SNAPPY: bytes(cramjam.snappy.compress_raw(DATA)),
    LZ4: bytes(cramjam.lz4.compress(DATA)),
    ZSTD: bytes(cramjam.zstd.compress(DATA)),
}


def unpacked(codec, data, most=SIZE):
    """The bytes that a block holds."""
    into = np.zeros(most, np.uint8)
    return into[: decompress_into(codec, data, into)].tobytes()


def framed(*blocks):
    """Raw blocks in the frame that Java's Snappy writes."""
    raw = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return FRAME + b"".join(len(block).to_bytes(4, "big") + block for block in raw)


@pytest.mark.parametrize("codec", PACKED)
def test_a_block_is_unpacked(codec):
    """Into a buffer that just holds it; one byte less is too small, and half a block is none."""
    assert unpacked(codec, PACKED[codec]) == DATA
    with pytest.raises(OutputFullError):
        unpacked(codec, PACKED[codec], len(DATA) - 1)
    with pytest.raises(CodecError):
        unpacked(codec, PACKED[codec][:-9])


def test_snappys_frame_is_read_block_by_block():
    """As Java writes it; a block that ends early, or one that is too large for the rest, is refused."""
    half = len(DATA) // 2
    data = framed(DATA[:half], DATA[half:])

    assert unpacked(SNAPPY, data) == DATA
    assert unpacked(SNAPPY, FRAME) == b""
    with pytest.raises(CodecError):
        unpacked(SNAPPY, data[:-1])
    with pytest.raises(OutputFullError):
        unpacked(SNAPPY, data, len(DATA) - 1)


def test_a_length_that_lies_reserves_nothing():
    """Snappy's block says how large it is before it shows it."""
    with pytest.raises(OutputFullError):
        unpacked(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc")


def test_a_small_block_that_unpacks_to_much_ends_at_the_limit():
    """A hundred million zeros in a hundred thousand bytes."""
    with pytest.raises(OutputFullError):
        unpacked(GZIP, zlib.compress(bytes(10**8), 9, 31), 10**6)


@given(st.sampled_from([*PACKED, 5]), st.binary(max_size=100), st.booleans(), st.integers(0, 400), st.integers(0, 255))
def test_any_bytes_are_unpacked_or_refused(codec, noise, is_changed, at, byte):
    """Noise, or a block with one byte changed: no other error, and nothing beyond the buffer."""
    block = PACKED.get(codec, DATA)
    data = block[: at % len(block)] + bytes([byte]) + block[at % len(block) + 1 :] if is_changed else noise
    try:
        assert len(unpacked(codec, data)) <= len(DATA)
    except CodecError:
        assert (codec, data) not in PACKED.items()


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_batches_of_a_clients_own_encoder_are_read(codec):
    """kafka-python's; the others need libraries that it does not bring."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20, offset=0)
    for seq in range(300):
        builder.append(1000 + seq, b"key", encode("load-1", seq, 100))
    builder.close()
    data = bytes(builder.buffer())
    ((found, rows),) = decode(data, headers(data))

    assert found["attributes"].tolist() == [codec]
    assert found["problem"].tolist() == [0]
    assert rows["seq"].to_pylist() == list(range(300))
    assert rows["timestamp_ms"].to_pylist() == list(range(1000, 1300))
    assert rows["checksum_ok"].true_count == 300
