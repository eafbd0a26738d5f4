"""Stored data per broker, and the load that fills a disk. GB are 10^9 bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Disks:
    """Retention in hours and GB per partition, and GB of a disk (None: no limit); loads are means."""

    copies: int
    partitions: int
    retention_hours: float
    retention_gb: float | None = None
    disk_gb: float | None = None
    racks: int | None = None

    def stored(self, write: float, brokers: int) -> Stored:
        """Return W · RF · retention / B, or the size limit if smaller, plus a segment per replica."""
        replicas = self.partitions * self.copies / brokers
        by_time = load_of_a_broker(write, self.copies, brokers) * GB_PER_MB_HOUR * self.retention_hours
        by_size = math.inf if self.retention_gb is None else replicas * self.retention_gb
        segment = min(SEGMENT_GB, write / self.partitions * GB_PER_MB_HOUR * SEGMENT_HOURS)
        return Stored(min(by_time, by_size), replicas * segment, by_size < by_time)

    def broker_away_gb(self, write: float, brokers: int) -> float:
        """Return GB per broker after one's replicas were recreated, if they can be."""
        factor = broker_away(brokers, self.copies, self.racks).load_factor(self.copies, lost=1)
        return self.stored(write, brokers).total_gb * factor

    def rack_away_gb(self, write: float, brokers: int) -> float | None:
        """Return GB per broker after a rack's replicas were recreated."""
        if not self.racks:
            return None
        return self.stored(write, brokers).total_gb * rack_away(self.racks, self.copies).load_factor(
            self.copies, lost=1
        )

    def needed_gb(self, write: float, brokers: int) -> float:
        return max(self.broker_away_gb(write, brokers), self.rack_away_gb(write, brokers) or 0.0)

    def fit(self, write: float, brokers: int) -> bool:
        return self.disk_gb is None or self.needed_gb(write, brokers) <= self.disk_gb

    def full_mb_per_s(self, brokers: int) -> float:
        """Return the load that fills disks with one away, or infinity."""
        if self.fit(LARGEST_LOAD, brokers):
            return math.inf
        disk_gb = self.disk_gb or 0.0

        def beyond_gb(write: float) -> float:
            return self.needed_gb(write, brokers) - disk_gb

        return float(optimize.brentq(beyond_gb, 0.0, LARGEST_LOAD, xtol=1e-9))
