"""A replica's files: batches of its segments, and the sparse indexes beside them.

An offset index has entries of 8 bytes (offset relative to the segment's first, position), a time index of 12 (time in
ms, relative offset). Active segments' indexes are preallocated: the entries end with the first of zeros.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_files.segments import HEADER

_OFFSET_ENTRY, _TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")
_LENGTH_FROM = 12


class StoredBatch(NamedTuple):
    """A batch of a segment: its first byte, its offsets, and the largest time of its records."""

    position: int
    first: int
    last: int
    largest_ms: int


def batches_of(segment: bytes, start: int = 0) -> Iterator[StoredBatch]:
    """The batches from a position on, up to the first torn one."""
    at = start
    while at + HEADER.size <= len(segment):
        base, length, _, _, _, _, delta, _, largest_ms, *_ = HEADER.unpack_from(segment, at)
        if length <= 0 or at + _LENGTH_FROM + length > len(segment):
            return
        yield StoredBatch(at, base, base + delta, largest_ms)
        at += _LENGTH_FROM + length


def offset_entries(index: bytes, base: int) -> list[tuple[int, int]]:
    """(offset, position), in order."""
    entries = []
    for relative, position in _OFFSET_ENTRY.iter_unpack(index[: len(index) // 8 * 8]):
        if (relative, position) == (0, 0):
            break
        entries.append((base + relative, position))
    return entries


def time_entries(index: bytes, base: int) -> list[tuple[int, int]]:
    """(time in ms, offset), in order."""
    entries = []
    for timestamp_ms, relative in _TIME_ENTRY.iter_unpack(index[: len(index) // 12 * 12]):
        if timestamp_ms == 0:
            break
        entries.append((timestamp_ms, base + relative))
    return entries


class LookUp(NamedTuple):
    """How a look-up ended: the batch that it found, and how many batches it had to read from the index's entry on."""

    found: StoredBatch | None
    read: int


def by_offset(segment: bytes, entries: list[tuple[int, int]], offset: int) -> LookUp:
    """Floor in the index, then on from there to the batch that reaches ``offset``."""
    return _read_on(segment, _floor(entries, offset), lambda batch: batch.last >= offset)


def by_time(segment: bytes, times: list[tuple[int, int]], entries: list[tuple[int, int]], timestamp_ms: int) -> LookUp:
    """Floor in the time index, its offset looked up in the offset index, then on to the first batch of that time."""
    # An entry says: the largest time up to this offset. Below the wanted time, nothing before it can be what is sought.
    earlier = [offset for at_ms, offset in times if at_ms < timestamp_ms]
    start = _floor(entries, earlier[-1]) if earlier else 0
    return _read_on(segment, start, lambda batch: batch.largest_ms >= timestamp_ms)


def _floor(entries: list[tuple[int, int]], offset: int) -> int:
    """The position of the index's last entry that is not beyond an offset; the segment's beginning without one."""
    at = bisect_right([entry[0] for entry in entries], offset)
    return entries[at - 1][1] if at else 0


def _read_on(segment: bytes, start: int, is_wanted: Callable[[StoredBatch], bool]) -> LookUp:
    read = 0
    for batch in batches_of(segment, start):
        read += 1
        if is_wanted(batch):
            return LookUp(batch, read)
    return LookUp(None, read)


class Segment(NamedTuple):
    """One segment of a replica with its indexes."""

    file: Path
    base: int
    data: bytes
    offsets: list[tuple[int, int]]
    times: list[tuple[int, int]]


def segments_of(folder: Path) -> list[Segment]:
    """The segments of a replica's folder, in order; an index that is missing is empty."""
    found = []
    for file in sorted(folder.glob("*.log")):
        base = int(file.stem)
        index, times = (_bytes(file.with_suffix(suffix)) for suffix in (".index", ".timeindex"))
        found.append(Segment(file, base, file.read_bytes(), offset_entries(index, base), time_entries(times, base)))
    return found


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""
