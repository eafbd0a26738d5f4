"""The plan from simulated rows: brokers, options, reserves and doubts."""

from itertools import pairwise
from typing import Any

import pytest

from campaigns.campaign import Item
from tests.campaigns.capacity_rows import archive, campaign, result, told, told_with


def test_recovery_ends_with_balanced_leadership() -> None:
    """The longest time from full ISR to balanced leadership is subtracted from the recovery target."""

    def unbalanced(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "value": None} if row["metric"] == "rebalanced_s" else row

    sure, without = told(), told_with(unbalanced)
    assert sure["plan"]["target_catch_up_s"] == pytest.approx(60 - sure["catch_up"]["leadership_s"])
    assert without["plan"]["target_catch_up_s"] == 60
    assert any("Leadership was never seen to be balanced" in limit for limit in without["limits"])
    assert not any("Leadership" in limit for limit in sure["limits"])


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"growth_per_month": 0}, "right", "but only if it is back within"),
        ({"write_mb_per_s": 8}, "under", "3 brokers do not carry 10.4 MB/s with p99"),
        ({"brokers": 6}, "over", "; 4 would do."),
        ({"target_recovery_s": 6}, "under", "no number of brokers meets both targets"),
    ],
)
def test_the_recommendation_follows_the_question(changes: dict[str, Any], verdict: str, words: str) -> None:
    """From the same measurements, the recommendation follows the question: right, too few, too many, impossible."""
    asked = campaign(**changes)
    found = result(asked, archive(asked))

    assert found["recommendation"]["verdict"] == verdict
    assert words in found["sentence"]


def test_doubts_are_counted_and_listed() -> None:
    """Each doubt lowers the confidence and is listed: unbalanced leadership, unknown correctness, another host."""

    def doubtful(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        if item.name == "held-out-1-5mb-45s":
            return {**row, "host": "host-2", "value": None if row["metric"] == "rebalanced_s" else row["value"]}
        return {**row, "verdict": "unknown"} if item.name == "knee-1" else row

    sure, unsure = told()["recommendation"], told_with(doubtful)["recommendation"]
    assert (sure["confidence"], unsure["confidence"]) == ("medium", "low")
    assert {*unsure["doubts"]} - {*sure["doubts"]} == {
        "only 11 of 12 runs show that leadership was balanced again",
        "correctness is unknown in 1 of 18 runs",
        "the runs come from 2 hosts",
    }


def test_every_option_but_one_is_rejected_with_its_reason() -> None:
    """Every rejected number of brokers has its reason: too few for some limit, or more than needed."""
    options = {option["brokers"]: option for option in told()["options"]}

    assert [count for count, option in options.items() if option["chosen"]] == [4]
    assert options[3]["why"].startswith("latency is safe up to")
    assert options[5]["why"] == "more than the load at the end of the horizon needs"


def test_what_was_used_stands_beside_its_rule() -> None:
    """The measured use of a resource is compared with its rule, if its counter was read."""
    demands = {row["resource"]: row for row in told()["demands"]}

    assert demands["network_out"]["measured_over_rule"] == pytest.approx(1.05)
    assert demands["network_in"]["measured_over_rule"] is None


def test_the_ledger_ends_with_what_is_left() -> None:
    """Each line of the ledger subtracts its amount; with too few brokers the last one is below zero."""
    lines = told()["ledger"]

    assert [line["item"] for line in lines][:2] == ["healthy knee", "failure: one broker away"]
    assert all(b["left"] == pytest.approx(a["left"] - b["amount"]) for a, b in pairwise(lines))
    assert lines[-1]["left"] < 0


def _plan(**changes: Any) -> dict[str, Any]:
    asked = campaign(**changes)
    return result(asked, archive(asked))


def test_a_disk_is_full_when_its_retention_with_one_away_is_more_than_it_holds() -> None:
    """A disk is full when its retention exceeds its size while one broker is away.

    3 MB/s for a day with three replicas on three brokers are 259.2 GB each, plus 6.4 GB of segments. 300 GB are full at
    3.398 MB/s, which 4% growth a month reaches in 3.2 months and 2% in 6.3.
    """
    disk = _plan(disk_gb=300)["plan"]["disk"]

    assert disk["retained_gb"] == pytest.approx(259.2)
    assert disk["segments_gb"] == pytest.approx(6 * 1.073741824)
    assert disk["away_gb"] == pytest.approx(265.64, abs=0.01)
    assert (disk["rack_gb"], disk["by_size"]) == (None, False)
    assert disk["full_mb_per_s"] == pytest.approx(3.398, abs=0.001)
    assert (disk["first"], disk["last"]) == ("2027-02-25", "2027-05-31")
    assert disk["later_gb"] == pytest.approx(259.2 * 1.04**6 + 6 * 1.073741824)


def test_disks_ask_for_more_brokers_than_the_load() -> None:
    """If disks need more brokers than the load, the disks decide: six brokers instead of four."""
    found = _plan(disk_gb=210, brokers=4)
    options = {option["brokers"]: option for option in found["options"]}

    assert (_plan(brokers=4)["recommendation"]["brokers"], found["recommendation"]["brokers"]) == (4, 6)
    assert found["sentence"].startswith("The disks of 4 brokers, 210 GB each, do not hold the 266 GB that each stores")
    assert options[5]["why"] == "each would store 251 GB at the end of the horizon with one away, and has 210 GB"
    assert found["state"] == "fail"


def test_retention_by_size_is_said() -> None:
    """Retention by size does not grow with the load, and the plan shows how many hours it keeps."""
    found = _plan(disk_gb=200, retention_gb=20)

    assert found["plan"]["disk"]["by_size"]
    assert found["plan"]["disk"]["full_mb_per_s"] is None
    assert "120 GB by retention by size, which keeps 11.1 h" in found["words"]["disk"]
    assert found["words"]["disk"].endswith("No load fills it, as retention is by size.")


def test_an_empty_broker_is_rebuilt_no_faster_than_its_disk_writes() -> None:
    """An empty broker is rebuilt at the catch-up rate or at what its disk has left, whichever is slower."""
    slow, fast = _plan(disk_mb_per_s=8)["plan"], _plan(disk_mb_per_s=800)["plan"]

    assert slow["rebuild_s"] == pytest.approx(265642 / (8 - 3.9), rel=0.001)
    assert fast["rebuild_s"] == pytest.approx(265642 / (fast["rate_mb_per_s"]["estimate"] - 3.9), rel=0.001)


def test_brokers_in_racks_come_by_the_rack() -> None:
    """With racks, brokers are added in multiples of the racks, and a whole rack may be away."""
    found = _plan(racks=3)

    assert found["recommendation"]["brokers"] == 6
    assert [option["brokers"] for option in found["options"]] == [3, 6, 9]
    assert found["plan"]["rack_factor"] == pytest.approx(1.5)
    assert "while one broker or a whole rack is away" in found["sentence"]
    assert any(limit.startswith("Racks are calculated") for limit in found["limits"])
    assert any(limit.startswith("A plan without racks holds with one broker away") for limit in told()["limits"])


def test_old_reads_are_a_demand_on_the_disk_and_too_many_are_a_doubt() -> None:
    """Reads of old data are a demand on the disk; above its limit they are a doubt."""
    rows = {row["resource"]: row for row in _plan(consumer_groups=2, old_reads_share="25%")["demands"]}
    assert rows["disk_read"]["healthy"] == pytest.approx(0.65)
    assert rows["disk_read"]["degraded"] == pytest.approx(0.975)
    assert "disk_read" not in {row["resource"] for row in told()["demands"]}

    slow = _plan(brokers=6, consumer_groups=40, old_reads_share=1.0, disk_mb_per_s=20)
    assert "disk read takes 156 % of its limit at the peak load, with one away" in slow["unsure"]
    assert slow["state"] == "unknown"


def test_partitions_are_read_off_the_curve() -> None:
    """The cost of partitions is interpolated between the measured counts."""
    found = _plan(topic=600, partitions=[100, 1000])
    cost = found["partitions"]["at_asked"]

    assert (cost["cpu_s_per_mb"], cost["p99_ms"], cost["recovery_s"]) == pytest.approx((0.16, 32, 15))
    assert "(100 to 1000 were run): CPU 0.16 s per MB (× 1.45), p99 32 ms (× 1.45)" in found["words"]["partitions"]
    assert {line["what"]: line["value"] for line in found["plan_table"]}["partitions on each broker"] == "600"
    assert not any("replicas, and no more" in doubt for doubt in found["unsure"])


def test_more_partitions_than_were_run_are_no_pass() -> None:
    """More partitions than measured are a doubt, and fewer are mentioned."""
    above, below = _plan(topic=2000, partitions=[100, 1000]), _plan(topic=6, partitions=[100, 1000])

    assert "each broker holds 2000 replicas, and at most 1000 were measured" in above["unsure"]
    assert above["words"]["partitions"].startswith("Each broker of the question holds 2000 replicas, above what was")
    assert "6 replicas, below what was measured" in below["words"]["partitions"]
    assert below["unsure"] == []


def test_a_partition_run_that_was_given_up_counts_for_what_it_did_show() -> None:
    """A partition run that was given up counts without its recovery time; a failed run does not count."""
    asked = campaign(partitions=[100, 1000])

    def spoilt(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        if item.name == "partitions-1-100" and row["metric"] == "catch_up_s":
            return {**row, "censored": True}
        return {**row, "verdict": "fail"} if item.name == "partitions-2-100" else row

    found = result(asked, archive(asked, spoilt))
    few = found["partitions"]["curve"][0]
    assert (few["runs"], few["cpu_s_per_mb"], few["recovery_s"]) == (2, pytest.approx(0.11), 10)
    assert {row["why"] for row in found["left_out"]} == {
        "catch_up_s was given up at 10",
        "its verdict is fail: Every acknowledged record survived.",
    }
