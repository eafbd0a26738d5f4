"""What follows: brokers, options, reserves and doubts, out of simulated rows."""

from itertools import pairwise
from typing import Any

import pytest

from campaigns.campaign import Item
from tests.campaigns.capacity_rows import archive, campaign, result, told, told_with


def test_recovery_ends_with_balanced_leadership() -> None:
    """The longest time from the full ISR to it is taken from the target; runs that never showed it take nothing."""

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
        ({"write_mb_per_s": 8}, "under", "3 brokers are not sure to carry 10.4 MB/s"),
        ({"brokers": 6}, "over", "; 4 would do."),
        ({"target_recovery_s": 6}, "under", "no number of brokers meets both targets"),
    ],
)
def test_the_recommendation_follows_the_question(changes: dict[str, Any], verdict: str, words: str) -> None:
    """Right, too few, too many, or out of reach; the measurements are the same."""
    asked = campaign(**changes)
    found = result(asked, archive(asked))

    assert found["recommendation"]["verdict"] == verdict
    assert words in found["sentence"]


def test_doubts_are_counted_and_listed() -> None:
    """A run without balanced leadership, one of unknown correctness, a second host: each is a doubt of its own."""

    def doubtful(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        if item.name == "held-out-1-5mb-45s":
            return {**row, "host": "host-2", "value": None if row["metric"] == "rebalanced_s" else row["value"]}
        return {**row, "verdict": "unknown"} if item.name == "knee-1" else row

    sure, unsure = told()["recommendation"], told_with(doubtful)["recommendation"]
    assert (sure["confidence"], unsure["confidence"]) == ("medium", "low")
    assert {*unsure["doubts"]} - {*sure["doubts"]} == {
        "leadership was seen to be balanced in 11 of 12 runs only",
        "correctness is unknown in 1 of 18 runs",
        "the runs come from 2 hosts",
    }


def test_every_option_but_one_is_rejected_with_its_reason() -> None:
    """Fewer are too few by a figure, more are more than needed."""
    options = {option["brokers"]: option for option in told()["options"]}

    assert [count for count, option in options.items() if option["chosen"]] == [4]
    assert options[3]["why"].startswith("latency is safe up to")
    assert options[5]["why"] == "more than the load at the end of the horizon asks for"


def test_what_was_used_stands_beside_its_rule() -> None:
    """5 % more left the brokers than W (G + RF - 1); where no counter was read, nothing is said."""
    demands = {row["resource"]: row for row in told()["demands"]}

    assert demands["network_out"]["measured_over_rule"] == pytest.approx(1.05)
    assert demands["network_in"]["measured_over_rule"] is None


def test_the_ledger_ends_with_what_is_left() -> None:
    """Every line is the one before less its amount; the last is below zero when brokers are too few."""
    lines = told()["ledger"]

    assert [line["item"] for line in lines][:2] == ["healthy knee", "failure: one broker away"]
    assert all(b["left"] == pytest.approx(a["left"] - b["amount"]) for a, b in pairwise(lines))
    assert lines[-1]["left"] < 0
