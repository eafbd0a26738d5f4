"""Record batches written byte by byte with all fields, independent of the reader."""

import gzip
import struct
import zlib
from dataclasses import dataclass

import google_crc32c

from tests.evidence.folders import varint


@dataclass(frozen=True)
class Record:
    """A record; times and offsets count from the batch's first."""

    value: bytes | None = b"v"
    key: bytes | None = None
    after_ms: int = 0
    delta: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def sized(data):
    """Return bytes after their length, null as -1."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(one):
    """Return a record's bytes within a batch."""
    body = b"\0" + varint(one.after_ms) + varint(one.delta) + sized(one.key) + sized(one.value)
    body += varint(len(one.headers)) + b"".join(sized(key) + sized(value) for key, value in one.headers)
    return varint(len(body)) + body


def batch_of(base_offset, records, *, epoch=0, attributes=0, base_ms=0, max_ms=0, count=None, body=None):
    """Return a batch of records under a valid CRC; ``body`` and ``count`` replace theirs."""
    body = b"".join(map(record, records)) if body is None else body
    count = len(records) if count is None else count
    last = max((one.delta for one in records), default=0)
    covered = struct.pack(">hiqqqhii", attributes, last, base_ms, max_ms, -1, -1, -1, count) + body
    head = struct.pack(">iBI", epoch, 2, google_crc32c.value(covered))
    return struct.pack(">qi", base_offset, len(head) + len(covered)) + head + covered


def snapshot_header(last_ms):
    """Return a snapshot's first batch: a control record with the time of the last record of the log in it (KIP-630)."""
    header = Record(struct.pack(">hqb", 0, last_ms, 0), struct.pack(">hh", 0, 3))
    return batch_of(0, [header], attributes=0x20, base_ms=last_ms + 500, max_ms=last_ms + 500)


def gzipped(base_offset, records, **other):
    """Return a batch whose records are compressed by the standard library."""
    body = gzip.compress(b"".join(map(record, records)))
    return batch_of(base_offset, records, attributes=1, body=body, **other)


def message(offset, value, *, magic, attributes=0, timestamp_ms=1_466_000_000_000):
    """Return a message of format 0 or 1 without a key."""
    time = struct.pack(">q", timestamp_ms) if magic else b""
    covered = struct.pack(">bb", magic, attributes) + time + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered
