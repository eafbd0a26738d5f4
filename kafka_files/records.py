"""Decode batches' records (KIP-98) into Arrow columns.

Runs of equal length are found together, so loops depend on changes of length, not on the longest batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from history.errors import EvidenceError
from kafka_files.batches import COMPRESSION, CONTROL, HEADER, LOG_APPEND_TIME, Data, Headers, Problem, problem_text
from kafka_files.codecs import NAMES, NONE, CodecError, OutputFullError, decompress_into
from kafka_files.payloads import Payloads, Values, decode_payloads

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RECORDS = pa.schema(
    [
        pa.field("batch", pa.int32(), nullable=False),  # row of the headers
        pa.field("base_offset", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("key_length", pa.int32(), nullable=False),  # -1: null
        pa.field("value_length", pa.int32(), nullable=False),
        pa.field("producer", pa.dictionary(pa.int32(), pa.string())),  # null: no test record
        pa.field("seq", pa.int64()),
        pa.field("checksum_ok", pa.bool_()),  # null: no checksum
    ]
)
SLICE_BYTES = 1 << 24  # exceeded by at most one batch
MAX_BATCH_BYTES = 1 << 26  # decompressed; message.max.bytes is 1 MiB by default
_MIN_RECORD_BYTES = 7  # length, attributes, two deltas, two lengths, header count
_MIN_ALIKE = 16  # later four times the last match
_MIN_TOGETHER = 128  # below this, reading singly is faster
_SINGLY = 256
_CHUNK = 1 << 14  # columns fit the CPU cache
_CHUNK_BYTES = 1 << 21  # as above
_MAX_VARINT_BYTES = 10
_MAX_LENGTH_BYTES = 5
_NOWHERE = 1 << 62  # end of an unterminated varint
_MARKERS = {0: "abort", 1: "commit"}


class Decoded(NamedTuple):
    """Batches and their ``RECORDS``."""

    headers: Headers
    records: pa.RecordBatch


class Fields(NamedTuple):
    """Positions of a slice's records."""

    data: Bytes
    batch: Ints  # row of the headers
    offset: Ints
    timestamp_ms: Ints
    key_start: Ints
    key_length: Ints  # -1: null
    value_start: Ints
    value_length: Ints


def decode(data: Data, headers: Headers, most_bytes: int = SLICE_BYTES) -> Iterator[Decoded]:
    """Decode batches in slices of about ``most_bytes``."""
    for rows, fields in _slices(data, headers, most_bytes):
        yield Decoded(rows, _as_arrow(rows, fields))


def values(data: Data, headers: Headers) -> Iterator[tuple[np.void, int, bytes | None]]:
    """Yield each record's (header, offset, value).

    Raises: EvidenceError: the next batch is unreadable.
    """
    for rows, fields in _slices(data, headers, SLICE_BYTES):
        wrong = np.flatnonzero(rows["problem"])
        sound = int(np.searchsorted(fields.batch, wrong[0])) if len(wrong) else len(fields.batch)
        places = zip(*(column[:sound] for column in (fields.batch, fields.offset, fields.value_start)), strict=True)
        for (batch, offset, start), length in zip(places, fields.value_length, strict=False):
            yield rows[batch], int(offset), None if length < 0 else fields.data[start : start + length].tobytes()
        if len(wrong):
            header = rows[wrong[0]]
            raise EvidenceError(f"The batch at byte {header['position']} cannot be read: {problem_text(header)}.")


def marker(data: Data, header: np.void) -> str | None:
    """Return how a control batch ends its transaction (``commit``, ``abort``, ``other``), None for others."""
    if not header["attributes"] & CONTROL:
        return None
    start, end = int(header["position"]) + HEADER.size, int(header["position"] + header["size"])
    body = np.frombuffer(data[start : min(end, start + 100)], np.uint8)
    at = np.zeros(1, np.int64)
    try:
        _, at = _varints(body, at)  # record length
        at = at + 1  # attributes
        for _ in range(2):  # timestamp and offset deltas
            _, at = _varints(body, at)
        length, at = _varints(body, at)
        _, kind = struct.unpack_from(">hh", body[at[0] : at[0] + max(length[0], 0)].tobytes())
    except (IndexError, struct.error):
        return "other"
    return _MARKERS.get(kind, "other")


def _slices(data: Data, headers: Headers, most_bytes: int) -> Iterator[tuple[Headers, Fields]]:
    plain = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)
    scratch = np.empty(0, np.uint8)
    for rows in _cut(headers, most_bytes):
        _check_bodies(rows)
        starts = rows["position"] + HEADER.size
        ends = rows["position"] + rows["size"]
        if not (rows["attributes"][_has_records(rows)] & COMPRESSION).any():
            yield rows, _fields(plain, rows, starts, ends)
            continue
        if not len(scratch):  # untouched pages take no memory
            scratch = np.empty(max(most_bytes, 0) + MAX_BATCH_BYTES, np.uint8)
        first = used = 0
        for index in range(len(rows)):
            starts[index], used = used, used + _unpack(data, rows[index : index + 1], scratch[used:])
            ends[index] = used
            if used >= most_bytes or index == len(rows) - 1:
                part = slice(first, index + 1)
                yield rows[part], _fields(scratch[:used], rows[part], starts[part], ends[part])
                first, used = index + 1, 0


def _cut(headers: Headers, most_bytes: int) -> Iterator[Headers]:
    reached = np.cumsum(headers["size"])
    first = 0
    while first < len(headers):
        before = int(reached[first - 1]) if first else 0
        last = int(np.searchsorted(reached, before + most_bytes)) + 1
        yield headers[first:last].copy()
        first = last


def _has_records(rows: Headers) -> Bools:
    found: Bools = (rows["problem"] == 0) & (rows["attributes"] & CONTROL == 0)
    return found


def _check_bodies(rows: Headers) -> None:
    rows["problem"][_has_records(rows) & (rows["attributes"] & COMPRESSION >= len(NAMES))] = Problem.CODEC
    rows["problem"][_has_records(rows) & (rows["size"] > HEADER.size + MAX_BATCH_BYTES)] = Problem.TOO_LARGE


def _unpack(data: Data, row: Headers, into: Bytes) -> int:
    """Decompress a batch into a buffer and return its size, or set the problem."""
    if not _has_records(row)[0]:
        return 0
    start, end = int(row["position"][0]) + HEADER.size, int(row["position"][0] + row["size"][0])
    body, codec = bytes(data[start:end]), int(row["attributes"][0]) & COMPRESSION
    if codec == NONE:
        into[: len(body)] = np.frombuffer(body, np.uint8)
        return len(body)
    try:
        return decompress_into(codec, body, into[:MAX_BATCH_BYTES])
    except OutputFullError:
        row["problem"] = Problem.TOO_LARGE
    except CodecError:
        row["problem"] = Problem.MALFORMED
    return 0


def _fields(data: Bytes, rows: Headers, starts: Ints, ends: Ints) -> Fields:
    read = _has_records(rows)
    counts = np.where(read, rows["record_count"], 0).astype(np.int64)
    lying = read & ((counts < 0) | (counts * _MIN_RECORD_BYTES > ends - starts) | ((counts == 0) & (ends > starts)))
    counts[lying] = 0
    bodies, body_ends, broken = _bodies(data, starts, ends, counts)
    batch = np.repeat(np.arange(len(rows)), counts)
    columns = np.empty((6, len(batch)), np.int64)
    wrong = np.zeros(len(batch), bool)
    for at in range(0, len(batch), _CHUNK):
        part = slice(at, at + _CHUNK)
        wrong[part] = _read_fields(data, bodies[part], body_ends[part], columns[:, part])
    broken[batch[wrong]] = True
    rows["problem"][lying | broken] = Problem.MALFORMED
    if broken.any():
        kept = ~broken[batch]
        batch, columns = batch[kept], columns[:, kept]
    columns[0] += rows["base_offset"][batch]
    columns[1] += rows["base_timestamp"][batch]
    appended = (rows["attributes"] & LOG_APPEND_TIME != 0)[batch]
    columns[1][appended] = rows["max_timestamp"][batch[appended]]
    return Fields(data, batch, *columns)


def _bodies(data: Bytes, starts: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints, Bools]:
    """Return each record's start and end, and which batches are not filled exactly."""
    walk = _Walk(data, starts, ends, counts)
    live = np.flatnonzero(counts)
    while len(live):
        before, batches = walk.left.sum(), len(live)
        live = walk.together(live)
        if before - walk.left.sum() < min(_MIN_TOGETHER, batches * _MIN_ALIKE):
            live = np.array([index for index in live.tolist() if walk.singly(index)], np.int64)
    return walk.bodies, walk.body_ends, (walk.left > 0) | ((walk.at != ends) & (counts > 0))


class _Walk:
    """Take records of equal length together in all batches; if these are few, singly."""

    def __init__(self, data: Bytes, starts: Ints, ends: Ints, counts: Ints) -> None:
        self._data, self._starts, self._ends = data, starts, ends
        self.at, self.left = starts.copy(), counts.copy()
        self._row = np.cumsum(counts) - counts
        self._alike = np.full(len(counts), _MIN_ALIKE)
        self._text: dict[int, bytes] = {}  # of batches read singly
        self.bodies, self.body_ends = np.zeros((2, int(counts.sum())), np.int64)

    def together(self, batches: Ints) -> Ints:
        """Take at least one record per batch; return batches with more."""
        at, ends = self.at[batches], self._ends[batches]
        length, body = _varints(self._data, at)
        fits = (length >= 0) & (length <= ends - body) & (body - at <= _MAX_LENGTH_BYTES)
        if not fits.all():
            batches, at, ends, length, body = (each[fits] for each in (batches, at, ends, length, body))
        width, size = body - at, body + length - at
        most = np.minimum(np.minimum(self.left[batches], self._alike[batches]), (ends - at) // size)
        taken = _alike(self._data, at, width, size, most)
        step = _counted(taken)
        rows = np.repeat(self._row[batches], taken) + step
        places = np.repeat(at, taken) + step * np.repeat(size, taken)
        self.bodies[rows] = places + np.repeat(width, taken)
        self.body_ends[rows] = places + np.repeat(size, taken)
        self._advance(batches, taken, taken * size)
        self._alike[batches] = 4 * taken
        return batches[self.left[batches] > 0]

    def singly(self, batch: int) -> bool:
        start, first = int(self._starts[batch]), int(self._row[batch])
        if batch not in self._text:
            self._text[batch] = self._data[start : self._ends[batch]].tobytes()
        rows = slice(first, first + min(int(self.left[batch]), _SINGLY))
        bodies, ends = self.bodies[rows], self.body_ends[rows]
        found, end = _walk_singly(self._text[batch], int(self.at[batch]) - start, bodies, ends)
        bodies[:found] += start
        ends[:found] += start
        self._advance(batch, found, start + end - self.at[batch])
        self._alike[batch] = _MIN_ALIKE
        return found == len(bodies) and bool(self.left[batch])

    def _advance(self, batches: Ints | int, records: Ints | int, size: Ints | int) -> None:
        self.at[batches] += size
        self.left[batches] -= records
        self._row[batches] += records


def _alike(data: Bytes, at: Ints, width: Ints, size: Ints, most: Ints) -> Ints:
    """Return how often the first ``width`` bytes repeat every ``size`` bytes, up to ``most``."""
    step = _counted(most)
    places = np.repeat(at, most) + step * np.repeat(size, most)
    alike = np.ones(len(places), bool)
    for byte in range(int(width.max(initial=0))):
        same = data.take(places + byte, mode="clip") == np.repeat(data.take(at + byte, mode="clip"), most)
        alike &= same | np.repeat(byte >= width, most)
    if alike.all():
        return most
    return np.minimum.reduceat(np.where(alike, np.repeat(most, most), step), np.cumsum(most) - most)


def _counted(counts: Ints) -> Ints:
    """Concatenate the ranges 0 to each count."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _walk_singly(data: bytes, at: int, bodies: Ints, ends: Ints) -> tuple[int, int]:
    size = len(data)
    for row in range(len(bodies)):
        start, number, shift, byte = at, 0, 0, 0x80
        while byte > 0x7F:
            if at >= size or shift > 28:
                return row, start
            byte = data[at]
            number |= (byte & 0x7F) << shift
            shift += 7
            at += 1
        if number & 1 or at + (number >> 1) > size:  # negative, or beyond the end
            return row, start
        bodies[row] = at
        at += number >> 1
        ends[row] = at
    return len(bodies), at


def _read_fields(data: Bytes, bodies: Ints, ends: Ints, into: Ints) -> Bools:
    into[1], at = _varints(data, bodies + 1)  # after the attributes
    into[0], at = _varints(data, at)
    wrong = np.zeros(len(bodies), bool)
    for row in (2, 4):
        length, at = _varints(data, at)
        lying = (length < -1) | (length > ends - at)
        length[lying] = -1
        wrong |= lying
        into[row], into[row + 1] = at, length
        at = at + np.maximum(length, 0)
    headers, at = _varints(data, at)
    wrong |= (headers < 0) | (headers > ends - at) | ((headers == 0) & (at != ends))
    return wrong


def _varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Return zigzag integers and their ends; arbitrary outside the data."""
    byte = data.take(at, mode="clip")
    number = (byte & 0x7F).astype(np.int64)
    after = at + 1
    more = byte > 0x7F
    if more.any():
        byte = data.take(after, mode="clip")
        number += ((byte & 0x7F).astype(np.int64) << 7) * more
        after += more
        rest = np.flatnonzero(more & (byte > 0x7F))
        for shift in range(14, 7 * _MAX_VARINT_BYTES, 7):
            if not len(rest):
                break
            byte = data.take(after[rest], mode="clip")
            number[rest] |= (byte & 0x7F).astype(np.int64) << shift
            after[rest] += 1
            rest = rest[byte > 0x7F]
        after[rest] = _NOWHERE
    return (number >> 1) ^ -(number & 1), after


def _as_arrow(rows: Headers, fields: Fields) -> pa.RecordBatch:
    names: dict[str, int] = {}
    count, value_bytes = len(fields.batch), int(np.maximum(fields.value_length, 0).sum())
    chunk = min(max(_CHUNK_BYTES * count // max(value_bytes, 1), 1 << 10), _CHUNK)
    parts = [
        decode_payloads(Values(fields.data, fields.value_start[part], fields.value_length[part]), names)
        for part in (slice(at, at + chunk) for at in range(0, count, chunk))
    ]
    payloads = Payloads(*(np.concatenate(column) for column in zip(*parts, strict=True))) if parts else _NO_PAYLOADS
    ours = payloads.producer >= 0
    codes = _column(pa.int32(), payloads.producer, ours)
    columns = [
        _column(pa.int32(), fields.batch),
        _column(pa.int64(), rows["base_offset"][fields.batch]),
        _column(pa.int32(), rows["leader_epoch"][fields.batch]),
        _column(pa.int64(), fields.offset),
        _column(pa.int64(), fields.timestamp_ms),
        _column(pa.int32(), fields.key_length),
        _column(pa.int32(), fields.value_length),
        pa.DictionaryArray.from_arrays(codes, _texts([name.encode() for name in names])),
        _column(pa.int64(), payloads.seq, ours),
        pa.Array.from_buffers(pa.bool_(), len(ours), [_bits(payloads.checked), _bits(payloads.checksum_ok)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def _column(kind: pa.DataType, numbers: npt.NDArray[np.integer], valid: Bools | None = None) -> pa.Array:
    """Convert to Arrow; ``pa.array`` would import pandas."""
    stored = np.ascontiguousarray(numbers, f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(stored), [None if valid is None else _bits(valid), pa.py_buffer(stored)])


def _texts(encoded: list[bytes]) -> pa.Array:
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def _bits(true: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(true, bitorder="little"))


_NO_PAYLOADS = Payloads(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, bool))
