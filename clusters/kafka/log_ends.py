"""Decode the Fetch v12 responses that the probe receives, with thousands of partitions and no records.

kafka-python decodes any layout, which takes several times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from struct import Struct, error
from typing import Any, NamedTuple, Self

from clusters.kafka.connection import decode

_BEGIN = Struct(">ihi")  # throttle time, error, session


class _Partition(NamedTuple):
    """A partition without tags, or whose only tag is a diverging epoch."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: int
    preferred_read_replica: int
    records: int
    tags: int
    tag: int = 0
    tag_bytes: int = 0
    epoch: int = -1
    end_offset: int = -1
    inner_tags: int = 0

    @property
    def diverging_epoch(self) -> Self | None:
        return self if self.tags else None


# By number of tags: the bytes, and which of them always have which value (null or no element: 0 or 1).
_LAYOUTS: dict[int, tuple[Struct, dict[int, bytes]]] = {
    0: (Struct(">ihqqqBiBB"), {30: b"\0\1", 35: b"\0\1", 36: b"\0"}),
    1: (Struct(">ihqqqBiBBBBiqB"), {30: b"\0\1", 35: b"\0\1", 36: b"\1", 37: b"\0", 38: b"\x0d", 51: b"\0"}),
}
_TAGS_AT = 36


class _Topic(NamedTuple):
    topic: str
    partitions: Sequence[_Partition]


class _Reply(NamedTuple):
    throttle_time_ms: int
    error_code: int
    responses: Sequence[_Topic]


def decode_ends(kind: Any, data: memoryview) -> Any:
    """Return a response; if its partitions differ in layout, as kafka-python decodes it."""
    try:
        return _reply(bytes(data))
    except (error, IndexError, KeyError, ValueError):
        return decode(kind, data)


def _reply(data: bytes) -> _Reply:
    throttle_time_ms, error_code, _ = _BEGIN.unpack_from(data)
    count, at = _count(data, _BEGIN.size)
    topics = []
    for _ in range(count):
        length, at = _count(data, at)
        name, at = data[at : at + length].decode(), at + length
        partitions, at = _partitions(data, at)
        topics.append(_Topic(name, partitions))
        at = _without_tags(data, at)
    if _without_tags(data, at) != len(data):
        raise ValueError
    return _Reply(throttle_time_ms, error_code, topics)


def _partitions(data: bytes, at: int) -> tuple[Sequence[_Partition], int]:
    count, at = _count(data, at)
    layout, expected = _LAYOUTS[data[at + _TAGS_AT]]
    end = at + count * layout.size
    if any(data[at + place : end : layout.size].strip(values) for place, values in expected.items()):
        raise ValueError
    return list(starmap(_Partition, layout.iter_unpack(data[at:end]))), end


def _without_tags(data: bytes, at: int) -> int:
    if data[at]:
        raise ValueError
    return at + 1


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Return the length of a compact array or string, and where its bytes end."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            if not value:
                raise ValueError  # null
            return value - 1, at
