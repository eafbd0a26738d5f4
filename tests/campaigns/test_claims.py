"""A campaign that checks one version claim by claim."""

import pytest

from campaigns.claims.campaign import plan, result
from claims.table import CLAIMS, EXPERIMENTS, WALKTHROUGHS
from history.errors import BadInput
from tests.junit_schema import outcomes_of

PLANNED = {"campaign_id": "c1", "created_at": "2026-11-21T08:00:00+00:00", "seed": 7}


def test_each_experiment_is_one_run() -> None:
    """Each experiment is one run on the given version, and no run is added later."""
    campaign = plan({"kafka": "4.3.0"}, **PLANNED)  # type: ignore[arg-type]  # of one type each

    assert [(item.name, item.scenario, item.kafka) for item in campaign.items] == [
        (name, f"claims_{name}", "4.3.0") for name in (*EXPERIMENTS, *WALKTHROUGHS)
    ]
    assert {str(item.changes) for item in campaign.items} == {"{}"}
    old = plan({"kafka": "3.9.1", "mode": "zookeeper"}, **PLANNED)  # type: ignore[arg-type]  # of one type each
    assert [item.changes for item in old.items] == [{"cluster": {"mode": "zookeeper"}}] * len(old.items)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kafka": "5.0.0"}, "5.0.0 is no version that the claims know; known are 2.8, 3.0, 3.1"),
        ({"kafka": "3.9.1", "experiments": ["nothing"]}, "'nothing' is no experiment; known: propagation, eviction"),
        ({}, "--kafka is missing: the release to check"),
    ],
)
def test_what_nobody_knows_is_refused(settings: dict[str, object], said: str) -> None:
    """Unknown versions and experiments are rejected with the known ones."""
    with pytest.raises(BadInput, match=said):
        plan(settings, **PLANNED)  # type: ignore[arg-type]  # of one type each


def test_a_result_without_runs_says_so() -> None:
    """A result without runs is unknown and lists the missing experiments."""
    asked = result(plan({"kafka": "3.9.1"}, **PLANNED), {})  # type: ignore[arg-type]  # of one type each

    assert asked.state == "unknown"
    assert asked.sentence.endswith(
        "48 not observable. Not recorded to the end: propagation, eviction, elections, log_start, factor."
    )
    assert asked.answers.keys() == asked.claims.keys() == CLAIMS.keys()
    assert len(asked.lines) == 48
    assert list(outcomes_of(asked).values()) == ["skipped"] * 48
