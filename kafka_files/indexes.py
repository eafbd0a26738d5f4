"""Read segments' sparse indexes, and look up batches.

Entries are relative offset and position (8 bytes), or time in ms and relative offset (12). Active indexes are
preallocated: the first zero entry ends them.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from kafka_files.batches import Data, last_offsets, mapped, whole_batches

_OFFSET_ENTRY, _TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")


class StoredBatch(NamedTuple):
    """A batch: position, offsets, and largest record time."""

    position: int
    first: int
    last: int
    largest_ms: int


class Segment(NamedTuple):
    """A segment's complete batches and index entries."""

    file: Path
    size: int
    batches: list[StoredBatch]
    offsets: list[tuple[int, int]]  # (offset, position)
    times: list[tuple[int, int]]  # (time in ms, offset)


class LookUp(NamedTuple):
    """The batch found, and how many were read."""

    found: StoredBatch | None
    read: int


def segments_of(folder: Path) -> list[Segment]:
    """Return a replica's segments in order; a missing index is empty."""
    found = []
    for file in sorted(folder.glob("*.log")):
        base = int(file.stem)
        index, times = (_bytes(file.with_suffix(suffix)) for suffix in (".index", ".timeindex"))
        with mapped(file) as data:
            batches, size = stored_batches(data), len(data)
        found.append(Segment(file, size, batches, offset_entries(index, base), time_entries(times, base)))
    return found


def stored_batches(data: Data) -> list[StoredBatch]:
    """Return a segment's complete batches."""
    found = whole_batches(data)
    columns = found["position"], found["base_offset"], last_offsets(found), found["max_timestamp"]
    return [StoredBatch(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def offset_entries(index: bytes, base: int) -> list[tuple[int, int]]:
    """Return (offset, position) pairs."""
    entries = []
    for relative, position in _OFFSET_ENTRY.iter_unpack(index[: len(index) // 8 * 8]):
        if (relative, position) == (0, 0):
            break
        entries.append((base + relative, position))
    return entries


def time_entries(index: bytes, base: int) -> list[tuple[int, int]]:
    """Return (time in ms, offset) pairs."""
    entries = []
    for timestamp_ms, relative in _TIME_ENTRY.iter_unpack(index[: len(index) // 12 * 12]):
        if timestamp_ms == 0:
            break
        entries.append((timestamp_ms, base + relative))
    return entries


def by_offset(segment: Segment, offset: int) -> LookUp:
    """Find the batch that reaches ``offset``."""
    return _read_on(segment, _floor(segment, offset), lambda batch: batch.last >= offset)


def by_time(segment: Segment, timestamp_ms: int) -> LookUp:
    """Find the first batch that reaches a time."""
    # An entry has the largest time up to its offset.
    earlier = bisect_left(segment.times, timestamp_ms, key=itemgetter(0))
    start = _floor(segment, segment.times[earlier - 1][1]) if earlier else 0
    return _read_on(segment, start, lambda batch: batch.largest_ms >= timestamp_ms)


def _floor(segment: Segment, offset: int) -> int:
    at = bisect_right(segment.offsets, offset, key=itemgetter(0))
    return segment.offsets[at - 1][1] if at else 0


def _read_on(segment: Segment, start: int, is_wanted: Callable[[StoredBatch], bool]) -> LookUp:
    first = bisect_left(segment.batches, start, key=itemgetter(0))
    if first == len(segment.batches) or segment.batches[first].position != start:
        return LookUp(None, 0)
    for index in range(first, len(segment.batches)):
        if is_wanted(segment.batches[index]):
            return LookUp(segment.batches[index], index - first + 1)
    return LookUp(None, len(segment.batches) - first)


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""
