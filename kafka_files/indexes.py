"""The sparse indexes beside a replica's segments, and look-ups through them.

An offset index has entries of 8 bytes (offset relative to the segment's first, position), a time index of 12 (time in
ms, relative offset). Active segments' indexes are preallocated: the entries end with the first of zeros.
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
    """A batch of a segment: its first byte, its offsets, and the largest time of its records."""

    position: int
    first: int
    last: int
    largest_ms: int


class Segment(NamedTuple):
    """One segment of a replica: its whole batches, and the entries of its indexes."""

    file: Path
    size: int
    batches: list[StoredBatch]
    offsets: list[tuple[int, int]]  # (offset, position)
    times: list[tuple[int, int]]  # (time in ms, offset)


class LookUp(NamedTuple):
    """How a look-up ended: the batch that it found, and how many batches it had to read from the index's entry on."""

    found: StoredBatch | None
    read: int


def segments_of(folder: Path) -> list[Segment]:
    """The segments of a replica's folder, in order; an index that is missing is empty."""
    found = []
    for file in sorted(folder.glob("*.log")):
        base = int(file.stem)
        index, times = (_bytes(file.with_suffix(suffix)) for suffix in (".index", ".timeindex"))
        with mapped(file) as data:
            batches, size = stored_batches(data), len(data)
        found.append(Segment(file, size, batches, offset_entries(index, base), time_entries(times, base)))
    return found


def stored_batches(data: Data) -> list[StoredBatch]:
    """A segment's whole batches, in order."""
    found = whole_batches(data)
    columns = found["position"], found["base_offset"], last_offsets(found), found["max_timestamp"]
    return [StoredBatch(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


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


def by_offset(segment: Segment, offset: int) -> LookUp:
    """Floor in the index, then on from there to the batch that reaches ``offset``."""
    return _read_on(segment, _floor(segment, offset), lambda batch: batch.last >= offset)


def by_time(segment: Segment, timestamp_ms: int) -> LookUp:
    """Floor in the time index, its offset looked up in the offset index, then on to the first batch of that time."""
    # An entry says: the largest time up to this offset. Below the wanted time, nothing before it can be what is sought.
    earlier = bisect_left(segment.times, timestamp_ms, key=itemgetter(0))
    start = _floor(segment, segment.times[earlier - 1][1]) if earlier else 0
    return _read_on(segment, start, lambda batch: batch.largest_ms >= timestamp_ms)


def _floor(segment: Segment, offset: int) -> int:
    """The position of the index's last entry that is not beyond an offset; the segment's beginning without one."""
    at = bisect_right(segment.offsets, offset, key=itemgetter(0))
    return segment.offsets[at - 1][1] if at else 0


def _read_on(segment: Segment, start: int, is_wanted: Callable[[StoredBatch], bool]) -> LookUp:
    """From a position on; where no batch begins, nothing can be read."""
    first = bisect_left(segment.batches, start, key=itemgetter(0))
    if first == len(segment.batches) or segment.batches[first].position != start:
        return LookUp(None, 0)
    for index in range(first, len(segment.batches)):
        if is_wanted(segment.batches[index]):
            return LookUp(segment.batches[index], index - first + 1)
    return LookUp(None, len(segment.batches) - first)


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""
