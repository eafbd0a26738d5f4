"""What lies on a broker's disk, in figures that can be checked by hand."""

import math
from dataclasses import replace

import pytest

from campaigns.statistics.disk import SEGMENT_GB, Disks

DAY = Disks(copies=3, partitions=12, retention_hours=24)


def test_a_broker_stores_its_share_of_what_retention_keeps() -> None:
    """10 MB/s for a day are 864 GB; three copies on six brokers are 432 GB each, and 6 segments."""
    stored = DAY.stored(10, 6)

    assert stored.retained_gb == pytest.approx(432)
    assert stored.segments_gb == pytest.approx(6 * SEGMENT_GB)
    assert stored.total_gb == pytest.approx(432 + 6 * SEGMENT_GB)
    assert not stored.by_size


def test_a_slow_partition_has_a_segment_of_a_week_and_no_larger() -> None:
    """0.001 MB/s fill 0.6 GB in the week after which Kafka begins another one."""
    stored = replace(DAY, partitions=1).stored(0.001, 3)

    assert stored.segments_gb == pytest.approx(0.001 * 3.6 * 168)


@pytest.mark.parametrize(("partition_gb", "retained_gb", "by_size"), [(50, 300, True), (80, 432, False)])
def test_retention_by_size_counts_where_it_deletes_first(
    partition_gb: float, retained_gb: float, by_size: bool
) -> None:
    """Six replicas of 50 GB are less than the 432 GB of a day; of 80 GB they are more."""
    stored = replace(DAY, retention_gb=partition_gb).stored(10, 6)

    assert (stored.retained_gb, stored.by_size) == (pytest.approx(retained_gb), by_size)


@pytest.mark.parametrize(("brokers", "racks", "factor"), [(6, None, 6 / 5), (6, 3, 2), (3, None, 1), (3, 3, 1)])
def test_others_take_over_what_was_on_one_that_is_away(brokers: int, racks: int | None, factor: float) -> None:
    """Of six brokers each takes a fifth more. In three racks of two, each with a replica of all, the other one in the
    rack takes everything; three alone can take nothing.
    """
    disks = replace(DAY, racks=racks)

    assert disks.broker_away_gb(10, brokers) == pytest.approx(factor * disks.stored(10, brokers).total_gb)


@pytest.mark.parametrize(
    ("brokers", "racks", "rack", "needed"),
    [(12, 4, 4 / 3, 4 / 3), (15, 3, 1, 5 / 4), (16, None, None, 16 / 15)],
)
def test_of_a_rack_that_is_away_the_others_take_what_they_do_not_have(
    brokers: int, racks: int | None, rack: float | None, needed: float
) -> None:
    """Of four racks each takes a third more, of three nothing; the worse of rack and broker counts."""
    disks = replace(DAY, racks=racks)
    stored_gb = disks.stored(10, brokers).total_gb

    assert disks.rack_away_gb(10, brokers) == (None if rack is None else pytest.approx(rack * stored_gb))
    assert disks.needed_gb(10, brokers) == pytest.approx(needed * stored_gb)


def test_the_load_that_fills_a_disk_counts_what_may_be_away() -> None:
    """At 10 MB/s six brokers need 526.13 GB each with one away; retention by size is never more than its limit."""
    needed = (432 + 6 * SEGMENT_GB) * 6 / 5
    disks = replace(DAY, disk_gb=needed)

    assert needed == pytest.approx(526.13, abs=0.01)
    assert disks.full_mb_per_s(6) == pytest.approx(10)
    assert replace(disks, retention_gb=80).full_mb_per_s(6) == pytest.approx(10)
    assert replace(disks, retention_gb=50).full_mb_per_s(6) == math.inf
    assert DAY.full_mb_per_s(6) == math.inf
