"""A plan's disks: contents, also with a broker away, and dates when full."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

from campaigns.statistics import capacity, disk
from campaigns.statistics.catch_up import Interval
from campaigns.statistics.disk import GB_PER_MB_HOUR, Retention, Stored


class Disks:
    """The question's disks; the mean load decides, since peak and trough are both stored."""

    def __init__(self, question: Mapping[str, Any]) -> None:
        self.question = question
        self.copies: int = question["replication_factor"]
        self.partitions: int = question["partitions"]
        self.retention = Retention(question["retention_hours"], question.get("retention_gb"))
        self.disk_gb: float | None = question.get("disk_gb")
        self.racks: int | None = question.get("racks")

    def stored(self, mean: float, brokers: int) -> Stored:
        return disk.stored(
            mean, brokers=brokers, copies=self.copies, partitions=self.partitions, retention=self.retention
        )

    def needed_gb(self, mean: float, brokers: int) -> float:
        """Return GB per broker with another, or a rack, away."""
        total_gb = self.stored(mean, brokers).total_gb
        return disk.most_with_one_away(total_gb, brokers=brokers, copies=self.copies, racks=self.racks)

    def fit(self, mean: float, brokers: int) -> bool:
        return self.disk_gb is None or self.needed_gb(mean, brokers) <= self.disk_gb

    def as_json(self, brokers: int, growth: float, made: date) -> dict[str, Any]:
        """Return figures today and after growth by the factor ``growth``."""
        today: float = self.question["write_mb_per_s"]
        kept, load = self.stored(today, brokers), capacity.load_of_a_broker(today, self.copies, brokers)
        full = self._full_mb_per_s(brokers)
        months = (self.question["growth_per_month"][0], self.question["growth_per_month"][1])
        first, last = (None, None) if full is None else capacity.exhaustion(made, today, Interval(*[full] * 3), months)
        return {
            "disk_gb": self.disk_gb,
            **kept._asdict(),
            "away_gb": disk.with_one_away(kept.total_gb, brokers=brokers, copies=self.copies, racks=self.racks),
            "rack_gb": self._rack_gb(kept),
            "later_gb": self.needed_gb(today * growth, brokers),
            "kept_hours": kept.retained_gb / GB_PER_MB_HOUR / load,
            "full_mb_per_s": full if full is not None and math.isfinite(full) else None,
            "first": iso(first),
            "last": iso(last),
        }

    def _rack_gb(self, kept: Stored) -> float | None:
        return disk.with_a_rack_away(kept.total_gb, racks=self.racks, copies=self.copies) if self.racks else None

    def _full_mb_per_s(self, brokers: int) -> float | None:
        if self.disk_gb is None:
            return None
        return disk.load_that_fills(
            self.disk_gb,
            brokers=brokers,
            copies=self.copies,
            partitions=self.partitions,
            retention=self.retention,
            racks=self.racks,
        )


def iso(day: date | None) -> str | None:
    """Format a date for JSON."""
    return None if day is None else day.isoformat()
