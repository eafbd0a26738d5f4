"""The smallest schedule with a violation, without brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaigns import randomised
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.fuzz import search
from campaigns.places import Places
from clusters.scenario.scenario import Scenario, parse_scenario
from clusters.scenario.schedules import FaultMix, randomised_schedule
from history.errors import HarnessError
from history.folder import RunFolder
from history.results.schedules import ScheduleRun
from tests.campaigns.sample_runs import sealed_run

MIX = FaultMix.model_validate(
    {
        "cluster": {"brokers": 2},
        "topics": {"orders": {"replicas": ["A", "B"]}},
        "load": {"topic": "orders"},
        "quiet": "1s..2s",
        "faults": {
            "pause": {"steps": [{"pause": "A"}, {"hold": "1s..2s"}, {"resume": "A"}]},
            "kill": {"steps": [{"kill": "A"}, {"hold": "1s..2s"}, {"start": "A"}]},
        },
    }
)
DRAWN = next(
    schedule
    for schedule in (randomised_schedule(MIX, seed=seed, length_s=40.0) for seed in range(20))
    if {"kill", "pause"} <= {step.key for phase in schedule.phases for step in phase.steps}
)


class Cluster:
    """Violates I10 whenever A is killed, and I4 too in schedules of more than two steps."""

    def __init__(self) -> None:
        self.executed: list[Scenario] = []

    def __call__(self, schedule: Scenario) -> ScheduleRun:
        self.executed.append(schedule)
        keys = [step.key for phase in schedule.phases for step in phase.steps]
        violations = ["I10"] * ("kill" in keys) + ["I4"] * ("kill" in keys and len(keys) > 2)
        return run(schedule, violations)


def run(schedule: Scenario, violations: list[str]) -> ScheduleRun:
    """Return the run of a schedule with these violations."""
    return ScheduleRun(
        item=search.name_of(schedule),
        seed=1,
        steps=randomised.steps_of(schedule),
        run_id=f"run-{schedule.digest[:4]}",
        verdict="fail" if violations else "pass",
        sentence="It broke.",
        violations=violations,
    )


def shrunk(cluster: Cluster, known: set[str] | None = None, limit: int = 40) -> search.Counterexample:
    """Return the shrunk schedule of a drawn one that violated both invariants."""
    known = set() if known is None else known
    return search.shrunk(DRAWN, run(DRAWN, ["I10", "I4"]), cluster, limit=limit, known=known, say=lambda _: None)


def test_a_violation_is_shrunk_to_the_one_step() -> None:
    """A violation is shrunk to a single step; one of the violated invariants is enough."""
    found = shrunk(Cluster())

    assert [step.key for phase in found.smaller.phases for step in phase.steps] == ["kill"]
    assert (found.first.violations, found.last.violations, found.is_smallest) == (["I10", "I4"], ["I10"], True)


def test_shrinking_ends_at_its_limit() -> None:
    """Shrinking stops at its limit, keeps the smallest schedule, and reports that a smaller one may exist."""
    cluster = Cluster()
    found = shrunk(cluster, limit=2)

    assert len(cluster.executed) == 2
    assert not found.is_smallest
    assert "kill" in {step.key for phase in found.smaller.phases for step in phase.steps}


def test_what_was_recorded_before_costs_no_run() -> None:
    """Resumed shrinking reuses recorded runs and ends with the same schedule."""
    known: set[str] = set()
    first = shrunk(Cluster(), known)

    assert shrunk(Cluster(), known, limit=0).smaller == first.smaller


@pytest.fixture
def folder(places: Places) -> CampaignFolder:
    """A campaign of one recorded schedule that violated a guarantee."""
    item = randomised.item_of("schedule-1", DRAWN, "3.0.2", seed=7)
    made = CampaignFolder.of(places.site, "fuzz", "c1")
    made.write_plan(
        Campaign(
            campaign_id="c1",
            kind="fuzz",
            created_at="2026-01-01",
            seed=7,
            settings={"kafka": "3.0.2"},
            items=[item],
        )
    )
    _recorded(places, "schedule-1")
    return made


def _recorded(places: Places, item: str) -> RunFolder:
    folder = sealed_run(places, item)
    folder.verdict_file.write_text(json.dumps({"verdict": "fail", "sentence": "A record is lost."}))
    return folder


def test_smaller_schedules_are_items_of_the_campaign(
    folder: CampaignFolder, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller schedules are recorded as items of the campaign, and the smallest is written as a scenario file."""
    recorded: list[str] = []

    def record_item(_folder: CampaignFolder, item: Item, _places: Places) -> Path:
        recorded.append(item.name)
        if len(recorded) == 1:
            raise HarnessError("no broker")
        return _recorded(places, item.name).path

    def violations_of(run: RunFolder) -> list[str]:
        return ["lost_write"] if run.path.name.endswith("schedule-1") or len(recorded) > 2 else []

    monkeypatch.setattr(search, "record_item", record_item)
    monkeypatch.setattr(search, "judge_recorded", lambda *_: [])
    monkeypatch.setattr(randomised, "violations_of", violations_of)
    lines = search.search(folder, {"shrink_runs": None}, places, lambda _: None)
    again = search.search(folder, {"shrink_runs": 40}, places, lambda _: None)

    smallest = parse_scenario((folder.path / "smallest.yaml").read_text(), "smallest.yaml")
    assert all(name.startswith("shrunk-") for name in recorded)
    assert (
        len(recorded) == len(set(recorded)) + recorded.count(recorded[0]) - 1
    )  # only the one that broke is tried anew
    assert lines[1] == "violations: lost_write"
    assert lines[-1] == f"again: plimsoll run {folder.path}/smallest.yaml --kafka 3.0.2"
    assert randomised.steps_of(smallest) < randomised.steps_of(DRAWN)
    assert again[-1] == lines[-1]


def test_without_a_violation_or_a_run_to_spend_nothing_is_shrunk(
    folder: CampaignFolder, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a violation, or with a limit of 0 runs, nothing is shrunk."""
    options: dict[str, Any] = {"shrink_runs": 0}
    monkeypatch.setattr(randomised, "violations_of", lambda _: ["lost_write"])
    assert search.search(folder, options, places, lambda _: None) == []

    monkeypatch.setattr(randomised, "violations_of", lambda _: [])
    assert search.search(folder, {}, places, lambda _: None) == []
