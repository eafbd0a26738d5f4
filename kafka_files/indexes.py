"""Read the sparse indexes of segments, and look up batches through them.

Offset index entries have 8 bytes (relative offset, position), time index entries 12 (time in ms, relative offset).
Indexes of active segments are preallocated: the first zero entry ends them.
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
    """A segment: its complete batches and index entries."""

    file: Path
    size: int
    batches: list[StoredBatch]
    offsets: list[tuple[int, int]]  # (offset, position)
    times: list[tuple[int, int]]  # (time in ms, offset)


class LookUp(NamedTuple):
    """A look-up's result: the batch, and how many batches were read from the index entry on."""

    found: StoredBatch | None
    read: int


def segments_of(folder: Path) -> list[Segment]:
    """Return the segments of a replica's folder in order; a missing index is empty."""
    found = []
    for file in sorted(folder.glob("*.log")):
        base = int(file.stem)
        index, times = (_bytes(file.with_suffix(suffix)) for suffix in (".index", ".timeindex"))
        with mapped(file) as data:
            batches, size = stored_batches(data), len(data)
        found.append(Segment(file, size, batches, offset_entries(index, base), time_entries(times, base)))
    return found


def stored_batches(data: Data) -> list[StoredBatch]:
    """Return a segment's complete batches in order."""
    found = whole_batches(data)
    columns = found["position"], found["base_offset"], last_offsets(found), found["max_timestamp"]
    return [StoredBatch(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def offset_entries(index: bytes, base: int) -> list[tuple[int, int]]:
    """Return (offset, position) pairs in order."""
    entries = []
    for relative, position in _OFFSET_ENTRY.iter_unpack(index[: len(index) // 8 * 8]):
        if (relative, position) == (0, 0):
            break
        entries.append((base + relative, position))
    return entries


def time_entries(index: bytes, base: int) -> list[tuple[int, int]]:
    """Return (time in ms, offset) pairs in order."""
    entries = []
    for timestamp_ms, relative in _TIME_ENTRY.iter_unpack(index[: len(index) // 12 * 12]):
        if timestamp_ms == 0:
            break
        entries.append((timestamp_ms, base + relative))
    return entries


def by_offset(segment: Segment, offset: int) -> LookUp:
    """Find the batch that reaches ``offset``: from the index's floor entry, read on."""
    return _read_on(segment, _floor(segment, offset), lambda batch: batch.last >= offset)


def by_time(segment: Segment, timestamp_ms: int) -> LookUp:
    """Find the first batch that reaches a time: take the time index's floor entry, look up its offset in the offset
    index, and read on.
    """
    # An entry holds the largest time up to its offset: if that is too small, skip everything before it.
    earlier = bisect_left(segment.times, timestamp_ms, key=itemgetter(0))
    start = _floor(segment, segment.times[earlier - 1][1]) if earlier else 0
    return _read_on(segment, start, lambda batch: batch.largest_ms >= timestamp_ms)


def _floor(segment: Segment, offset: int) -> int:
    """Return the position of the last index entry at or below an offset, else 0."""
    at = bisect_right(segment.offsets, offset, key=itemgetter(0))
    return segment.offsets[at - 1][1] if at else 0


def _read_on(segment: Segment, start: int, is_wanted: Callable[[StoredBatch], bool]) -> LookUp:
    """Read batches from a position; without a batch there, find nothing."""
    first = bisect_left(segment.batches, start, key=itemgetter(0))
    if first == len(segment.batches) or segment.batches[first].position != start:
        return LookUp(None, 0)
    for index in range(first, len(segment.batches)):
        if is_wanted(segment.batches[index]):
            return LookUp(segment.batches[index], index - first + 1)
    return LookUp(None, len(segment.batches) - first)


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""
