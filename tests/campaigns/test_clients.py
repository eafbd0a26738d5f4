"""Java clients of several releases: the plan, and the result of their runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from campaigns.campaign import Campaign
from campaigns.clients import campaign as clients
from history.errors import BadInput
from history.kafka_versions import CLIENT_RELEASES, RELEASES, Version
from tests.junit_schema import outcomes_of


def plan(**settings: Any) -> Campaign:
    """Return the plan for these settings."""
    return clients.plan(settings, campaign_id="c1", created_at="2026-11-23T08:00:00+00:00", seed=7)


def rows(campaign: Campaign, *verdicts: str) -> list[dict[str, Any]]:
    """Return the archive rows of the first runs."""
    return [
        {
            "run_id": f"run-{item.name}",
            "verdict": verdict,
            "sentence": f"It is {verdict}.",
            "labels": {**item.labels, "campaign": "c1", "item": item.name},
        }
        for item, verdict in zip(campaign.items, verdicts, strict=False)
    ]


def test_the_releases_are_the_newest_of_their_minor_releases() -> None:
    """Client releases are the newest patch of each minor release that has kafka-tools, newest first."""
    minor = [Version.parse(release)._replace(patch=0) for release in CLIENT_RELEASES]

    assert minor == sorted(set(RELEASES) - {Version(4, 4)}, reverse=True)


@pytest.mark.parametrize(
    ("asked", "releases"),
    [
        ("2", [*CLIENT_RELEASES[:2]]),
        (1, [CLIENT_RELEASES[0]]),
        ("3.9.1, 2.8.2,3.9.1", ["3.9.1", "2.8.2"]),
        (["3.9.1", "2.8.2"], ["3.9.1", "2.8.2"]),
    ],
)
def test_each_client_has_one_run(asked: object, releases: list[str]) -> None:
    """Each client has one run against the given brokers; a number selects the newest releases."""
    items = plan(kafka="3.9.1", clients=asked).items

    assert [item.changes for item in items] == [{"load": {"client": release}} for release in releases]
    assert {(item.kafka, item.scenario, item.seed) for item in items} == {("3.9.1", "java_client", 7)}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"clients": "0"}, "--clients=0 is refused: there are 1 to 15 releases to choose from"),
        ({"clients": "16"}, "--clients=16 is refused"),
        ({"clients": "3.9.1,latest"}, "'latest' is no release such as"),
        ({"scenario": "steady"}, "--scenario=steady has no load with engine: java"),
        ({"scenario": "several_producers"}, "--scenario=several_producers has several loads"),
    ],
)
def test_what_is_no_matrix_is_refused(settings: dict[str, Any], sentence: str) -> None:
    """Invalid settings are rejected with the value and the allowed ones."""
    with pytest.raises(BadInput, match=sentence):
        plan(**settings)


def test_a_scenario_without_load_has_no_client(tmp_path: Path) -> None:
    """A scenario without a load is rejected, as one with another engine is."""
    told = tmp_path / "quiet.yaml"
    told.write_text(
        "{name: q, why: w, cluster: {brokers: 1}, topics: {t: {replicas: [A]}}, phases: [{a: [{hold: 1s}]}]}"
    )

    with pytest.raises(BadInput, match="has no load with engine: java"):
        plan(scenario=str(told))


@pytest.mark.parametrize(
    ("verdicts", "state", "words"),
    [
        (["pass", "pass"], "pass", "Java clients of 2 releases against Kafka 3.9.1: 2 pass."),
        (["pass", "fail"], "fail", "1 pass, 1 fail."),
        (["unknown", "fail"], "fail", "1 fail, 1 unknown."),
        (["pass", "unknown"], "unknown", "1 pass, 1 unknown."),
        (["pass"], "unknown", "1 pass, 1 unknown."),
    ],
)
def test_a_client_that_failed_or_has_no_verdict_decides(verdicts: list[str], state: str, words: str) -> None:
    """A failed client fails the result, and a missing verdict makes it unknown."""
    planned = plan(kafka="3.9.1", clients="2")
    found = clients.result(planned, rows(planned, *verdicts))

    assert (found.state, len(found.runs)) == (state, 2)
    assert found.sentence.endswith(words)
    assert list(outcomes_of(found).values()) == [run.verdict for run in found.runs]


def test_runs_of_another_campaign_do_not_count() -> None:
    """Runs of another campaign do not count, even under the same item name."""
    planned = plan(clients="1")
    (row,) = rows(planned, "fail")
    row["labels"]["campaign"] = "c2"

    assert [run.sentence for run in clients.result(planned, [row]).runs] == ["It was not recorded."]
