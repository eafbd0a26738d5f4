"""Values made ahead, a thousand at a time: those of ``history.payload.encode``.

Of a thousand neighbours only the last three digits and the checksums differ. A checksum is linear: that of a value
follows from that of its head by four look-ups and from that of the padding, however long the padding is.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from history.payload import CHECKSUM_BYTES, checked_prefix, encode, padding

Bytes = NDArray[np.uint8]
Sums = NDArray[np.uint32]

MADE = 1000
RANDOM_BYTES = 1 << 24  # more than a batch has, so that nothing in it is there twice
OWN_BYTES = 12  # of a record: about what its number, its checksum and Kafka's framing come to when they are compressed
_TAILS = [b"%03d|" % number for number in range(MADE)]
_TAIL_BYTES: Bytes = np.frombuffer(b"".join(_TAILS), np.uint8).reshape(MADE, 4)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NIBBLES = np.arange(28, -1, -4, dtype=np.uint32)
_ONES = 0xFFFFFFFF
_OF_BYTE: Sums = np.array([crc32(bytes([byte]), _ONES) ^ _ONES for byte in range(256)], np.uint32)


class Block(NamedTuple):
    """The values of neighbouring records, one after the other in ``data``; each ends where the next starts, the last
    one at the last of ``starts``.
    """

    data: Bytes
    starts: NDArray[np.int64]

    @property
    def records(self) -> int:
        return self.starts.size - 1

    def of(self, at: int) -> bytes:
        return self.data[self.starts[at] : self.starts[at + 1]].tobytes()


class Filling:
    """Padding that begins with ``share`` of a record's bytes out of others, the next ones for each record; the rest
    repeats itself. Within a batch no two records have the same.
    """

    def __init__(self, source: bytes, share: float, record_bytes: int) -> None:
        self._taken = round(share * record_bytes)
        self._source = source

    @classmethod
    def compressing_to(cls, share: float, record_bytes: int) -> Filling:
        """Random bytes, so many that batches are compressed to about that share of their bytes."""
        random = np.random.default_rng(0).bytes(RANDOM_BYTES)
        return cls(random, max(share - OWN_BYTES / record_bytes, 0.0), record_bytes)

    def of(self, seq: int, size: int) -> bytes:
        """``size`` bytes for a record."""
        taken = min(self._taken, size)
        start = seq * taken % (len(self._source) - taken + 1)
        return self._source[start : start + taken] + padding(size - taken)


class Values:
    """The values of a producer's records, with a padding that is the same in all where none is given.

    Raises:
        BadInput: as ``encode``.
    """

    def __init__(self, producer_id: str, record_bytes: int, filling: Filling | None = None) -> None:
        self._producer_id, self._record_bytes, self._filling = producer_id, record_bytes, filling
        self._prefix = checked_prefix(producer_id, record_bytes)
        self._made_for, self._made = -1, np.zeros(0, np.uint8)

    def block(self, first: int, count: int) -> Block:
        """The values of records from a number on, as far as they are made together; best asked for in order."""
        thousand, at = divmod(first, MADE)
        if thousand != self._made_for:
            self._made_for, self._made = thousand, self._make(thousand)
        starts = np.arange(min(count, MADE - at) + 1) * self._record_bytes
        return Block(self._made[at * self._record_bytes :], starts)

    def _make(self, thousand: int) -> Bytes:
        if self._filling or not thousand:  # the paddings are not the same, or the numbers not equally long
            values = map(self._one, range(thousand * MADE, (thousand + 1) * MADE))
            return np.frombuffer(b"".join(values), np.uint8)
        same = b"%b%d" % (self._prefix, thousand)
        filling = padding(self._record_bytes - len(same) - len(_TAILS[0]) - CHECKSUM_BYTES)
        sums = np.full(MADE, crc32(same) ^ _ONES, np.uint32)
        for column in _TAIL_BYTES.T:
            sums = (sums >> np.uint32(8)) ^ _OF_BYTE[(sums ^ column) & 0xFF]
        sums = _continued(sums ^ np.uint32(_ONES), filling)
        made = np.empty((MADE, self._record_bytes), np.uint8)
        made[:] = np.frombuffer(same + _TAILS[0] + filling + bytes(CHECKSUM_BYTES), np.uint8)
        made[:, len(same) : len(same) + len(_TAILS[0])] = _TAIL_BYTES
        made[:, -CHECKSUM_BYTES:] = _HEX[(sums[:, None] >> _NIBBLES) & 0xF]
        return made.ravel()

    def _one(self, seq: int) -> bytes:
        fill = partial(self._filling.of, seq) if self._filling else padding
        return encode(self._producer_id, seq, self._record_bytes, fill)


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
