"""Kafka's compression codecs: the records of a batch are one compressed block.

Java's Snappy has a frame of its own around raw blocks: 16 bytes (a magic and two versions), then each block with its
length in 4 bytes. librdkafka and others write one raw block. Both are read. Output goes into a buffer of the caller's,
so that a small block that claims or unpacks to more than that ends there.
"""

from __future__ import annotations

import cramjam
import numpy as np
import numpy.typing as npt

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
_FRAMED = b"\x82SNAPPY\x00"
_FRAME_HEADER = 16
Buffer = npt.NDArray[np.uint8]


class CodecError(ValueError):
    """The bytes are not what their codec writes."""


class OutputFullError(CodecError):
    """The decompressed bytes do not fit into the buffer."""


def decompress_into(codec: int, data: bytes, into: Buffer) -> int:
    """Decompress a block into the beginning of a buffer.

    Returns: the number of bytes written.

    Raises:
        OutputFullError: there are more than the buffer holds.
        CodecError: the bytes are not of this codec, or are damaged.
    """
    try:
        if codec == GZIP:
            return int(cramjam.gzip.decompress_into(data, into.data))
        if codec == LZ4:
            return int(cramjam.lz4.decompress_into(data, into.data))
        if codec == ZSTD:
            return int(cramjam.zstd.decompress_into(data, into.data))
        if codec == SNAPPY:
            return _snappy(data, into)
    except cramjam.DecompressionError as error:
        raise (OutputFullError if "whole buffer" in str(error) else CodecError)(str(error)) from None
    raise CodecError(f"codec {codec}")


def _snappy(data: bytes, into: Buffer) -> int:
    if not data.startswith(_FRAMED):
        return _raw_snappy(data, into)
    at, written = _FRAME_HEADER, 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : at + 4 + length]
        if len(block) < length or not length:
            raise CodecError("a block of Snappy's frame ends early")
        written += _raw_snappy(block, into[written:])
        at += 4 + length
    return written


def _raw_snappy(block: bytes, into: Buffer) -> int:
    if cramjam.snappy.decompress_raw_len(block) > len(into):
        raise OutputFullError("Snappy's block is larger than the buffer")
    return int(cramjam.snappy.decompress_raw_into(block, into.data))
