"""A nightly run on clusters of others."""

from typing import Any

import pytest

from campaigns.nightly import campaign as nightly
from tests.campaigns.nightly.test_campaign import LATE, result, series_of, with_reruns
from tests.campaigns.nightly_runs import campaign_of, history, name_of, rows_of

OTHERS: dict[str, Any] = {
    "clusters": {"staging": "/c/staging.yaml"},
    "versions": ["staging"],
    "baseline": {"nightly_runs": 30, "releases": ["staging"]},
}


def test_a_name_stands_for_a_cluster_of_others() -> None:
    """Its runs have the name as version, whatever its Kafka; the control remains a version on this host."""
    campaign = campaign_of(0, **OTHERS)

    assert {(item.labels["role"], item.kafka, item.cluster) for item in campaign.items} == {
        ("matrix", "", "/c/staging.yaml"),
        ("control", "3.9.1", ""),
    }
    correct = campaign_of(0, **OTHERS, correctness={"scenarios": ["steady"]})
    assert [item.at_once for item in correct.items if item.cluster] == [False, False]
    told = result(history(1, **OTHERS), 0, **OTHERS)
    assert {(run.role, run.kafka) for run in told.runs} == {("matrix", "staging"), ("control", "3.9.1")}
    assert told.notes == ["Others wrote to staging, unknown; their load is part of each figure."]


def test_the_load_of_others_is_noted() -> None:
    """The median of the phases in which it is known."""
    campaign = campaign_of(0, **OTHERS)
    rows = history(1, **OTHERS)
    for load in (900.0, 1_100.0, 5_000.0):
        rows += rows_of(campaign, campaign.items[1:2], lambda _, load=load: load, metric="others_per_s")
    told = result(rows, 0, **OTHERS)

    assert told.notes == [
        "Others wrote 1,100 records/s to staging (median of the phases); their load is part of each figure."
    ]


@pytest.mark.parametrize(("factor", "verdict"), [(1.2, "confirmed"), (1.0, "refuted")])
def test_one_cluster_is_rerun_alone(factor: float, verdict: str) -> None:
    """Without another cluster, its reruns are compared with its own nightly runs before the change."""
    rows = history(LATE + 1, {"matrix": (LATE, 1.2)}, **OTHERS)
    again = nightly.follow_up(campaign_of(LATE, **OTHERS), rows)
    told = series_of(result(with_reruns(rows, factor, **OTHERS), **OTHERS), "staging")

    assert [(item.labels["role"], item.cluster) for item in again] == [("candidate", "/c/staging.yaml")] * 3
    assert told.state == verdict
    assert "reruns in this nightly run against its nightly runs before the change: " in told.why


def test_a_cluster_is_rerun_beside_another_one() -> None:
    """A rerun alternates between both clusters, as between a version and a release."""
    two = OTHERS | {
        "clusters": {"staging": "/c/staging.yaml", "reference": "/c/reference.yaml"},
        "versions": ["staging", "reference"],
        "baseline": {"releases": ["reference"]},
    }
    rows = history(LATE + 1, **two)
    for row in rows:
        slow = row["labels"].get("cluster") == "staging" and row["labels"]["campaign"] == name_of(LATE)
        row["value"] *= 1.2 if slow else 1
    again = nightly.follow_up(campaign_of(LATE, **two), rows)

    assert {(item.labels["role"], item.labels["cluster"]) for item in again} == {
        ("candidate", "staging"),
        ("baseline", "reference"),
    }


def test_another_cluster_under_one_name_begins_anew() -> None:
    """Its figures are not those of the cluster before."""
    rows = history(LATE + 1, **OTHERS)
    for row in rows:
        if row["labels"].get("cluster"):
            row["cluster"] = "new" if row["labels"]["campaign"] == name_of(LATE) else "old"
    told = result(rows, **OTHERS)

    assert series_of(told, "staging").state == "no basis"
    assert f"Changed since {name_of(LATE - 1)}, so that its series begin anew: steady." in told.notes
