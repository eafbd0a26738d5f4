"""Prepare record values and keys, up to a thousand at a time.

Within a thousand only three digits, lengths and checksums differ. CRC-32 is linear, so tables combine checksums of head
and padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from history.draws import Keys, Sizes
from history.payload import CHECKSUM_BYTES, checked_prefix, encode, padding

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Sums = NDArray[np.uint32]

MADE = 1000
MADE_BYTES = 1 << 20  # limits time and memory for large records
RANDOM_BYTES = 1 << 24  # no repetition within a batch
OWN_BYTES = 12  # compressed number, checksum and framing
_TAILS = [b"%03d|" % number for number in range(MADE)]
_TAIL_BYTES: Bytes = np.frombuffer(b"".join(_TAILS), np.uint8).reshape(MADE, 4)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NIBBLES = np.arange(28, -1, -4, dtype=np.uint32)
_ONES = 0xFFFFFFFF
_OF_BYTE: Sums = np.array([crc32(bytes([byte]), _ONES) ^ _ONES for byte in range(256)], np.uint32)


class Block(NamedTuple):
    """Consecutive values; ``starts`` also has the end of ``data``."""

    data: Bytes
    starts: Ints
    keys: Bytes | None = None

    @property
    def records(self) -> int:
        return self.starts.size - 1

    def cut(self) -> list[bytes]:
        first, end = self.starts[[0, -1]].tolist()
        data, places = self.data[first:end].tobytes(), (self.starts - first).tolist()
        return [data[begin:after] for begin, after in pairwise(places)]

    def key_of(self, at: int) -> bytes | None:
        return None if self.keys is None else self.keys[at].tobytes()


class Filling:
    """Fill part of the padding from a source; the rest repeats itself."""

    def __init__(self, source: bytes, share: float, sizes: Sizes) -> None:
        self._source, self._share = source, share
        self._places = len(source) - round(share * sizes.largest) + 1
        self._of_a_thousand = round(share * MADE * sizes.mean)

    @classmethod
    def compressing_to(cls, share: float, sizes: Sizes) -> Filling:
        """Return random padding that compresses to about ``share``."""
        random = np.random.default_rng(0).bytes(RANDOM_BYTES)
        return cls(random, max(share - OWN_BYTES / sizes.mean, 0.0), sizes)

    def starts(self, thousand: int, sizes: Ints) -> Ints:
        taken = np.rint(self._share * sizes).astype(np.int64)
        before = thousand * self._of_a_thousand + np.cumsum(taken) - taken
        begins: Ints = before % self._places
        return begins

    def of(self, start: int, record_bytes: int, size: int) -> bytes:
        taken = min(round(self._share * record_bytes), size)
        return self._source[start : start + taken] + padding(size - taken)


class Values:
    """Make a producer's values and keys; raises BadInput as ``encode``."""

    def __init__(
        self, producer_id: str, sizes: Sizes, filling: Filling | None = None, keys: Keys | None = None
    ) -> None:
        self._producer_id, self._sizes, self._filling, self._keys = producer_id, sizes, filling, keys
        self._prefix = checked_prefix(producer_id, sizes.smallest)
        self._sums_of_padding: dict[int, Sums] = {}
        self._together = max(1, min(MADE, MADE_BYTES // round(sizes.mean)))
        self._made_from, self._made = 0, Block(np.zeros(0, np.uint8), np.zeros(1, np.int64))

    def block(self, first: int, count: int) -> Block:
        at = first - self._made_from
        if not 0 <= at < self._made.records:
            thousand, behind = divmod(first, MADE)
            at = behind % self._together
            self._made_from, self._made = first - at, self._make(thousand, behind - at)
        data, starts, keys = self._made
        return Block(data, starts[at : at + count + 1], None if keys is None else keys[at : at + count])

    def _make(self, thousand: int, begin: int) -> Block:
        here = slice(begin, min(begin + self._together, MADE))
        seqs = np.arange(thousand * MADE, (thousand + 1) * MADE)
        of_all = self._sizes.of_records(seqs)
        sizes = of_all[here]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        keys = None if self._keys is None else self._keys.of_records(seqs[here])
        if self._filling or not thousand:  # paddings or number lengths differ
            begins = self._filling.starts(thousand, of_all)[here] if self._filling else np.zeros_like(sizes)
            data = np.frombuffer(b"".join(self._one_by_one(seqs[here], sizes, begins)), np.uint8)
        else:
            data = self._alike(b"%b%d" % (self._prefix, thousand), _TAIL_BYTES[here], sizes, starts)
        return Block(data, starts, keys)

    def _one_by_one(self, seqs: Ints, sizes: Ints, begins: Ints) -> Iterator[bytes]:
        filling = self._filling
        for seq, size, begin in zip(seqs.tolist(), sizes.tolist(), begins.tolist(), strict=True):
            fill = partial(filling.of, begin, size) if filling else padding
            yield encode(self._producer_id, seq, size, fill)

    def _alike(self, same: bytes, tails: Bytes, sizes: Ints, starts: Ints) -> Bytes:
        sums = np.full(sizes.size, crc32(same) ^ _ONES, np.uint32)
        for column in tails.T:
            sums = (sums >> np.uint32(8)) ^ _OF_BYTE[(sums ^ column) & 0xFF]
        sums ^= np.uint32(_ONES)
        head, own = len(same), len(same) + len(_TAILS[0])
        filling = padding(self._sizes.largest - own - CHECKSUM_BYTES)
        if self._sizes.fixed:
            made = np.empty((sizes.size, self._sizes.largest), np.uint8)
            made[:] = np.frombuffer(same + _TAILS[0] + filling + bytes(CHECKSUM_BYTES), np.uint8)
            made[:, head:own] = tails
            made[:, -CHECKSUM_BYTES:] = _hex(_applied(_shifts(len(filling)), sums) ^ np.uint32(crc32(filling)))
            return made.ravel()
        sums = _shifted(sums, sizes - own - CHECKSUM_BYTES)
        sums ^= self._padding_sums(own)[np.searchsorted(self._sizes.likely, sizes)]
        data, begins, ends = np.empty(starts[-1], np.uint8), starts[:-1, None], starts[1:, None]
        view, source = data.data, memoryview(filling)
        for begin, end in pairwise(starts.tolist()):
            view[begin + own : end - CHECKSUM_BYTES] = source[: end - CHECKSUM_BYTES - begin - own]
        data[begins + np.arange(head)] = np.frombuffer(same, np.uint8)
        data[begins + np.arange(head, own)] = tails
        data[ends + np.arange(-CHECKSUM_BYTES, 0)] = _hex(sums)
        return data

    def _padding_sums(self, own: int) -> Sums:
        if own not in self._sums_of_padding:
            lengths = (self._sizes.likely - own - CHECKSUM_BYTES).tolist()
            filling, found = padding(lengths[-1]), [crc32(padding(lengths[0]))]
            for shorter, longer in pairwise(lengths):
                found.append(crc32(filling[shorter:longer], found[-1]))
            self._sums_of_padding[own] = np.array(found, np.uint32)
        return self._sums_of_padding[own]


def _hex(sums: Sums) -> Bytes:
    digits: Bytes = _HEX[(sums[:, None] >> _NIBBLES) & 0xF]
    return digits


def _applied(shifts: tuple[Sums, ...], sums: Sums) -> Sums:
    found = np.zeros(sums.size, np.uint32)
    for byte, table in enumerate(shifts):
        found ^= table[(sums >> np.uint32(8 * byte)) & 0xFF]
    return found


@lru_cache(maxsize=64)
def _shifts(size: int) -> tuple[Sums, ...]:
    """Return tables that shift a checksum's bytes by ``size`` zero bytes."""
    return tuple(
        _shifted(np.arange(256, dtype=np.uint32) << np.uint32(8 * byte), np.full(256, size)) for byte in range(4)
    )


@cache
def _power(bit: int) -> tuple[Sums, ...]:
    if bit:
        half = _power(bit - 1)
        return tuple(_applied(half, table) for table in half)
    alone = crc32(bytes(1))
    return tuple(
        np.array([crc32(bytes(1), value << (8 * byte)) ^ alone for value in range(256)], np.uint32) for byte in range(4)
    )


def _shifted(sums: Sums, sizes: Ints) -> Sums:
    for bit in range(int(sizes.max(initial=0)).bit_length()):
        sums = np.where(sizes >> bit & 1, _applied(_power(bit), sums), sums)
    return sums
