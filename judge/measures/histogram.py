"""Histograms of times that merge by addition.

Buckets are log-linear, as HdrHistogram's; a middle is off by at most ``2**-(bits + 1)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evidence.columns import Ints

FINE = 9  # at most 2**-10 = 0.098 % off
_DAY_NS = 86_400 * 10**9
COARSE = 5  # at most 2**-6 = 1.6 % off, below a figure's pixel


def buckets(times_ns: Ints, bits: int) -> Ints:
    """Return each time's bucket; negative times count as zero."""
    times = np.maximum(times_ns, 0)
    shift = np.maximum(_bit_length(times) - (bits + 1), 0)
    return (shift << bits) + (times >> shift)


def _bit_length(times: Ints) -> Ints:
    """Return exact bit lengths: half of an integer fits into a double without loss."""
    high, low = times >> 32, times & 0xFFFFFFFF
    of_high, of_low = (np.frexp(half.astype(np.float64))[1].astype(np.int64) for half in (high, low))
    return np.where(high > 0, of_high + 32, of_low)


def middle(bucket: int, bits: int) -> float:
    """Return the mean of a bucket's first and last time in ns."""
    shift = max((bucket >> bits) - 1, 0)
    first = (bucket - (shift << bits)) << shift
    return first + ((1 << shift) - 1) / 2


@dataclass(frozen=True)
class Histogram:
    """Counts of times by bucket, with exact extremes."""

    bits: int
    buckets: Ints
    counts: Ints
    least_ns: int | None = None
    largest_ns: int | None = None

    @classmethod
    def of(cls, times_ns: Ints, bits: int) -> Histogram:
        held, counts = np.unique(buckets(times_ns, bits), return_counts=True)
        edges = (int(times_ns.min()), int(times_ns.max())) if times_ns.size else (None, None)
        return cls(bits, held, counts.astype(np.int64), *edges)

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def __add__(self, other: Histogram) -> Histogram:
        if self.bits != other.bits:
            raise ValueError(f"Histograms of {self.bits} and of {other.bits} bits cannot be added.")
        held, counts = add_counts([self.buckets, other.buckets], [self.counts, other.counts])
        edges = [edge for each in (self, other) for edge in (each.least_ns, each.largest_ns) if edge is not None]
        return Histogram(self.bits, held, counts, min(edges, default=None), max(edges, default=None))

    def encoded(self) -> str:
        """Return HdrHistogram's format (compressed, version 2), three digits."""
        from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # it has no types

        written = HdrHistogram(1, _DAY_NS, 3)
        for bucket, count in zip(self.buckets.tolist(), self.counts.tolist(), strict=True):
            written.record_value(min(max(round(middle(bucket, self.bits)), 1), _DAY_NS), count)
        text: str = written.encode().decode()
        return text

    def quantile(self, share: float, unanswered: int = 0) -> float | None:
        """Return the time at a share of all, interpolated as by ``numpy.percentile``.

        ``unanswered`` more are longer than any; a quantile among them is None.
        """
        total = self.total + unanswered
        if not total or self.least_ns is None or self.largest_ns is None:
            return None
        place = (total - 1) * share
        lower = int(place)
        upper = lower + (place > lower)
        if upper >= self.total:
            return None
        up_to = np.cumsum(self.counts)
        low, high = (
            min(max(middle(int(self.buckets[at]), self.bits), self.least_ns), self.largest_ns)
            for at in np.searchsorted(up_to, [lower, upper], side="right").tolist()
        )
        return low + (place - lower) * (high - low)


def add_counts(keys: Sequence[Ints], counts: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return distinct ordered keys with the sums of their counts."""
    together = np.concatenate(keys)
    if not together.size:
        return together, together
    order = np.argsort(together, kind="stable")  # linear for ordered runs
    ordered = together[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[first], np.add.reduceat(np.concatenate(counts)[order], first)
