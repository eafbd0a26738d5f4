"""Stored data per broker, and the load that fills a disk. GB are 10^9 bytes."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy import optimize

from campaigns.statistics.capacity import broker_away, load_of_a_broker, rack_away

SEGMENT_GB = 2**30 / 1e9  # log.segment.bytes
SEGMENT_HOURS = 168.0  # log.roll.hours
GB_PER_MB_HOUR = 3.6
LARGEST_LOAD = 1e9  # MB/s: represents an unlimited load


class Stored(NamedTuple):
    """GB on a broker: retained data, and segments kept until all their records expire; ``by_size``: limited by size."""

    retained_gb: float
    segments_gb: float
    by_size: bool

    @property
    def total_gb(self) -> float:
        return self.retained_gb + self.segments_gb


class Retention(NamedTuple):
    """Hours, and GB per partition (None: no limit)."""

    hours: float
    partition_gb: float | None = None


def stored(write: float, *, brokers: int, copies: int, partitions: int, retention: Retention) -> Stored:
    """Return W · RF · retention / B, or the size limit if smaller, plus a segment per replica."""
    replicas = partitions * copies / brokers
    by_time = load_of_a_broker(write, copies, brokers) * GB_PER_MB_HOUR * retention.hours
    by_size = math.inf if retention.partition_gb is None else replicas * retention.partition_gb
    segment = min(SEGMENT_GB, write / partitions * GB_PER_MB_HOUR * SEGMENT_HOURS)
    return Stored(min(by_time, by_size), replicas * segment, by_size < by_time)


def with_one_away(total_gb: float, *, brokers: int, copies: int, racks: int | None = None) -> float:
    """Return GB per broker after one's replicas were recreated, if they can be."""
    return total_gb * broker_away(brokers, copies, racks).taken_over(copies, lost=1)


def with_a_rack_away(total_gb: float, *, racks: int, copies: int) -> float:
    """Return GB per broker after a rack's replicas were recreated."""
    return total_gb * rack_away(racks, copies).taken_over(copies, lost=1)


def most_with_one_away(total_gb: float, *, brokers: int, copies: int, racks: int | None = None) -> float:
    """Return the larger of both."""
    broker = with_one_away(total_gb, brokers=brokers, copies=copies, racks=racks)
    return max(broker, with_a_rack_away(total_gb, racks=racks, copies=copies)) if racks else broker


def load_that_fills(
    disk_gb: float, *, brokers: int, copies: int, partitions: int, retention: Retention, racks: int | None = None
) -> float:
    """Return the mean write load that fills disks with one away; infinity under size limits."""

    def beyond(write: float) -> float:
        kept = stored(write, brokers=brokers, copies=copies, partitions=partitions, retention=retention)
        return most_with_one_away(kept.total_gb, brokers=brokers, copies=copies, racks=racks) - disk_gb

    return math.inf if beyond(LARGEST_LOAD) <= 0 else float(optimize.brentq(beyond, 0.0, LARGEST_LOAD, xtol=1e-9))
