"""Go or no-go for an upgrade that a cluster's owner performs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from campaigns.campaign import Campaign, Item
from campaigns.qualify import KIND
from campaigns.qualify import campaign as qualify
from campaigns.qualify.on_cluster import next_part
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from history.results.qualify import QualifyResult
from tests.campaigns.comparison import run_rows

P99 = ("latency_p99_ms", "measured")
OTHERS = ("others_per_s", "measured")
FAILS = {"verdict": "fail", "sentence": "A promise is broken."}


def plan(**settings: Any) -> Campaign:
    """Return a plan with one scenario and one try, without performance."""
    usual = {"cluster": "/c/staging.yaml", "scenarios": "steady", "tries": 1, "pairs": 0}
    return qualify.plan(usual | settings, campaign_id="q1", created_at="2026-11-24T08:00:00+00:00", seed=7)


def rows(campaign: Campaign, /, **about: dict[str, Any]) -> list[dict[str, Any]]:
    """Return passing runs in the plan's order, one per minute; ``about`` changes items by name."""
    found: list[dict[str, Any]] = []
    for minute, item in enumerate(_every(campaign)):
        at = {"started_at": f"2026-11-24T09:{minute:02}:00+00:00"}
        found += _rows_of(item, **at | about.get(item.name.replace("-", "_"), {}))
    return found


def _every(campaign: Campaign) -> list[Item]:
    """Return the runs before the upgrade, its run, and those after it."""
    before = [row for item in campaign.items for row in _rows_of(item)]
    upgrade = next_part(campaign, before)
    return [*campaign.items, *upgrade, *next_part(campaign, [*before, *_rows_of(upgrade[0])])]


def _rows_of(item: Item, **about: Any) -> list[dict[str, Any]]:
    slower = 12.0 if item.labels["question"] == "after" else 10.0
    usual = {"cluster": "abc", "jvm": "", "labels": {**item.labels, "campaign": "q1", "item": item.name}}
    return run_rows(item, {P99: slower, OTHERS: 100 * slower}, **usual | about)


def answers(campaign: Campaign, /, **about: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the verdict, and the answer to each question."""
    found: QualifyResult = qualify.result(campaign, rows(campaign, **about))
    return found.verdict, {line.question: line.answer for line in found.answers}


def test_the_upgrade_is_between_equal_runs() -> None:
    """Plimsoll asks for the upgrade once all runs before it are recorded; the runs after it follow, one at a time."""
    planned = plan(tries=2, pairs=1, upgrade_limit="20m")
    every = _every(planned)

    names = ("steady-01", "steady-02", "benchmark-01")
    parts = [[f"{part}-{name}" for name in names] for part in ("before", "after")]
    assert [item.name for item in planned.items] == parts[0]
    assert [item.name for item in every] == [*parts[0], "upgrade", *parts[1]]
    assert next_part(planned, _rows_of(planned.items[0])) == []
    assert {(item.cluster, item.kafka, item.at_once) for item in every} == {("/c/staging.yaml", "", False)}
    upgrade = load_scenario("rolling_upgrade", every[3].changes)
    assert [step.key for step in upgrade.phases[1].steps] == ["await_upgrade"]
    assert upgrade.phases[1].steps[0].limit == 1200  # type: ignore[attr-defined]  # of this step
    assert every[0].seed == every[4].seed


def test_everything_kept_is_go() -> None:
    """The sentence names the cluster; no version is claimed."""
    planned = plan()
    found = qualify.result(planned, rows(planned))

    assert (found.verdict, found.state) == ("go", "pass")
    assert found.sentence == (
        "Go from staging before the upgrade to staging after it: the upgrade under load kept every guarantee, 1 of 1 "
        "scenarios pass."
    )
    assert any("its version" in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("about", "verdict"),
    [
        ({"upgrade": FAILS}, "no-go"),
        ({"after_steady_01": FAILS}, "no-go"),
        ({"before_steady_01": FAILS, "after_steady_01": FAILS}, "go"),  # a note
        ({"before_steady_01": FAILS}, "go"),
        ({"upgrade": {"verdict": "unknown", "sentence": "A broker was not upgraded."}}, "not yet"),
    ],
)
def test_what_only_the_upgraded_cluster_violates_is_no_go(about: dict[str, Any], verdict: str) -> None:
    """A failure of both sides is not the upgrade's."""
    assert answers(plan(), **about)[0] == verdict


@pytest.mark.parametrize("item", ["before_steady_01", "upgrade"])
def test_a_run_on_the_wrong_side_of_the_upgrade_does_not_count(item: str) -> None:
    """One before it that was recorded again afterwards, and all after an upgrade that came last."""
    assert answers(plan(), **{item: {"started_at": "2026-11-25T00:00:00+00:00"}})[0] == "not yet"


def test_performance_is_told_and_decides_nothing() -> None:
    """The line has both medians and the load of others, since such runs cannot be paired."""
    planned = plan(pairs=2)
    (line,) = [each for each in qualify.result(planned, rows(planned)).answers if each.question == "performance"]

    assert (line.answer, len(line.runs)) == ("note", 4)
    assert line.sentence == (
        "Medians of 2 runs before and 2 after, not paired: p99 latency in phase measured 10 and 12 ms; records that "
        "others wrote to the cluster in phase measured 1,000 and 1,200 /s."
    )
    assert answers(planned, after_benchmark_01={"verdict": "unknown"})[1]["performance"] == "note"


@pytest.mark.parametrize(("lacking", "verdict"), [(["I38"], "go"), (["I1"], "not yet")])
def test_a_pass_needs_the_offsets_of_every_replica(lacking: list[str], verdict: str) -> None:
    """A missing controller's history is normal there; missing offsets of followers are too little evidence."""
    planned = plan()
    found = KIND.judged(rows(planned, upgrade={"not_judged": lacking}))
    assert qualify.result(planned, found).verdict == verdict


def test_versions_and_a_cluster_exclude_each_other() -> None:
    """The settings have no Java clients either, and the path becomes absolute."""
    with pytest.raises(BadInput, match="leave --from out"):
        plan(base="3.9.0")
    with pytest.raises(BadInput, match="clients"):
        plan(clients=3)
    assert plan(cluster="mine.yaml").settings["cluster"] == str(Path.cwd() / "mine.yaml")
