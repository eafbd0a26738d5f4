"""Read headers of record batches v2 (KIP-98), with CRC-32C verified.

Messages of formats 0 and 1 are rows with ``Problem.MAGIC``. Damage never raises, and false lengths allocate no memory.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeAlias

import google_crc32c
import numpy as np
import numpy.typing as npt

from history.remote import RemotePath
from kafka_files import message_sets

Data: TypeAlias = bytes | mmap.mmap | memoryview
Headers: TypeAlias = npt.NDArray[np.void]

_AS_STORED = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),  # without the fields up to this
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),  # from the attributes on
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),  # -1: neither idempotent nor transactional
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
FIELDS = _AS_STORED.names or ()
HEADER = struct.Struct(">qiibIhiqqqhii")  # for one header
# One row per batch.
HEADERS = np.dtype(
    [
        ("position", "i8"),
        ("size", "i8"),
        *((name, _AS_STORED[name].newbyteorder("=")) for name in FIELDS),
        ("problem", "u1"),
    ]
)
SLICE_BATCHES = 1 << 16
COMPRESSION, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20  # attribute bits
LENGTH_FROM, CRC_AT, CRC_FROM = 12, 17, 21
_LENGTH = struct.Struct(">i")
_CRC_BYTES = 1 << 20


class Problem(IntEnum):
    """Why a batch, or the rest of a segment, is unreadable."""

    TORN_TAIL = 1  # incomplete batch or invalid length
    BAD_CRC = 2
    MAGIC = 3  # not format 2
    CODEC = 4
    MALFORMED = 5  # valid CRC, invalid records
    TOO_LARGE = 6  # records exceed ``records.MAX_BATCH_BYTES``

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", " ")


@contextmanager
def mapped(file: Path) -> Iterator[Data]:
    """Map a file into memory; it must not shrink meanwhile.

    Read a live broker's segment with ``Path.read_bytes``.
    """
    if isinstance(file, RemotePath):
        yield file.read_bytes()
        return
    with file.open("rb") as opened:
        # Arrays may still refer to it; the last one closes it.
        yield mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) if file.stat().st_size else b""


def headers(data: Data, start: int = 0, most: int = SLICE_BATCHES, *, verify: bool = True) -> Headers:
    """Return up to ``most`` headers from byte ``start``.

    A torn tail is the last row, zeros for missing fields.
    """
    positions, torn = _walk(data, start, most)
    at = np.array(positions, np.int64)
    found = np.zeros(len(at) + (torn is not None), HEADERS)
    if len(at):
        _fill(data, at, found[: len(at)])
        found["problem"][: len(at)] = _problems(data, found[: len(at)], verify=verify)
    if torn is not None:
        found[-1] = _torn(data, torn)
    return found


def header_slices(data: Data, most: int = SLICE_BATCHES, *, verify: bool = True) -> Iterator[Headers]:
    """Yield the headers of all batches, up to ``most`` at a time."""
    at = 0
    while at < len(data):
        found = headers(data, at, most, verify=verify)
        yield found
        at = int(found["position"][-1] + found["size"][-1])


def whole_batches(data: Data) -> Headers:
    """Return complete batches' headers, without checking CRCs."""
    found = np.concatenate([np.zeros(0, HEADERS), *header_slices(data, verify=False)])
    whole: Headers = found[found["problem"] != Problem.TORN_TAIL]
    return whole


def last_offsets(found: Headers) -> npt.NDArray[np.int64]:
    """Return each batch's last offset."""
    last: npt.NDArray[np.int64] = found["base_offset"] + found["last_offset_delta"]
    return last


def problem_text(header: np.void) -> str | None:
    """Return a batch's problem in words, or None."""
    code = int(header["problem"])
    if not code:
        return None
    text = Problem(code).text
    if code == Problem.MAGIC:
        return f"{text} {header['magic']}"
    return f"{text} {header['attributes'] & COMPRESSION}" if code == Problem.CODEC else text


def _walk(data: Data, start: int, most: int) -> tuple[list[int], int | None]:
    """Return the positions of batches and old messages, and of a torn tail."""
    positions: list[int] = []
    at, end, length_at = start, len(data), _LENGTH.unpack_from
    while at < end and len(positions) < most:
        following = at + LENGTH_FROM + length_at(data, at + 8)[0] if end - at >= HEADER.size else at
        if following < at + HEADER.size or following > end:
            short = message_sets.end_of(data, at)
            if short is None:
                return positions, at
            following = short
        positions.append(at)
        at = following
    return positions, None


def _fill(data: Data, at: npt.NDArray[np.int64], found: Headers) -> None:
    whole = at <= len(data) - HEADER.size  # the rest are short old messages
    every_byte = np.ndarray((max(len(data) - HEADER.size + 1, 0),), _AS_STORED, data, strides=(1,))
    stored = every_byte[at[whole]]
    for name in FIELDS:
        found[name][whole] = stored[name]
    found["position"] = at
    found["size"] = found["length"].astype(np.int64) + LENGTH_FROM
    old = ~whole | np.isin(found["magic"], message_sets.FORMATS)
    if old.any():
        sizes = [_LENGTH.unpack_from(data, position + 8)[0] for position in at[old].tolist()]
        rows = found[old]
        rows["size"] = np.array(sizes, np.int64) + LENGTH_FROM
        message_sets.fill(data, rows)
        found[old] = rows


def _torn(data: Data, at: int) -> np.void:
    row = np.zeros(1, HEADERS)
    if len(data) - at >= HEADER.size:
        for name, value in zip(FIELDS, HEADER.unpack_from(data, at), strict=True):
            row[name] = value
    row["position"], row["size"], row["problem"] = at, len(data) - at, Problem.TORN_TAIL
    torn: np.void = row[0]
    return torn


def _problems(data: Data, found: Headers, *, verify: bool) -> npt.NDArray[Any]:
    problems = np.where(found["magic"] != 2, Problem.MAGIC, 0).astype(np.uint8)
    if verify:
        old = np.flatnonzero(np.isin(found["magic"], message_sets.FORMATS))
        problems[[row for row in old.tolist() if not message_sets.is_sound(data, found[row])]] = Problem.BAD_CRC
        ends = (found["position"] + found["size"]).tolist()
        starts = (found["position"] + CRC_FROM).tolist()
        sums = [crc_of(data, start, end) for start, end in zip(starts, ends, strict=True)]
        problems[(np.array(sums, np.uint32) != found["crc"]) & (found["magic"] == 2)] = Problem.BAD_CRC
    return problems


def crc_of(data: Data, start: int, end: int) -> int:
    """Return a range's CRC-32C."""
    if end - start <= _CRC_BYTES:
        return int(google_crc32c.value(data[start:end]))
    crc = 0
    for at in range(start, end, _CRC_BYTES):
        crc = google_crc32c.extend(crc, data[at : min(at + _CRC_BYTES, end)])
    return crc
