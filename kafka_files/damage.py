"""Examine what follows a segment's last readable byte."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kafka_files import message_sets
from kafka_files.batches import COMPRESSION, CRC_AT, CRC_FROM, FIELDS, HEADER, HEADERS, LENGTH_FROM, Data, crc_of

MAX_BATCH_BYTES = 1 << 30  # segment.bytes is 1 GiB by default
_MAX_JUMP = 1 << 40  # rejects almost all random bytes
_WINDOW = 1 << 20
_CRC_PASSES = 8  # per byte searched, which bounds the time
_MAGIC_AT, _MAX_CODEC, _UNUSED = 16, 4, ~0x7F  # bits that no version of Kafka sets
_MIN_OLD = min(message_sets.MIN_SIZE)
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_STORED = np.dtype([(name, HEADERS[name].newbyteorder(">")) for name in FIELDS])


def only_zeros(data: Data, start: int) -> bool:
    """Return whether only zeros follow ``start``."""
    return not any(_any(data[at : at + _WINDOW]) for at in range(start, len(data), _WINDOW))


def is_cut_batch(data: Data, at: int, least_offset: int) -> bool:
    """Return whether a plausible batch is cut off."""
    left = len(data) - at
    if left < _OFFSET_AND_LENGTH.size:
        return True
    offset, length = _OFFSET_AND_LENGTH.unpack_from(data, at)
    magic = data[at + _MAGIC_AT] if left > _MAGIC_AT else 2
    if magic not in {*message_sets.FORMATS, 2} or not left - LENGTH_FROM < length <= MAX_BATCH_BYTES:
        return False
    # A compressed old message has its last message's offset.
    return bool(offset == least_offset if magic == 2 else 0 <= offset - least_offset < _MAX_JUMP)


def next_batch(data: Data, start: int, least_offset: int) -> tuple[int, int] | None:
    """Return the byte and offset of the first whole batch, or None.

    It has a correct CRC and no offset below ``least_offset``.
    """
    verifiable = _CRC_PASSES * (len(data) - start)
    for window in range(start, len(data), _WINDOW):
        for at, offset, size in _candidates(data, window, least_offset, verifiable):
            if size > verifiable:
                continue
            verifiable -= size
            if _is_sound(data, at, size):
                return at, offset
    return None


def _any(part: bytes | memoryview) -> bool:
    return bool(np.frombuffer(part, np.uint8).any())


def _is_sound(data: Data, at: int, size: int) -> bool:
    if data[at + _MAGIC_AT] == 2:
        stored = int.from_bytes(data[at + CRC_AT : at + CRC_FROM], "big")
        return crc_of(data, at + CRC_FROM, at + size) == stored
    stored = int.from_bytes(data[at + LENGTH_FROM : at + _MAGIC_AT], "big")
    return zlib.crc32(data[at + _MAGIC_AT : at + size]) == stored


def _candidates(data: Data, start: int, least_offset: int, most_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield byte, base offset and size of possible batches in one window."""
    # A view would keep the file mapped.
    window = bytes(data[start : start + _WINDOW + HEADER.size - 1])
    if not _any(window):  # the usual remains of a crash
        return
    begins = min(_WINDOW, len(data) - start)
    padded = window + bytes(max(0, begins + HEADER.size - 1 - len(window)))  # an old message is shorter than a header
    every_byte = np.ndarray((begins,), _STORED, padded, strides=(1,))
    magic = np.frombuffer(padded, np.uint8, begins, _MAGIC_AT)
    rows = np.flatnonzero(magic <= 2)
    # Few rows remain.
    lengths = every_byte["length"][rows].astype(np.int64)
    room = len(data) - start - rows - LENGTH_FROM
    rows = rows[(lengths >= _MIN_OLD) & (lengths <= np.minimum(room, min(MAX_BATCH_BYTES, most_bytes)))]
    found = every_byte[rows]
    offsets = found["base_offset"].astype(np.int64)
    follows = (offsets >= least_offset) & (offsets < least_offset + _MAX_JUMP)
    rows = rows[follows & np.where(magic[rows] == 2, _is_batch(found), _is_message(found))]
    for row in rows.tolist():
        yield start + row, int(every_byte["base_offset"][row]), int(every_byte["length"][row]) + LENGTH_FROM


def _is_batch(found: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    attributes, last = found["attributes"].astype(np.int64), found["last_offset_delta"].astype(np.int64)
    count = found["record_count"].astype(np.int64)
    is_batch: npt.NDArray[np.bool_] = (
        (found["length"] >= HEADER.size - LENGTH_FROM)
        & (attributes & _UNUSED == 0)
        & (attributes & COMPRESSION <= _MAX_CODEC)
        & (found["leader_epoch"] >= -1)
        & (found["producer_id"] >= -1)
        & (count >= 0)  # compaction leaves empty batches
        & (count <= last + 1)
    )
    return is_batch


def _is_message(found: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    is_message: npt.NDArray[np.bool_] = found["length"] >= np.array(message_sets.MIN_SIZE)[found["magic"] & 1]
    return is_message
