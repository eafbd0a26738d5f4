"""A result is whole: JSON, of its own campaign, and unknown where nothing was measured."""

import json

from campaigns.capacity.result import result
from tests.campaigns.capacity_rows import archive, told, usual


def test_nothing_measured_is_unknown_and_says_what_is_missing() -> None:
    """No number is made up, and the JSON is whole."""
    found = result(usual(), [])

    assert (found["state"], found["plan"], found["recommendation"]["verdict"]) == ("unknown", None, "unknown")
    assert found["sentence"].startswith("Nothing can be promised yet: no healthy load step")
    assert len(found["missing"]) == 3


def test_rows_of_other_campaigns_do_not_count() -> None:
    """The archive holds everything that ever ran."""
    others = [{**row, "labels": {**row["labels"], "campaign": "plan-2"}} for row in archive(usual())]

    assert result(usual(), others)["runs"]["count"] == 0


def test_the_result_is_json_without_infinities() -> None:
    """What has no bound is null."""
    assert json.loads(json.dumps(told(), allow_nan=False))["sentence"] == told()["sentence"]
