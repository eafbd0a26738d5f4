"""Values made ahead, a thousand at a time: those of ``history.payload.encode``.

Of a thousand neighbours only the last three digits and the checksums differ. A checksum is linear: that of a value
follows from that of its head by four look-ups and from that of the padding, however long the padding is.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from history.payload import CHECKSUM_BYTES, checked_prefix, encode, padding

Bytes = NDArray[np.uint8]
Sums = NDArray[np.uint32]

MADE = 1000
_TAILS = [b"%03d|" % number for number in range(MADE)]
_TAIL_BYTES: Bytes = np.frombuffer(b"".join(_TAILS), np.uint8).reshape(MADE, 4)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NIBBLES = np.arange(28, -1, -4, dtype=np.uint32)
_ONES = 0xFFFFFFFF
_OF_BYTE: Sums = np.array([crc32(bytes([byte]), _ONES) ^ _ONES for byte in range(256)], np.uint32)


class Values:
    """The values of a producer's records.

    Raises:
        BadInput: as ``encode``.
    """

    def __init__(self, producer_id: str, record_bytes: int) -> None:
        self._producer_id, self._record_bytes = producer_id, record_bytes
        self._prefix = checked_prefix(producer_id, record_bytes)
        self._made_for, self._made = -1, list[bytes]()

    def of(self, seq: int) -> bytes:
        """The value of a record; numbers are best asked for in order."""
        thousand, at = divmod(seq, MADE)
        if thousand != self._made_for:
            self._made_for, self._made = thousand, self._make(thousand)
        return self._made[at]

    def _make(self, thousand: int) -> list[bytes]:
        if not thousand:  # their numbers are not equally long
            return [encode(self._producer_id, seq, self._record_bytes) for seq in range(MADE)]
        same = b"%b%d" % (self._prefix, thousand)
        filling = padding(self._record_bytes - len(same) - len(_TAILS[0]) - CHECKSUM_BYTES)
        sums = np.full(MADE, crc32(same) ^ _ONES, np.uint32)
        for column in _TAIL_BYTES.T:
            sums = (sums >> np.uint32(8)) ^ _OF_BYTE[(sums ^ column) & 0xFF]
        sums = _continued(sums ^ np.uint32(_ONES), filling)
        ends = _HEX[(sums[:, None] >> _NIBBLES) & 0xF].tobytes()
        return [
            b"%b%b%b%b" % (same, tail, filling, ends[at : at + CHECKSUM_BYTES])
            for tail, at in zip(_TAILS, range(0, len(ends), CHECKSUM_BYTES), strict=True)
        ]


def _continued(sums: Sums, more: bytes) -> Sums:
    """The checksums of what has these and is followed by ``more``."""
    found = np.full(sums.size, crc32(more), np.uint32)
    for byte, table in enumerate(_shifts(len(more))):
        found ^= table[(sums >> np.uint32(8 * byte)) & 0xFF]
    return found


@lru_cache(maxsize=64)
def _shifts(size: int) -> tuple[Sums, ...]:
    """What each byte of a checksum becomes when ``size`` bytes follow, but for what these bytes add themselves."""
    zeros = bytes(size)
    own = crc32(zeros)
    return tuple(
        np.array([crc32(zeros, value << (8 * byte)) ^ own for value in range(256)], np.uint32) for byte in range(4)
    )
