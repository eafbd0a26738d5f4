"""Values made ahead, up to a thousand at a time: those of ``history.payload.encode``, and their keys.

Of a thousand neighbours only the last three digits, the lengths and the checksums differ. A checksum is linear: that of
a value follows by a few look-ups from that of its head and from that of the padding, however long the padding is.
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
MADE_BYTES = 1 << 20  # so that making them takes a fraction of a millisecond, and little memory, however large they are
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
    one at the last of ``starts``. ``keys`` has a row for each, None where they have none.
    """

    data: Bytes
    starts: Ints
    keys: Bytes | None = None

    @property
    def records(self) -> int:
        return self.starts.size - 1

    def cut(self) -> list[bytes]:
        """Each value by itself, out of one copy of them all."""
        first, end = self.starts[[0, -1]].tolist()
        data, places = self.data[first:end].tobytes(), (self.starts - first).tolist()
        return [data[begin:after] for begin, after in pairwise(places)]

    def key_of(self, at: int) -> bytes | None:
        return None if self.keys is None else self.keys[at].tobytes()


class Filling:
    """Padding that begins with others' bytes, the next ones for each record; the rest repeats itself. Within a batch no
    two records have the same, but for a few where sizes differ.
    """

    def __init__(self, source: bytes, share: float, sizes: Sizes) -> None:
        """``share`` is that of a record's bytes that are taken from ``source``."""
        self._source, self._share = source, share
        self._places = len(source) - round(share * sizes.largest) + 1  # from which each record has its stretch
        self._of_a_thousand = round(share * MADE * sizes.mean)

    @classmethod
    def compressing_to(cls, share: float, sizes: Sizes) -> Filling:
        """Random bytes, so many that batches are compressed to about that share of their bytes."""
        random = np.random.default_rng(0).bytes(RANDOM_BYTES)
        return cls(random, max(share - OWN_BYTES / sizes.mean, 0.0), sizes)

    def starts(self, thousand: int, sizes: Ints) -> Ints:
        """Where in the source the bytes of each of a thousand records begin, by their sizes."""
        taken = np.rint(self._share * sizes).astype(np.int64)
        before = thousand * self._of_a_thousand + np.cumsum(taken) - taken
        begins: Ints = before % self._places
        return begins

    def of(self, start: int, record_bytes: int, size: int) -> bytes:
        """``size`` bytes for a record, from a start on."""
        taken = min(round(self._share * record_bytes), size)
        return self._source[start : start + taken] + padding(size - taken)


class Values:
    """The values of a producer's records, with a padding that is the same in all where none is given, and their keys.

    Raises:
        BadInput: as ``encode``.
    """

    def __init__(
        self, producer_id: str, sizes: Sizes, filling: Filling | None = None, keys: Keys | None = None
    ) -> None:
        self._producer_id, self._sizes, self._filling, self._keys = producer_id, sizes, filling, keys
        self._prefix = checked_prefix(producer_id, sizes.smallest)
        self._sums_of_padding: dict[int, Sums] = {}  # by how many bytes stand before it
        self._together = max(1, min(MADE, MADE_BYTES // round(sizes.mean)))  # how many
        self._made_from, self._made = 0, Block(np.zeros(0, np.uint8), np.zeros(1, np.int64))

    def block(self, first: int, count: int) -> Block:
        """The values of records from a number on, as far as they are made together; best asked for in order."""
        at = first - self._made_from
        if not 0 <= at < self._made.records:
            thousand, behind = divmod(first, MADE)
            at = behind % self._together
            self._made_from, self._made = first - at, self._make(thousand, behind - at)
        data, starts, keys = self._made
        return Block(data, starts[at : at + count + 1], None if keys is None else keys[at : at + count])

    def _make(self, thousand: int, begin: int) -> Block:
        """Those of a thousand from one on that are made together."""
        here = slice(begin, min(begin + self._together, MADE))
        seqs = np.arange(thousand * MADE, (thousand + 1) * MADE)
        of_all = self._sizes.of_records(seqs)
        sizes = of_all[here]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        keys = None if self._keys is None else self._keys.of_records(seqs[here])
        if self._filling or not thousand:  # the paddings are not the same, or the numbers not equally long
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
        """The values of records that all begin with ``same``."""
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
        room, given = data.data, memoryview(filling)
        for begin, end in pairwise(starts.tolist()):
            room[begin + own : end - CHECKSUM_BYTES] = given[: end - CHECKSUM_BYTES - begin - own]
        data[begins + np.arange(head)] = np.frombuffer(same, np.uint8)
        data[begins + np.arange(head, own)] = tails
        data[ends + np.arange(-CHECKSUM_BYTES, 0)] = _hex(sums)
        return data

    def _padding_sums(self, own: int) -> Sums:
        """The checksum of the padding of each of the likely sizes, where so many bytes stand before it."""
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


# --- checksums -----------------------------------------------------------------------------------
# The checksum of two pieces is that of the second, and that of the first as so many bytes of zeros would shift it.


def _applied(shifts: tuple[Sums, ...], sums: Sums) -> Sums:
    found = np.zeros(sums.size, np.uint32)
    for byte, table in enumerate(shifts):
        found ^= table[(sums >> np.uint32(8 * byte)) & 0xFF]
    return found


@lru_cache(maxsize=64)
def _shifts(size: int) -> tuple[Sums, ...]:
    """What each byte of a checksum becomes when ``size`` bytes follow, but for what these bytes add themselves."""
    return tuple(
        _shifted(np.arange(256, dtype=np.uint32) << np.uint32(8 * byte), np.full(256, size)) for byte in range(4)
    )


@cache
def _power(bit: int) -> tuple[Sums, ...]:
    """The same of 2 ** ``bit`` bytes: twice as many are the half of them twice."""
    if bit:
        half = _power(bit - 1)
        return tuple(_applied(half, table) for table in half)
    alone = crc32(bytes(1))
    return tuple(
        np.array([crc32(bytes(1), value << (8 * byte)) ^ alone for value in range(256)], np.uint32) for byte in range(4)
    )


def _shifted(sums: Sums, sizes: Ints) -> Sums:
    """Each checksum as so many bytes shift it."""
    for bit in range(int(sizes.max(initial=0)).bit_length()):
        sums = np.where(sizes >> bit & 1, _applied(_power(bit), sums), sums)
    return sums
