"""A plan out of archive rows: the answer and its figures, and what becomes of rows that cannot be used."""

import json
import re
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from campaigns.campaign import Campaign, Item
from campaigns.capacity_result import result
from tests.campaigns.capacity_rows import KNEE, RATE, START_S, archive, campaign, row


@cache
def _campaign() -> Campaign:
    return campaign()


@cache
def _told() -> dict[str, Any]:
    return result(_campaign(), archive(_campaign()))


def _with(change: Any) -> dict[str, Any]:
    return result(_campaign(), archive(_campaign(), change))


# --- what is measured ------------------------------------------------------------------------------


def test_the_simulated_truth_is_found_again() -> None:
    """Knees, R and T0 of the simulation lie in their intervals, or as near as straight lines between steps can be."""
    told = _told()

    assert told["knees"]["knee"]["load"]["estimate"] == pytest.approx(KNEE["knee"], rel=0.05)
    assert told["knees"]["degraded"]["load"]["estimate"] == pytest.approx(KNEE["degraded"], rel=0.05)
    assert told["catch_up"]["rate"]["low"] <= RATE <= told["catch_up"]["rate"]["high"]
    assert told["catch_up"]["start_s"]["low"] <= START_S <= told["catch_up"]["start_s"]["high"]


def test_held_out_runs_check_the_model_and_do_not_shape_it() -> None:
    """Nine runs are fitted; three, outside the grid, are judged against intervals of their own."""
    told = _told()

    assert told["catch_up"]["fitted_runs"] == 9
    assert (told["model_check"]["inside"], told["model_check"]["of"]) == (3, 3)
    assert told["words"]["model_check"].startswith("3 of 3 held-out runs lie inside their own 90 %")


def test_a_wrong_model_is_told_so() -> None:
    """Held-out runs that take twice as long lie outside, and lower the confidence."""

    def slower(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "value": 2 * row["value"]} if item.labels["role"] == "held_out" else row

    told = _with(slower)
    assert told["model_check"]["inside"] == 0
    assert "only 0 of 3 held-out runs lie inside their prediction interval" in told["recommendation"]["doubts"]


def test_a_run_that_was_given_up_is_kept_as_at_least_so_long() -> None:
    """It is drawn, fitted as censored and counted; inside its interval when T may be longer."""

    def given_up(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        if item.name != "held-out-3-5mb-90s" and item.labels.get("write_mb_per_s") != "4":
            return row
        return {**row, "value": min(row["value"], 20), "censored": True}

    told = _with(given_up)
    assert told["catch_up"]["censored_runs"] == 3
    assert next(p for p in told["catch_up"]["points"] if p["down_s"] == 90 and p["censored"])["inside"]


def test_cold_runs_have_a_rate_of_their_own() -> None:
    """Half as fast from disk: the other runs' R stays, the cold one stands beside it; too few of them are missing."""

    def cold(last: int) -> Any:
        def change(item: Item, row: dict[str, Any]) -> dict[str, Any]:
            if item.labels["role"] != "catch_up" or item.labels["down_s"] != "60" or int(row["run_id"][4:]) > last:
                return row
            return {**row, "labels": {**row["labels"], "backlog": "cold"}, "value": row["value"] * 2}

        return change

    asked = campaign(grid={"write_mb_per_s": [1, 2, 4], "down_s": [15, 30, 60], "repetitions": 2})
    told = result(asked, archive(asked, cold(99)))
    assert told["catch_up"]["rate"]["low"] <= RATE <= told["catch_up"]["rate"]["high"]
    assert told["catch_up"]["cold_rate"]["estimate"] < 0.9 * RATE
    assert any(row["what"] == "R from disk" for row in told["plan_table"])
    few = result(asked, archive(asked, cold(9)))
    assert few["catch_up"]["cold_rate"] is None
    assert any(text.startswith("Cold: ") for text in few["missing"])


def test_recovery_ends_with_balanced_leadership() -> None:
    """The longest time from the full ISR to it is taken from the target; runs that never showed it take nothing."""

    def unbalanced(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "value": None} if row["metric"] == "rebalanced_s" else row

    told, without = _told(), _with(unbalanced)
    assert told["plan"]["target_catch_up_s"] == pytest.approx(60 - told["catch_up"]["leadership_s"])
    assert without["plan"]["target_catch_up_s"] == 60
    assert any("Leadership was never seen to be balanced" in limit for limit in without["limits"])
    assert not any("Leadership" in limit for limit in told["limits"])


# --- what cannot be used ---------------------------------------------------------------------------


def test_a_missed_load_ends_the_knee_but_a_disturbed_host_does_not() -> None:
    """Both have no latency; only the first is the brokers' own limit."""

    def missed(trusted: bool) -> Any:
        def change(item: Item, row: dict[str, Any]) -> dict[str, Any]:
            hit = item.name == "degraded-2" and row["phase"] == "3 MB/s, one away"
            value = 0.9 if row["metric"] == "achieved_ratio" else row["value"]
            return {**row, "value": value, "trusted": trusted, "note": "host_steal_ratio was 9%"} if hit else row

        return change

    assert _with(missed(trusted=True))["knees"]["degraded"]["safe"] == 2
    disturbed = _with(missed(trusted=False))
    assert disturbed["knees"]["degraded"]["safe"] > 4
    assert disturbed["left_out"][0] == {
        "run_id": "run-03",
        "phase": "3 MB/s, one away",
        "why": "host_steal_ratio was 9%",
    }


def test_a_catch_up_counts_with_the_load_and_the_downtime_that_it_had() -> None:
    """97 % written is another load; 60 % is none that is known. The downtime is the measured one."""
    asked = _campaign()
    names = [item.name for item in asked.items if item.labels["role"] == "catch_up"]
    extra = [
        {**run, **row("achieved_ratio", ratio, "away and back")}
        for name, ratio in zip(names, (0.97, 0.6), strict=False)
        for run in archive(asked)
        if run["labels"]["item"] == name and run["metric"] == "catch_up_s"
    ]
    down = [{**run, **row("down_s", 17.5, "away and back")} for run in extra]
    told = result(asked, [*archive(asked), *extra, *down])
    points = {point["run_id"]: point for point in told["catch_up"]["points"]}

    first, second = extra[0], extra[1]
    assert points[first["run_id"]]["write_mb_per_s"] == pytest.approx(0.97 * float(first["labels"]["write_mb_per_s"]))
    assert points[first["run_id"]]["down_s"] == 17.5
    assert second["run_id"] not in points
    assert told["left_out"][0]["why"] == "60 % of the load was written, so the load is not known"


def test_a_run_that_broke_a_promise_measures_nothing() -> None:
    """It is listed as a failure and fitted nowhere."""

    def broken(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "verdict": "fail", "sentence": "2 records were lost."} if "1mb-15s" in item.name else row

    told = _with(broken)
    assert told["catch_up"]["fitted_runs"] == 8
    assert len(told["runs"]["failed"]) == 1
    assert "2 records were lost." in told["left_out"][0]["why"]


def test_nothing_measured_is_unknown_and_says_what_is_missing() -> None:
    """No number is made up, and the JSON is whole."""
    told = result(_campaign(), [])

    assert (told["state"], told["plan"], told["recommendation"]["verdict"]) == ("unknown", None, "unknown")
    assert told["sentence"].startswith("Nothing can be promised yet: no healthy load step")
    assert len(told["missing"]) == 3


def test_one_run_per_step_promises_nothing() -> None:
    """It has a curve but no interval, so that no load is known to be safe."""
    asked = campaign(repetitions=1)
    told = result(asked, archive(asked))

    assert told["knees"]["knee"]["load"]["estimate"] == pytest.approx(KNEE["knee"], rel=0.1)
    assert told["sentence"].startswith("Nothing can be promised yet: a healthy load step has one usable run")


def test_rows_of_other_campaigns_do_not_count() -> None:
    """The archive holds everything that ever ran."""
    others = [{**row, "labels": {**row["labels"], "campaign": "plan-2"}} for row in archive(_campaign())]

    assert result(_campaign(), others)["runs"]["count"] == 0


# --- the answer ------------------------------------------------------------------------------------


def test_the_answer_names_its_condition() -> None:
    """Load, target, and how soon a broker must be back; then what the growth asks for."""
    told = _told()
    back_s = round(told["plan"]["longest_down_s"]["low"])

    assert told["sentence"].startswith("3 brokers carry 3.9 MB/s with p99 under 200 ms while one is away, and recover")
    assert f"within 60 s, but only if it is back within {back_s} s; 4.93 MB/s in 6 months take 4." in told["sentence"]
    assert (told["state"], told["recommendation"]["verdict"], told["recommendation"]["brokers"]) == ("fail", "under", 4)


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
    told = result(asked, archive(asked))

    assert told["recommendation"]["verdict"] == verdict
    assert words in told["sentence"]


def test_no_finite_catch_up_is_said_where_the_load_outruns_the_rate() -> None:
    """15.6 MB/s into a broker that takes in some 12 at most."""
    asked = campaign(write_mb_per_s=12, target_p99_ms=100_000, load_steps=[8, 16, 20])
    told = result(asked, [{**row, "value": min(row["value"], 1.0)} if row["metric"] == "latency_p99_ms" else
                          {**row, "value": 1.0} if row["metric"] == "achieved_ratio" else row
                          for row in archive(asked)])  # fmt: skip

    assert re.search(r"there is no finite catch-up: a broker takes in [\d.]+ MB/s at most, and 15\.6", told["sentence"])
    assert told["plan"]["catch_up_s"] == {"estimate": None, "low": None, "high": None}
    assert "out of reach even without one" in told["words"]["throttle"]


def test_doubts_are_counted_and_listed() -> None:
    """A run without balanced leadership, one of unknown correctness, a second host: each is a doubt of its own."""

    def doubtful(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        if item.name == "held-out-1-5mb-45s":
            return {**row, "host": "host-2", "value": None if row["metric"] == "rebalanced_s" else row["value"]}
        return {**row, "verdict": "unknown"} if item.name == "knee-1" else row

    sure, unsure = _told()["recommendation"], _with(doubtful)["recommendation"]
    assert (sure["confidence"], unsure["confidence"]) == ("medium", "low")
    assert {*unsure["doubts"]} - {*sure["doubts"]} == {
        "leadership was seen to be balanced in 11 of 12 runs only",
        "correctness is unknown in 1 of 18 runs",
        "the runs come from more than one host",
    }


def test_every_option_but_one_is_rejected_with_its_reason() -> None:
    """Fewer are too few by a figure, more are more than needed."""
    options = {option["brokers"]: option for option in _told()["options"]}

    assert [count for count, option in options.items() if option["chosen"]] == [4]
    assert options[3]["why"].startswith("latency is safe up to")
    assert options[5]["why"] == "more than the load at the end of the horizon asks for"


def test_the_bottleneck_is_named_only_where_a_limit_explains_the_knee() -> None:
    """CPU near its allowance does; far from it nothing measured does."""

    def idle(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "value": row["value"] / 10} if row["metric"] == "broker_cpu_s_per_gb" else row

    assert _told()["words"]["bottleneck"].startswith("The bottleneck is CPU")
    assert _with(idle)["words"]["bottleneck"].startswith("No measured resource explains")


def test_what_was_used_stands_beside_its_rule() -> None:
    """5 % more left the brokers than W (G + RF - 1); where no counter was read, nothing is said."""
    demands = {row["resource"]: row for row in _told()["demands"]}

    assert demands["network_out"]["measured_over_rule"] == pytest.approx(1.05)
    assert demands["network_in"]["measured_over_rule"] is None


def test_the_ledger_ends_with_what_is_left() -> None:
    """Every line is the one before less its amount; the last is below zero when brokers are too few."""
    lines = _told()["ledger"]

    assert [line["item"] for line in lines][:2] == ["healthy knee", "failure: one broker away"]
    assert all(b["left"] == pytest.approx(a["left"] - b["amount"]) for a, b in pairwise(lines))
    assert lines[-1]["left"] < 0


def test_the_result_is_json_without_infinities() -> None:
    """What has no bound is null."""
    assert json.loads(json.dumps(_told(), allow_nan=False))["sentence"] == _told()["sentence"]
