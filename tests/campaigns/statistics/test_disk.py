"""What lies on a broker's disk, in figures that can be checked by hand."""

import math

import pytest

from campaigns.statistics.disk import (
    SEGMENT_GB,
    Retention,
    load_that_fills,
    most_with_one_away,
    stored,
    with_a_rack_away,
    with_one_away,
)


def test_a_broker_stores_its_share_of_what_retention_keeps() -> None:
    """10 MB/s for a day are 864 GB; three copies on six brokers are 432 GB each, and 6 segments."""
    kept = stored(10, brokers=6, copies=3, partitions=12, retention=Retention(24))

    assert kept.retained_gb == pytest.approx(432)
    assert kept.segments_gb == pytest.approx(6 * SEGMENT_GB)
    assert kept.total_gb == pytest.approx(432 + 6 * SEGMENT_GB)
    assert not kept.by_size


def test_a_slow_partition_has_a_segment_of_a_week_and_no_larger() -> None:
    """0.001 MB/s fill 0.6 GB in the week after which Kafka begins another one."""
    kept = stored(0.001, brokers=3, copies=3, partitions=1, retention=Retention(24))

    assert kept.segments_gb == pytest.approx(0.001 * 3.6 * 168)


@pytest.mark.parametrize(("partition_gb", "retained_gb", "by_size"), [(50, 300, True), (80, 432, False)])
def test_retention_by_size_counts_where_it_deletes_first(
    partition_gb: float, retained_gb: float, by_size: bool
) -> None:
    """Six replicas of 50 GB are less than the 432 GB of a day; of 80 GB they are more."""
    kept = stored(10, brokers=6, copies=3, partitions=12, retention=Retention(24, partition_gb))

    assert (kept.retained_gb, kept.by_size) == (pytest.approx(retained_gb), by_size)


def test_others_take_over_what_was_on_one_that_is_away() -> None:
    """Of six brokers each takes a fifth more. In three racks of two, each with a replica of all, the other one in the
    rack takes everything; three alone can take nothing.
    """
    assert with_one_away(500, brokers=6, copies=3) == pytest.approx(600)
    assert with_one_away(500, brokers=6, copies=3, racks=3) == pytest.approx(1000)
    assert with_one_away(500, brokers=3, copies=3) == pytest.approx(500)
    assert with_one_away(500, brokers=3, copies=3, racks=3) == pytest.approx(500)


def test_of_a_rack_that_is_away_the_others_take_what_they_do_not_have() -> None:
    """Of four racks each takes a third more, of three nothing; the worse of rack and broker counts."""
    assert with_a_rack_away(300, racks=4, copies=3) == pytest.approx(400)
    assert with_a_rack_away(300, racks=3, copies=3) == pytest.approx(300)
    assert most_with_one_away(300, brokers=12, copies=3, racks=4) == pytest.approx(400)
    assert most_with_one_away(300, brokers=15, copies=3, racks=3) == pytest.approx(375)
    assert most_with_one_away(300, brokers=16, copies=3) == pytest.approx(320)


def test_the_load_that_fills_a_disk_counts_what_may_be_away() -> None:
    """At 10 MB/s six brokers need 526.13 GB each with one away; retention by size is never more than its limit."""
    asked = {"brokers": 6, "copies": 3, "partitions": 12}
    needed = (432 + 6 * SEGMENT_GB) * 6 / 5

    assert needed == pytest.approx(526.13, abs=0.01)
    assert load_that_fills(needed, retention=Retention(24), **asked) == pytest.approx(10)
    assert load_that_fills(needed, retention=Retention(24, 80), **asked) == pytest.approx(10)
    assert load_that_fills(needed, retention=Retention(24, 50), **asked) == math.inf
