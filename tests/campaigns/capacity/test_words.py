"""A plan in sentences: the answer with its condition, and no more than was measured."""

import re
from typing import Any

import pytest

from campaigns.campaign import Item
from tests.campaigns.capacity_rows import KNEE, archive, campaign, result, told, told_with


def test_one_run_per_step_promises_nothing() -> None:
    """It has a curve but no interval, so that no load is known to be safe."""
    asked = campaign(repetitions=1)
    found = result(asked, archive(asked))

    assert found["knees"]["knee"]["load"]["estimate"] == pytest.approx(KNEE["knee"], rel=0.1)
    assert found["sentence"].startswith("No plan yet for 3 MB/s on 3 brokers: a healthy load step has one usable run")


def test_the_answer_names_its_condition() -> None:
    """Load, target, and how soon a broker must be back; then what the growth asks for."""
    found = told()
    back_s = round(found["plan"]["longest_down_s"]["low"])

    assert found["sentence"].startswith("3 brokers carry 3.9 MB/s with p99 under 200 ms while one is away, and recover")
    assert f"within 60 s, but only if it is back within {back_s} s; 4.93 MB/s in 6 months take 4." in found["sentence"]
    assert (found["state"], found["recommendation"]["verdict"], found["recommendation"]["brokers"]) == (
        "fail",
        "under",
        4,
    )


@pytest.mark.parametrize(("part", "state"), [("knee", "with all brokers"), ("degraded", "with one broker away")])
def test_runs_that_cannot_tell_are_unknown_and_say_how_many_would(part: str, state: str) -> None:
    """One run of three is slow with all brokers, or with one away; where none is, the load is carried."""
    asked = campaign(write_mb_per_s=1.5, growth_per_month=0)

    def slow(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        of_it = item.name == f"{part}-1" and row["metric"] == "latency_p99_ms"
        return {**row, "value": 6 * row["value"]} if of_it else row

    found, without = result(asked, archive(asked, slow)), result(asked, archive(asked))
    (open_question,) = found["recommendation"]["undecided"]

    assert (found["state"], found["recommendation"]["verdict"]) == ("unknown", "unknown")
    assert found["sentence"].startswith(
        "These runs do not decide whether 3 brokers carry 1.95 MB/s, the peak in 6 months"
    )
    assert f"p99 {state} at 1.95 MB/s on 3 brokers is " in open_question
    assert re.search(
        r"the target 200 ms; \d+ runs of each load step would decide if they spread as the 3", open_question
    )
    assert (without["state"], without["recommendation"]["undecided"]) == ("pass", [])


def test_a_load_above_every_step_is_unknown_and_named() -> None:
    """Nothing was seen to miss its target, so no broker is too few."""
    asked = campaign(write_mb_per_s=1.5, load_steps=[1, 1.2, 1.5], growth_per_month=0)
    found = result(asked, archive(asked))

    assert found["state"] == "unknown"
    assert "p99 with one broker away at 1.95 MB/s on 3 brokers was not measured: add a load step" in found["sentence"]


def test_a_target_that_is_missed_for_sure_is_a_failure() -> None:
    """Where even the lower bound of p99 is above it, whatever else the runs leave open."""
    asked = campaign(target_p99_ms=10, growth_per_month=0)
    found = result(asked, archive(asked))

    assert (found["state"], found["recommendation"]["verdict"]) == ("fail", "under")
    assert found["sentence"].startswith("3 brokers do not carry 3.9 MB/s with p99 under 10 ms while one is away, ")


def test_no_finite_catch_up_is_said_where_the_load_outruns_the_rate() -> None:
    """15.6 MB/s into a broker that takes in some 12 at most."""
    asked = campaign(write_mb_per_s=12, target_p99_ms=100_000, load_steps=[8, 16, 20])
    found = result(asked, [{**row, "value": min(row["value"], 1.0)} if row["metric"] == "latency_p99_ms" else
                          {**row, "value": 1.0} if row["metric"] == "achieved_ratio" else row
                          for row in archive(asked)])  # fmt: skip

    assert re.search(
        r"there is no finite catch-up: a broker takes in [\d.]+ MB/s at most, and 15\.6", found["sentence"]
    )
    assert found["plan"]["catch_up_s"] == {"estimate": None, "low": None, "high": None}
    assert "out of reach even without one" in found["words"]["throttle"]


def test_the_bottleneck_is_named_only_where_a_limit_explains_the_knee() -> None:
    """CPU near its resource limits does; far from it nothing measured does."""

    def idle(item: Item, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "value": row["value"] / 10} if row["metric"] == "broker_cpu_s_per_gb" else row

    assert told()["words"]["bottleneck"].startswith("The bottleneck is CPU")
    assert told_with(idle)["words"]["bottleneck"].startswith("No measured resource explains")


def test_a_load_under_which_no_broker_caught_up_is_not_carried() -> None:
    """Peaks of 3.9 MB/s, and catch-up runs at up to 2: it is unknown; tried at 5 that is not said."""
    asked = campaign(grid={"write_mb_per_s": [1, 2], "down_s": [15, 30, 60]}, held_out=[[2, 90]], growth_per_month=0)
    found = result(asked, archive(asked))

    assert "catching up 30 s at 3.9 MB/s on 3 brokers was not measured" in found["sentence"]
    assert found["state"] == "unknown"
    assert found["plan"]["safe_recovery_mb_per_s"] == 2
    assert any(
        "above every load under which a broker caught up" in doubt for doubt in found["recommendation"]["doubts"]
    )
    assert "was not measured" not in told()["sentence"]
    assert any(limit.startswith("p99 meets its target with one broker away, but not") for limit in told()["limits"])


@pytest.mark.parametrize(("tls", "said"), [(True, "TLS was on"), (False, "TLS was not measured")])
def test_whether_tls_was_on_is_among_the_limits(tls: bool, said: str) -> None:
    """With it, what handshakes cost is not in the figures; without it, nothing of it is."""
    asked = campaign(tls=tls)

    assert len([limit for limit in result(asked, archive(asked))["limits"] if limit.startswith(said)]) == 1
