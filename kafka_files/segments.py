"""Kafka's log segments as Arrow rows.

One row per record of every ``<node>/…/<topic>-<partition>/<base offset>.log`` below the folder, one row per control
batch (``marker`` is set), and one row per place that could not be read (``problem`` is set); in both the record's
columns are null. Internal topics (``__…``) are left out. Format: record batches v2, KIP-98; the CRC-32C covers
everything from the attributes on.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa

from history.payload import decode

SEGMENTS = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),  # folder name of the exporting node
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("segment", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),  # byte of the segment at which the batch starts
        pa.field("batch_offset", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("producer_id", pa.string()),  # as the payload says; null: not one of ours
        pa.field("seq", pa.int64()),
        pa.field("checksum_ok", pa.bool_()),
        pa.field("crc", pa.int64()),
        pa.field("problem", pa.string()),  # torn tail | bad crc | compressed | malformed | magic
        pa.field("last_offset", pa.int64()),  # of the batch
        pa.field("kafka_producer_id", pa.int64()),  # null: neither idempotent nor transactional
        pa.field("transactional", pa.bool_()),
        pa.field("marker", pa.string()),  # commit | abort | other: a control batch, a row without a record
    ]
)
# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp,
# maxTimestamp, producerId, producerEpoch, baseSequence, recordCount
HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_FROM = 21
_LENGTH_FROM = 12
_COMPRESSION = 0x07
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_MARKERS = {0: "abort", 1: "commit"}
_SEGMENT = re.compile(r"\d{20}\.log")
_REPLICA = re.compile(r"(?P<topic>(?!__).+)-(?P<partition>\d+)")


class Batch(NamedTuple):
    """A record batch as it stands in the file, or the place where one could not be read."""

    position: int
    base_offset: int | None = None
    leader_epoch: int | None = None
    crc: int | None = None
    attributes: int = 0
    record_count: int = 0
    records: memoryview = memoryview(b"")
    problem: str | None = None
    last_offset: int | None = None
    producer_id: int = -1


def batches(data: bytes) -> Iterator[Batch]:
    """The batches of a segment; damage is a batch with a ``problem``, and a torn tail ends the segment."""
    view, at = memoryview(data), 0
    while at < len(data):
        if len(data) - at < HEADER.size:
            yield Batch(at, problem="torn tail")
            return
        base, length, epoch, magic, crc, attributes, delta, _, _, producer_id, *_, count = HEADER.unpack_from(data, at)
        end = at + _LENGTH_FROM + length
        if length < HEADER.size - _LENGTH_FROM or end > len(data):
            yield Batch(at, base, problem="torn tail")
            return
        problem = _problem(magic, crc, attributes, view[at + _CRC_FROM : end])
        rest = view[at + HEADER.size : end]
        yield Batch(at, base, epoch, crc, attributes, count, rest, problem, base + delta, producer_id)
        at = end


def _problem(magic: int, crc: int, attributes: int, covered: memoryview) -> str | None:
    if magic != 2:
        return f"magic {magic}"
    if google_crc32c.value(bytes(covered)) != crc:
        return "bad crc"
    return "compressed" if attributes & _COMPRESSION else None


def records(batch: Batch) -> Iterator[tuple[int, bytes | None]]:
    """Offset and value of each record of a batch without a problem; a control batch has none.

    Raises:
        ValueError: the batch's checksum is right and its records are not.
    """
    if batch.attributes & _CONTROL or batch.base_offset is None:
        return
    data, at = batch.records, 0
    try:
        for _ in range(batch.record_count):
            length, start = _varint(data, at)
            at = start + length
            _, cursor = _varint(data, start + 1)  # after the attributes: timestamp delta
            offset_delta, cursor = _varint(data, cursor)
            key_length, cursor = _varint(data, cursor)
            value_length, cursor = _varint(data, cursor + max(key_length, 0))
            value = None if value_length < 0 else bytes(data[cursor : cursor + value_length])
            yield batch.base_offset + offset_delta, value
    except IndexError:
        raise ValueError("the records do not fill their batch") from None


def marker(batch: Batch) -> str | None:
    """How a control batch ends its producer's transaction: ``commit``, ``abort`` or ``other``; None: no control batch.

    The key of its one record is a version and the kind, two bytes each (KIP-98).
    """
    if not batch.attributes & _CONTROL:
        return None
    try:
        _, cursor = _varint(batch.records, 0)
        _, cursor = _varint(batch.records, cursor + 1)  # after the attributes: timestamp delta
        _, cursor = _varint(batch.records, cursor)
        length, cursor = _varint(batch.records, cursor)
        _, kind = struct.unpack_from(">hh", batch.records[cursor : cursor + length])
    except (IndexError, struct.error):
        return "other"
    return _MARKERS.get(kind, "other")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7


def segment_files(folder: Path) -> list[Path]:
    """The segments of every replica below a folder, internal topics left out."""
    found = (file for file in folder.rglob("*.log") if _SEGMENT.fullmatch(file.name))
    return sorted(file for file in found if _REPLICA.fullmatch(file.parent.name))


def read_segment(node: str, file: Path) -> pa.RecordBatch:
    """One segment as rows of ``SEGMENTS``; never raises for what the file holds."""
    replica = _REPLICA.fullmatch(file.parent.name)
    assert replica is not None, file
    where = (node, replica["topic"], int(replica["partition"]), file.name)
    rows: list[tuple[Any, ...]] = []
    for batch in batches(file.read_bytes()):
        head = (*where, batch.position, batch.base_offset)
        producer_id = batch.producer_id if batch.producer_id >= 0 else None
        tail = (batch.last_offset, producer_id, bool(batch.attributes & _TRANSACTIONAL))
        no_record = (None, batch.leader_epoch, None, None, None, batch.crc)
        ends = None if batch.problem else marker(batch)
        if batch.problem or ends:
            rows.append((*head, *no_record, batch.problem, *tail, ends))
            continue
        try:
            rows += [
                (*head, offset, batch.leader_epoch, *decode(value), batch.crc, None, *tail, None)
                for offset, value in records(batch)
            ]
        except ValueError:
            rows.append((*head, *no_record, "malformed", *tail, None))
    columns = list(zip(*rows, strict=True)) or [()] * len(SEGMENTS)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SEGMENTS, strict=True)], schema=SEGMENTS
    )
