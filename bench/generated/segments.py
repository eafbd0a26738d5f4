"""Encode log segments a chunk of batches at a time: all records of a chunk have one size.

Record batches v2 (KIP-98), uncompressed, without keys and headers; values as in ``history.payload``. CRC-32 is linear,
so a table per digit of a value's number gives its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import google_crc32c
import numpy as np

from bench.generated.plan import MS, STARTED_NS, STARTED_WALL_MS, TOPIC, Ints, PartitionPlan, Plan, is_in
from history.payload import encode
from kafka_files.batches import HEADER

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

CHUNK_BYTES = 16_000_000
_CRC_FROM = 21
_LENGTH_FROM = 12
_CHECKSUM_BYTES = 8
_FIELDS = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records", ">i4"),
    ]
)
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)


def varint(number: int) -> bytes:
    """Encode a zigzag variable-length integer."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def wall_ms(t_ns: int) -> int:
    """Return a monotonic time as milliseconds since 1970."""
    return STARTED_WALL_MS + (t_ns - STARTED_NS) // MS


def small_batch(base_offset: int, values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """Encode one batch of any values, without a producer id."""
    records = b"".join(
        varint(len(record)) + record
        for delta, value in enumerate(values)
        for record in [b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)]
    )
    last = len(values) - 1
    covered = struct.pack(">hiqqqhii", 0, last, timestamp_ms, timestamp_ms, -1, -1, -1, len(values)) + records
    head = struct.pack(">iBI", 0, 2, google_crc32c.value(covered))
    return struct.pack(">qi", base_offset, len(head) + len(covered)) + head + covered


@lru_cache(maxsize=256)
def _template(producer_id: str, digits: int, record_bytes: int) -> tuple[Bytes, int, list[Any]]:
    """Return a value with the number 0…0, its CRC-32, and each digit's effect on it."""
    body = bytearray(encode(producer_id, 10 ** (digits - 1), record_bytes)[:-_CHECKSUM_BYTES])
    at = len(producer_id) + 1
    body[at : at + digits] = b"0" * digits
    zero, tables = crc32(body), []
    for place in range(at, at + digits):
        changes = []
        for digit in b"0123456789":
            body[place] = digit
            changes.append(crc32(body) ^ zero)
        body[place] = ord("0")
        tables.append(np.array(changes, np.uint32))
    return np.frombuffer(bytes(body) + bytes(_CHECKSUM_BYTES), np.uint8), zero, tables


def fill_values(out: Bytes, producer_ids: Sequence[str], producer: Ints, seq: Ints) -> None:
    """Write each record's value into ``out`` (records, record_bytes)."""
    digits = np.searchsorted(_POWERS, seq, side="right") + 1
    kinds = producer * 32 + digits
    first = int(kinds[0])
    if (kinds == first).all():
        _fill_alike(out, producer_ids[first // 32], first % 32, seq)
        return
    for kind in np.unique(kinds):
        own = np.flatnonzero(kinds == kind)
        values = np.empty((len(own), out.shape[1]), np.uint8)
        _fill_alike(values, producer_ids[int(kind) // 32], int(kind) % 32, seq[own])
        out[own] = values


def _fill_alike(out: Bytes, producer_id: str, digits: int, seq: Ints) -> None:
    template, zero, tables = _template(producer_id, digits, out.shape[1])
    out[:] = template
    checksum = np.full(len(seq), zero, np.uint32)
    at, rest = len(producer_id) + 1, seq
    for place in reversed(range(digits)):
        rest, digit = np.divmod(rest, 10)
        out[:, at + place] = digit + ord("0")
        checksum ^= tables[place][digit]
    pairs = checksum.astype(">u4").view(np.uint8).reshape(-1, 4)
    out[:, -_CHECKSUM_BYTES:] = _HEX[pairs].view(np.uint8)


class BatchEncoder:
    """Encodes batches of ``count`` records for one plan."""

    def __init__(self, plan: Plan, count: int) -> None:
        self._plan, self.count = plan, count
        before = [b"\0" + varint(0) + varint(delta) + varint(-1) + varint(plan.record_bytes) for delta in range(count)]
        length = len(before[0]) + plan.record_bytes + 1
        prefix = [varint(length) + each for each in before]
        self._from = len(prefix[0])
        self._record = np.zeros((count, self._from + plan.record_bytes + 1), np.uint8)
        self._record[:, : self._from] = np.frombuffer(b"".join(prefix), np.uint8).reshape(count, -1)
        self.size = HEADER.size + self._record.size

    def encode(self, head: dict[str, Any], producer: Ints, seq: Ints, damaged: Any = None) -> Bytes:
        """Return the batches as bytes (batches, size).

        ``head`` has the header fields that differ; values in ``damaged`` get a wrong byte.
        """
        batches = len(seq) // self.count
        out = np.empty((batches, self.size), np.uint8)
        records = out[:, HEADER.size :].reshape(batches, self.count, -1)
        records[:] = self._record
        values = np.empty((len(seq), self._plan.record_bytes), np.uint8)
        fill_values(values, self._plan.producer_ids, producer, seq)
        if damaged is not None and damaged.any():
            values[damaged, -_CHECKSUM_BYTES - 1] ^= 1
        records[:, :, self._from : -1] = values.reshape(batches, self.count, -1)
        self._add_headers(out, head)
        return out

    def _add_headers(self, out: Bytes, head: dict[str, Any]) -> None:
        fields = np.zeros(len(out), _FIELDS)
        fields["length"], fields["magic"] = self.size - _LENGTH_FROM, 2
        fields["last_offset_delta"], fields["records"] = self.count - 1, self.count
        for name, value in head.items():
            fields[name] = value
        flat = fields.view(np.uint8).reshape(len(out), -1)
        out[:, : HEADER.size] = flat
        fields["crc"] = [google_crc32c.value(batch[_CRC_FROM:].tobytes()) for batch in out]
        out[:, : HEADER.size] = flat


class LogFiles:
    """The same log on every replica, rolled before a segment exceeds ``segment_bytes``."""

    def __init__(self, folders: Sequence[Path], segment_bytes: int) -> None:
        self._folders, self._limit = folders, segment_bytes
        self._files: list[Any] = []
        self._used = 0
        self._roll(0)

    def append(self, batches: Bytes, base_offsets: Ints) -> None:
        at, size = 0, batches.shape[1]
        while at < len(batches):
            fitting = (self._limit - self._used) // size
            if fitting <= 0 and self._used:
                self._roll(int(base_offsets[at]))
                continue
            part = batches[at : at + max(1, fitting)]
            for file in self._files:
                file.write(part.data)
            at, self._used = at + len(part), self._used + part.nbytes

    def _roll(self, base_offset: int) -> None:
        self.close()
        self._files = [(folder / f"{base_offset:020}.log").open("wb", buffering=0) for folder in self._folders]
        self._used = 0

    def close(self) -> None:
        for file in self._files:
            file.close()


def write_log(plan: Plan, part: PartitionPlan, brokers: Path) -> None:
    """Write one partition's segments to its replicas' existing folders."""
    whole = BatchEncoder(plan, plan.batch_records)
    total = part.end_offset // plan.batch_records * whole.size
    limit = plan.segment_bytes or min(max(total // 4, 4096), 256 << 20)
    names = [brokers / f"broker-{n}" / "data" / f"{TOPIC}-{part.number}" for n in plan.assignment(part.number)]
    files = LogFiles(names, limit)
    try:
        _write_main(plan, part, whole, files)
        _write_extra(plan, part, whole, files)
    finally:
        files.close()


def _write_main(plan: Plan, part: PartitionPlan, whole: BatchEncoder, files: LogFiles) -> None:
    batches, rest = divmod(part.records, plan.batch_records)
    step = max(1, CHUNK_BYTES // whole.size)
    for low in range(0, batches, step):
        at = np.arange(low, min(low + step, batches))
        at = at[~is_in(at, part.lost_batches)]
        cut = np.flatnonzero(at == part.cut_batch)
        before, after = (at[: cut[0]], at[cut[0] + 1 :]) if len(cut) else (at, at[:0])
        _append(plan, part, whole, files, before)
        if len(cut):
            _append(plan, part, BatchEncoder(plan, plan.batch_records - part.cut_records), files, at[cut])
        _append(plan, part, whole, files, after)
    if rest:
        _append(plan, part, BatchEncoder(plan, rest), files, np.array([batches]))


def _append(plan: Plan, part: PartitionPlan, encoder: BatchEncoder, files: LogFiles, batches: Ints) -> None:
    if not len(batches):
        return
    base = batches * plan.batch_records
    slots = (base[:, None] + np.arange(encoder.count)).ravel()
    producer = batches % plan.producers
    head = {
        "base_offset": base,
        "producer_id": 1000 + producer,
        "base_sequence": (batches // plan.producers * plan.batch_records - _lost_before(plan, part, batches)) % 2**31,
        **_timestamps(plan, part, base),
    }
    damaged = is_in(slots, part.corrupt)
    files.append(encoder.encode(head, *plan.names(part, slots), damaged), base)


def _lost_before(plan: Plan, part: PartitionPlan, batches: Ints) -> Ints:
    """Kafka's sequence numbers have no gaps."""
    lost = np.zeros(len(batches), np.int64)
    for producer in range(plan.producers):
        own = part.lost_batches[part.lost_batches % plan.producers == producer]
        mine = batches % plan.producers == producer
        lost[mine] = np.searchsorted(own, batches[mine]) * plan.batch_records
        if part.cut_batch >= 0 and part.cut_batch % plan.producers == producer:
            lost[mine] += (batches[mine] > part.cut_batch) * part.cut_records
    return lost


def _write_extra(plan: Plan, part: PartitionPlan, whole: BatchEncoder, files: LogFiles) -> None:
    """Write copies and phantom records, as from a producer without idempotence."""
    at, step = part.records, max(1, CHUNK_BYTES // whole.size) * plan.batch_records
    while at < part.end_offset:
        left = part.end_offset - at
        count = min(left, plan.batch_records)
        slots = np.arange(at, at + min(step, left // count * count))
        base = slots[::count]
        encoder = whole if count == plan.batch_records else BatchEncoder(plan, count)
        head = {"base_offset": base, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
        head |= _timestamps(plan, part, base)
        files.append(encoder.encode(head, *plan.names(part, slots)), base)
        at += len(slots)


def _timestamps(plan: Plan, part: PartitionPlan, slots: Ints) -> dict[str, Ints]:
    times = STARTED_WALL_MS + (plan.appended(part, slots) - STARTED_NS) // MS
    return {"base_timestamp": times, "max_timestamp": times}
