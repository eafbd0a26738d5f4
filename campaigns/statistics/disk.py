"""What lies on a broker's disk by retention, and the load at which it is full. GB are 10^9 bytes."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy import optimize

from campaigns.statistics.capacity import broker_away, load_of_a_broker, rack_away

SEGMENT_GB = 2**30 / 1e9  # log.segment.bytes
SEGMENT_HOURS = 168.0  # log.roll.hours
GB_PER_MB_HOUR = 3.6  # an MB/s for an hour
LARGEST_LOAD = 1e9  # MB/s: stands for a load without bound


class Stored(NamedTuple):
    """GB on one broker: what retention keeps, and the segments of which Kafka deletes none before it is old as a whole.

    ``by_size``: retention by size deletes before retention by time does.
    """

    retained_gb: float
    segments_gb: float
    by_size: bool

    @property
    def total_gb(self) -> float:
        return self.retained_gb + self.segments_gb


class Retention(NamedTuple):
    """How long records are kept, and at most how many GB of each partition (None: any number)."""

    hours: float
    partition_gb: float | None = None


def stored(write: float, *, brokers: int, copies: int, partitions: int, retention: Retention) -> Stored:
    """W · RF · retention / B, or what retention by size leaves of it, and up to one segment of each replica more."""
    replicas = partitions * copies / brokers
    by_time = load_of_a_broker(write, copies, brokers) * GB_PER_MB_HOUR * retention.hours
    by_size = math.inf if retention.partition_gb is None else replicas * retention.partition_gb
    segment = min(SEGMENT_GB, write / partitions * GB_PER_MB_HOUR * SEGMENT_HOURS)
    return Stored(min(by_time, by_size), replicas * segment, by_size < by_time)


def with_one_away(total_gb: float, *, brokers: int, copies: int, racks: int | None = None) -> float:
    """On each of the others once the replicas of one broker were made again on them, where they can be."""
    return total_gb * broker_away(brokers, copies, racks).taken_over(copies, lost=1)


def with_a_rack_away(total_gb: float, *, racks: int, copies: int) -> float:
    """The same of a whole rack."""
    return total_gb * rack_away(racks, copies).taken_over(copies, lost=1)


def most_with_one_away(total_gb: float, *, brokers: int, copies: int, racks: int | None = None) -> float:
    """The larger of both."""
    broker = with_one_away(total_gb, brokers=brokers, copies=copies, racks=racks)
    return max(broker, with_a_rack_away(total_gb, racks=racks, copies=copies)) if racks else broker


def load_that_fills(
    disk_gb: float, *, brokers: int, copies: int, partitions: int, retention: Retention, racks: int | None = None
) -> float:
    """The mean write load that fills disks with one broker or rack away; infinity: by size none does."""

    def beyond(write: float) -> float:
        kept = stored(write, brokers=brokers, copies=copies, partitions=partitions, retention=retention)
        return most_with_one_away(kept.total_gb, brokers=brokers, copies=copies, racks=racks) - disk_gb

    return math.inf if beyond(LARGEST_LOAD) <= 0 else float(optimize.brentq(beyond, 0.0, LARGEST_LOAD, xtol=1e-9))
