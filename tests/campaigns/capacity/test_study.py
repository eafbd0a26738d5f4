"""Knees, R and T0 from archive rows, and the rows that are left out."""

import math
from typing import Any

import pytest

from campaigns.campaign import Item
from campaigns.capacity.study import CaughtUp, Study
from campaigns.statistics.catch_up import Interval
from tests.campaigns.capacity_rows import KNEE, RATE, START_S, archive, campaign, result, row, told, told_with, usual


def test_the_simulated_truth_is_found_again() -> None:
    """The simulated knees, R and T0 are within their intervals, or within 5%."""
    found = told()

    assert found["knees"]["knee"]["load"]["estimate"] == pytest.approx(KNEE["knee"], rel=0.05)
    assert found["knees"]["degraded"]["load"]["estimate"] == pytest.approx(KNEE["degraded"], rel=0.05)
    assert found["catch_up"]["rate"]["low"] <= RATE <= found["catch_up"]["rate"]["high"]
    assert found["catch_up"]["start_s"]["low"] <= START_S <= found["catch_up"]["start_s"]["high"]


def test_held_out_runs_check_the_model_and_do_not_shape_it() -> None:
    """Nine runs are fitted, and three held-out runs test the model against their own prediction intervals."""
    found = told()

    assert found["catch_up"]["fitted_runs"] == 9
    assert (found["model_check"]["inside"], found["model_check"]["of"]) == (3, 3)
    assert found["words"]["model_check"].startswith("3 of 3 held-out runs lie inside their own 90 %")


def test_a_wrong_model_is_told_so() -> None:
    """Held-out runs outside their intervals show a wrong model and lower the confidence."""

    def slower(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "value": 2 * row["value"]} if item.labels["role"] == "held_out" else row

    found = told_with(slower)
    assert found["model_check"]["inside"] == 0
    assert "only 0 of 3 held-out runs lie inside their prediction interval" in found["recommendation"]["doubts"]


def test_an_interval_without_an_upper_end_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prediction interval without upper bound tests nothing, so its run does not count."""
    predicted = Study._predicted

    def endless(study: Study, run: CaughtUp) -> Interval | None:
        found = predicted(study, run)
        return found._replace(high=math.inf) if found and run.write > 4 else found

    sure = told()
    monkeypatch.setattr(Study, "_predicted", endless)
    found = told_with(lambda _, row: row)

    assert [sure["model_check"][name] for name in ("of", "open", "inside")] == [3, 0, 3]
    assert [found["model_check"][name] for name in ("of", "open", "inside")] == [3, 2, 1]
    assert 1.1 < sure["model_check"]["width"] < 2
    assert "between whose ends there is a factor of" in sure["words"]["model_check"]
    assert "2 of the others have no upper end, which proves nothing" in found["words"]["model_check"]
    assert found["unsure"] == ["only 1 of 3 held-out runs lie inside their prediction interval"]


def test_a_run_that_was_given_up_is_kept_as_at_least_so_long() -> None:
    """A run that was given up is kept as censored: drawn, fitted and counted."""

    def given_up(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        if item.name != "held-out-3-5mb-90s" and item.labels.get("write_mb_per_s") != "4":
            return row
        return {**row, "value": min(row["value"], 20), "censored": True}

    found = told_with(given_up)
    assert found["catch_up"]["censored_runs"] == 3
    assert next(p for p in found["catch_up"]["points"] if p["down_s"] == 90 and p["censored"])["inside"]


def test_cold_runs_have_a_rate_of_their_own() -> None:
    """Cold runs have their own rate R and do not change that of the others; too few of them are reported."""

    def cold(last: int) -> Any:
        def change(item: Item, row: dict[str, Any]) -> dict[str, Any]:
            if item.labels["role"] != "catch_up" or item.labels["down_s"] != "60" or int(row["run_id"][4:]) > last:
                return row
            return {**row, "labels": {**row["labels"], "backlog": "cold"}, "value": row["value"] * 2}

        return change

    asked = campaign(grid={"write_mb_per_s": [1, 2, 4], "down_s": [15, 30, 60], "repetitions": 2})
    found = result(asked, archive(asked, cold(99)))
    assert found["catch_up"]["rate"]["low"] <= RATE <= found["catch_up"]["rate"]["high"]
    assert found["catch_up"]["cold_rate"]["estimate"] < 0.9 * RATE
    assert any(row["what"] == "R from disk" for row in found["plan_table"])
    few = result(asked, archive(asked, cold(9)))
    assert few["catch_up"]["cold_rate"] is None
    assert any(text.startswith("Cold: ") for text in few["missing"])


def test_a_missed_load_ends_the_knee_but_a_disturbed_host_does_not() -> None:
    """A missed load ends the knee; a run on a disturbed host does not."""

    def missed(trusted: bool) -> Any:
        def change(item: Item, row: dict[str, Any]) -> dict[str, Any]:
            hit = item.name == "degraded-2" and row["phase"] == "3 MB/s, one away"
            value = 0.9 if row["metric"] == "achieved_ratio" else row["value"]
            return {**row, "value": value, "trusted": trusted, "note": "host_steal_ratio was 9%"} if hit else row

        return change

    assert told_with(missed(trusted=True))["knees"]["degraded"]["safe"] == 2
    disturbed = told_with(missed(trusted=False))
    assert disturbed["knees"]["degraded"]["safe"] > 4
    assert disturbed["left_out"][0] == {
        "run_id": "run-03",
        "phase": "3 MB/s, one away",
        "why": "host_steal_ratio was 9%",
    }


def test_a_catch_up_counts_with_the_load_and_the_downtime_that_it_had() -> None:
    """A catch-up run counts with its measured load and downtime; far from the planned load it is left out."""
    asked = usual()
    names = [item.name for item in asked.items if item.labels["role"] == "catch_up"]
    extra = [
        {**run, **row(metric, value, "away and back")}
        for name, ratio in zip(names, (0.97, 0.6), strict=False)
        for run in archive(asked)
        if run["labels"]["item"] == name and run["metric"] == "catch_up_s"
        for metric, value in (("offered_per_s", 200.0), ("acked_per_s", 200.0 * ratio))
    ]
    down = [{**run, **row("down_s", 17.5, "away and back")} for run in extra]
    found = result(asked, [*archive(asked), *extra, *down])
    points = {point["run_id"]: point for point in found["catch_up"]["points"]}

    first, second = extra[0], extra[2]
    assert points[first["run_id"]]["write_mb_per_s"] == pytest.approx(0.97 * float(first["labels"]["write_mb_per_s"]))
    assert points[first["run_id"]]["down_s"] == 17.5
    assert second["run_id"] not in points
    assert found["left_out"][0]["why"] == "60 % of the load was written, so the load is not known"


def test_a_run_that_broke_a_promise_measures_nothing() -> None:
    """A run that violated a guarantee is listed as failed and not fitted."""

    def broken(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "verdict": "fail", "sentence": "2 records were lost."} if "1mb-15s" in item.name else row

    found = told_with(broken)
    assert found["catch_up"]["fitted_runs"] == 8
    assert len(found["runs"]["failed"]) == 1
    assert "2 records were lost." in found["left_out"][0]["why"]
