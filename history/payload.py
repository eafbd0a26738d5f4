"""A record's value: ``<producer_id>|<seq>|`` in ASCII, padding, CRC-32 in hexadecimal.

Runs in client nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from history import verifiable
from history.errors import BadInput

MIN_RECORD_BYTES = 64
MAX_SEQ = 2**47 - 1  # fits 64 bits with a producer's code
CHECKSUM_BYTES = 8
_PADDING_UNIT = b"abcdefghijklmnopqrstuvwxyz012345"


class Payload(NamedTuple):
    """A decoded value; names are None if it is no test record."""

    producer_id: str | None
    seq: int | None
    checksum_ok: bool | None


FOREIGN = Payload(None, None, False)


@lru_cache(maxsize=64)
def padding(size: int) -> bytes:
    """Return padding of this size."""
    return (_PADDING_UNIT * (size // len(_PADDING_UNIT) + 1))[:size]


@lru_cache(maxsize=64)
def checked_prefix(producer_id: str, record_bytes: int) -> bytes:
    """Return the prefix of a producer's values.

    Raises: BadInput: see ``encode``.
    """
    prefix = f"{producer_id}|".encode("ascii")
    if "|" in producer_id or len(prefix) + len(f"{2**63}|") + CHECKSUM_BYTES > record_bytes:
        raise BadInput(
            f"A record of {record_bytes} bytes cannot carry producer id {producer_id!r}: "
            f"use at least {MIN_RECORD_BYTES} bytes and an id of at most 35 characters without '|'."
        )
    return prefix


def encode(producer_id: str, seq: int, record_bytes: int, fill: Callable[[int], bytes] = padding) -> bytes:
    """Return a value of exactly ``record_bytes``.

    Raises: BadInput: the record is too small, or the id contains ``|``.
    """
    head = b"%b%d|" % (checked_prefix(producer_id, record_bytes), seq)
    body = head + fill(record_bytes - len(head) - CHECKSUM_BYTES)
    return b"%b%08x" % (body, crc32(body))


def copier_id(partition: int) -> str:
    """Return a copier's id; its numbers are input offsets."""
    return f"copier-{partition}"


def decode(value: bytes | None) -> Payload:
    """Decode a value; damaged ones keep readable names."""
    if value is None:
        return FOREIGN
    body, checksum = value[:-CHECKSUM_BYTES], value[-CHECKSUM_BYTES:]
    parts = body.split(b"|", 2)
    if len(parts) == 1:
        return _without_checksum(value)
    if len(parts) != 3 or not parts[0].isascii() or not parts[1].isdigit():
        return FOREIGN
    if len(parts[1]) > len(str(MAX_SEQ)) or (seq := int(parts[1])) > MAX_SEQ:
        return FOREIGN
    return Payload(parts[0].decode("ascii"), seq, b"%08x" % crc32(body) == checksum)


def _without_checksum(value: bytes) -> Payload:
    found = verifiable.named(value.decode("latin-1"))
    return Payload(*found, None) if found and found[1] <= MAX_SEQ else FOREIGN
