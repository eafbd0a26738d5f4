"""The result: valid JSON, from this campaign's runs only, and unknown without measurements."""

import json
from typing import Any

import pytest

from history.results.capacity import CapacityResult
from tests.campaigns.capacity_rows import archive, campaign, item_of, result, told, usual
from tests.junit_schema import outcomes_of


def test_nothing_measured_is_unknown_and_says_what_is_missing() -> None:
    """Without measurements the result is unknown and lists what is missing."""
    found = result(usual(), [])

    assert (found["state"], found["plan"], found["recommendation"]["verdict"]) == ("unknown", None, "unknown")
    assert found["sentence"].startswith("No plan yet for 3 MB/s on 3 brokers: no healthy load step")
    assert len(found["missing"]) == 3


def test_rows_of_other_campaigns_do_not_count() -> None:
    """Rows of other campaigns in the archive do not count."""
    others = [{**row, "labels": {**row["labels"], "campaign": "plan-2"}} for row in archive(usual())]

    assert result(usual(), others)["runs"]["count"] == 0


ENOUGH = campaign(brokers=6)
HELD_OUT = "held_out"


@pytest.mark.parametrize(
    ("change", "state", "why"),
    [
        (lambda item, row: row, "pass", None),
        (lambda item, row: None if item.name == "knee-1" else row, "unknown", "1 of 18 runs are missing"),
        (lambda item, row: {**row, "host": item.name[:4]}, "unknown", "the runs come from 4 hosts"),
        (
            lambda item, row: {**row, "value": 2 * row["value"]} if item.labels["role"] == HELD_OUT else row,
            "unknown",
            "only 0 of 3 held-out runs lie inside their prediction interval",
        ),
        (
            lambda item, row: {**row, "trusted": False, "note": "steal"} if item.labels["role"] == HELD_OUT else row,
            "unknown",
            "the catch-up model was not tried on a run that it was not fitted on",
        ),
    ],
    ids=["whole", "missing", "hosts", "wrong", "untried"],
)
def test_enough_brokers_are_a_pass_only_where_the_plan_is_sound(change: Any, state: str, why: str | None) -> None:
    """Enough brokers pass only if the plan is sound: all runs, one host, and a model that was tested and held."""
    rows = [kept for row in archive(ENOUGH) if (kept := change(item_of(ENOUGH, row), row)) is not None]
    found = result(ENOUGH, rows)

    assert (found["recommendation"]["verdict"], found["state"]) == ("over", state)
    assert found["unsure"] == ([why] if why else [])
    assert len(outcomes_of(CapacityResult.model_validate(found))) == len(found["unsure"])
    assert found["sentence"].startswith(f"Not sure, as {why}: 6 brokers carry" if why else "6 brokers carry")


def test_too_few_brokers_are_a_failure_whatever_is_missing() -> None:
    """Too few brokers fail, whatever is missing."""
    found = result(usual(), [row for row in archive(usual()) if row["labels"]["item"] != "knee-1"])

    assert (found["state"], found["unsure"]) == ("fail", ["1 of 18 runs are missing"])


def test_the_result_is_json_without_infinities() -> None:
    """The JSON has null instead of infinity."""
    assert json.loads(json.dumps(told(), allow_nan=False))["sentence"] == told()["sentence"]
