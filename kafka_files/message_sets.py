"""Check and count messages of formats 0 and 1 (KIP-32; before Kafka 0.11).

Size and magic are where a v2 batch has length and magic. A compressed message wraps others and has the last one's
offset; wrapped offsets are relative in format 1, absolute in format 0.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from kafka_files.codecs import CodecError, OutputFullError, decompress_into

if TYPE_CHECKING:
    from kafka_files.batches import Data, Headers

FORMATS = (0, 1)
NOT_COUNTED = -1  # the wrapper cannot be decompressed
MAX_WRAPPED_BYTES = 1 << 26  # message.max.bytes is 1 MiB by default
_CODEC = 0x07
_SIZE_AT, _BODY_AT, _MAGIC_AT = 8, 12, 16  # CRC-32 covers magic and later bytes
MIN_SIZE = (14, 22)  # per format
_HEAD = struct.Struct(">qiIbb")  # offset, size, CRC, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


def end_of(data: Data, at: int) -> int | None:
    """Return where the message ends, None if incomplete or no old one."""
    if len(data) - at <= _MAGIC_AT or data[at + _MAGIC_AT] not in FORMATS:
        return None
    size = _LENGTH.unpack_from(data, at + _SIZE_AT)[0]
    end = at + _BODY_AT + int(size)
    return end if size >= MIN_SIZE[data[at + _MAGIC_AT]] and end <= len(data) else None


def fill(data: Data, rows: Headers) -> None:
    """Fill rows of ``batches.HEADERS`` from their messages.

    Missing fields are -1, an unknown ``record_count`` is ``NOT_COUNTED``.
    """
    for row in rows:
        offset, size, crc, magic, attributes = _HEAD.unpack_from(data, int(row["position"]))
        timestamp_ms = _TIMESTAMP.unpack_from(data, int(row["position"]) + _HEAD.size)[0] if magic else -1
        first, count = _wrapped(data, row, offset, magic, attributes) if attributes & _CODEC else (offset, 1)
        row["base_offset"], row["last_offset_delta"], row["record_count"] = first, offset - first, count
        row["length"], row["crc"], row["magic"], row["attributes"] = size, crc, magic, attributes
        row["base_timestamp"] = row["max_timestamp"] = timestamp_ms
        for absent in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
            row[absent] = -1


def is_sound(data: Data, row: np.void) -> bool:
    """Return whether a message's CRC-32 is correct."""
    start, end = int(row["position"]), int(row["position"] + row["size"])
    return zlib.crc32(data[start + _MAGIC_AT : end]) == int(row["crc"])


def _wrapped(data: Data, row: np.void, offset: int, magic: int, attributes: int) -> tuple[int, int]:
    start, end = int(row["position"]), int(row["position"] + row["size"])
    at = start + _HEAD.size + (_TIMESTAMP.size if magic else 0)
    for _ in range(2):  # key, value
        value_at = at + _LENGTH.size
        at = value_at + max(0, _LENGTH.unpack_from(data, at)[0]) if value_at <= end else end
    inner = _decompressed(attributes & _CODEC, bytes(data[value_at : min(at, end)]))
    offsets = [] if inner is None else _offsets(inner)
    if not offsets:
        return offset, NOT_COUNTED
    return (offset - offsets[-1] + offsets[0] if magic else offsets[0]), len(offsets)


def _decompressed(codec: int, block: bytes) -> bytes | None:
    """Return a wrapper's messages, None if rejected, such as LZ4 in format 0 (KAFKA-3160)."""
    for room in (1 << 20, MAX_WRAPPED_BYTES):
        into = np.empty(room, np.uint8)
        try:
            return into[: decompress_into(codec, block, into)].tobytes()
        except OutputFullError:
            continue
        except CodecError:
            break
    return None


def _offsets(messages: bytes) -> list[int]:
    found, at = [], 0
    while (end := end_of(messages, at)) is not None:
        found.append(int(_HEAD.unpack_from(messages, at)[0]))
        at = end
    return found
