"""Draw each record's key and size from a seed and its number, reproducibly.

Runs in client nodes: NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from history.payload import MIN_RECORD_BYTES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

SIZES = 10_000  # 0.01 % precision
KEY_BYTES = 8
MAX_KEYS = 1_000_000
_P99 = NormalDist().inv_cdf(0.99)
_DIGITS = 10 ** np.arange(KEY_BYTES - 1, -1, -1)


def draws(seed: str, seqs: Ints) -> Floats:
    """Return a uniform number in [0, 1) per record (SplitMix64)."""
    start = int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "little")
    mixed = seqs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Sizes:
    """Value sizes in bytes, equally likely."""

    likely: Ints
    seed: str

    @classmethod
    def of(cls, distribution: int | Mapping[str, Any], seed: str = "") -> Self:
        likely = [distribution] if isinstance(distribution, int) else _likely(distribution)
        return cls(np.asarray(likely, np.int64), f"{seed} size")

    @property
    def fixed(self) -> bool:
        return self.likely.size == 1

    @property
    def smallest(self) -> int:
        return int(self.likely[0])

    @property
    def largest(self) -> int:
        return int(self.likely[-1])

    @property
    def mean(self) -> float:
        return float(self.likely.mean())

    def of_records(self, seqs: Ints) -> Ints:
        if self.fixed:
            return np.full(seqs.size, self.likely[0])
        sizes: Ints = self.likely[(draws(self.seed, seqs) * self.likely.size).astype(np.int64)]
        return sizes


def _likely(distribution: Mapping[str, Any]) -> NDArray[Any]:
    middles = (np.arange(SIZES) + 0.5) / SIZES
    match distribution:
        case {"uniform": [low, high]}:
            even: Floats = low + np.floor(middles * (high - low + 1))
            return even
        case {"lognormal": {"median": median, "p99": p99, "max": most}}:
            normal = NormalDist(np.log(median), np.log(p99 / median) / _P99)
            logs: Floats = np.array([normal.inv_cdf(middle) for middle in middles.tolist()])
            cut: Floats = np.clip(np.rint(np.exp(logs)), MIN_RECORD_BYTES, most)
            return cut
        case {"mix": shares}:
            each = sorted((int(size), share) for size, share in shares.items())
            ends = np.cumsum([share for _, share in each])
            found = np.searchsorted(ends[:-1] / ends[-1], middles, side="right")
            sizes = np.array([size for size, _ in each])
            return np.take(sizes, found)
    raise ValueError(f"{distribution!r} is no distribution of sizes")


@dataclass(frozen=True)
class Keys:
    """Record keys: a number in eight digits, by cumulative probability."""

    until: Floats
    seed: str

    @classmethod
    def of(cls, setting: Mapping[str, Any], seed: str = "") -> Self:
        count = setting["count"]
        weights = np.ones(count)
        if setting["distribution"] == "zipf":
            weights = np.arange(1, count + 1) ** -float(setting["exponent"])
        elif setting["distribution"] == "hot":
            weights[0] = setting["hot"]
            weights[1:] = (1 - setting["hot"]) / max(count - 1, 1)
        until = np.cumsum(weights)
        return cls(until / until[-1], f"{seed} key")

    def numbers(self, seqs: Ints) -> Ints:
        numbers: Ints = np.searchsorted(self.until, draws(self.seed, seqs), side="right")
        return numbers

    def of_records(self, seqs: Ints) -> Bytes:
        return (self.numbers(seqs)[:, None] // _DIGITS % 10 + ord("0")).astype(np.uint8)


def partitions_of(keys: Bytes, partitions: int) -> Ints:
    """Return each key's partition by Kafka's default partitioner, murmur2."""
    factor = np.uint32(0x5BD1E995)
    hashes = np.full(len(keys), 0x9747B28C ^ KEY_BYTES, np.uint32)
    for word in np.ascontiguousarray(keys).view("<u4").T:
        mixed = word * factor
        mixed = (mixed ^ (mixed >> np.uint32(24))) * factor
        hashes = hashes * factor ^ mixed
    hashes = (hashes ^ (hashes >> np.uint32(13))) * factor
    hashes ^= hashes >> np.uint32(15)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions
