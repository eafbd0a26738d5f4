"""Decompress a batch's records.

Snappy is raw (librdkafka) or framed as in Java. The caller's buffer limits the output, which stops decompression bombs.
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
    """Invalid bytes for the codec."""


class OutputFullError(CodecError):
    """The output exceeds the buffer."""


def decompress_into(codec: int, data: bytes, into: Buffer) -> int:
    """Decompress a block into a buffer and return the size.

    Raises: CodecError: unknown codec, or damaged bytes.
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
