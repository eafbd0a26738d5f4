"""The smallest schedule with a violation, without brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns import randomised
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.fuzz import search
from campaigns.fuzz.campaign import result
from campaigns.places import Places
from clusters.scenario.scenario import Scenario, parse_scenario
from clusters.scenario.schedules import FaultMix, randomised_schedule
from history.events import read_events
from history.results.schedules import ScheduleRun

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


SHOWN = randomised.item_of("schedule-1", DRAWN, "3.0.2", seed=7)


def run_of(item: Item, run: Path | None) -> ScheduleRun:
    """Return a run that violates I10 whenever A is killed, and I4 too in schedules of more than two steps."""
    keys = [step.key for phase in randomised.schedule_of(item).phases for step in phase.steps]
    violations = ["I10"] * ("kill" in keys) + ["I4"] * ("kill" in keys and len(keys) > 2)
    verdict = "fail" if violations else "pass"
    return ScheduleRun(
        item=item.name,
        seed=7,
        steps=len(keys),
        run_id=run.name if run else "",
        verdict=verdict if run else "unknown",
        sentence="",
        violations=violations if run else [],
    )


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges runs by their schedule."""
    monkeypatch.setattr(randomised, "run_of", run_of)


def campaign(limit: int = 40) -> Campaign:
    """Return a campaign whose schedule violated both invariants."""
    settings = {"kafka": "3.0.2", "shrink_runs": limit}
    return Campaign(campaign_id="c1", kind="fuzz", created_at="2026-01-01", seed=7, settings=settings, items=[SHOWN])


def shrunk(limit: int = 40, broken: set[str] | None = None) -> tuple[search.Shrinking, list[str]]:
    """Run whatever the search asks for; return what it found, and the items that were run."""
    runs, asked = {"schedule-1": Path("first")}, list[str]()
    while (found := search.shrinking(campaign(limit), runs, asked)) and found.next:
        asked.append(found.next.name)
        if found.next.name not in (broken or ()):
            runs[found.next.name] = Path(found.next.name)
    assert found
    return found, asked


def keys_of(schedule: Scenario) -> list[str]:
    """Return the steps' names."""
    return [step.key for phase in schedule.phases for step in phase.steps]


def test_a_violation_is_shrunk_to_the_one_step() -> None:
    """One of the violated invariants is enough; each smaller schedule is run once."""
    found, asked = shrunk()

    assert keys_of(found.smallest) == ["kill"]
    assert (found.first.violations, found.last.violations, found.is_limited) == (["I10", "I4"], ["I10"], False)
    assert (found.runs, len(set(asked))) == (len(asked), len(asked))
    assert all(name.startswith("shrunk-") for name in asked)


def test_shrinking_ends_at_its_limit() -> None:
    """The smallest schedule so far is kept, and a smaller one may exist."""
    found, asked = shrunk(limit=2)

    assert (len(asked), found.is_limited) == (2, True)
    assert "kill" in keys_of(found.smallest)


def test_a_run_that_breaks_violates_nothing() -> None:
    """Shrinking goes on with other schedules."""
    _, asked = shrunk()
    found, again = shrunk(broken={asked[0]})

    assert again[0] == asked[0]
    assert "kill" in keys_of(found.smallest)


@pytest.mark.parametrize(("run", "limit"), [("first", 0), (None, 40)])
def test_without_a_violation_or_a_limit_nothing_is_shrunk(run: str | None, limit: int) -> None:
    """A schedule without a run violates nothing."""
    assert search.shrinking(campaign(limit), {"schedule-1": Path(run)} if run else {}) is None
    assert search.shrinking(campaign(), {"schedule-1": Path("first")}) is not None


def test_the_smallest_schedule_is_a_scenario(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stored in the campaign's folder, named in its result, and what is next is said."""
    folder, runs = CampaignFolder.of(places.site, "fuzz", "c1"), {"schedule-1": Path("first")}
    folder.write_plan(campaign(limit=3))
    monkeypatch.setattr(search, "recorded_runs", lambda *_: runs)
    while items := search.next_items(folder, places):
        runs |= {item.name: Path(f"run-of-{item.name}") for item in items}

    smallest = parse_scenario((folder.path / "smallest.yaml").read_text(), "smallest.yaml")
    assert len(keys_of(smallest)) < len(keys_of(DRAWN))
    said = [event.detail["why"] for event in read_events(folder.stages)]
    assert said[0].startswith("shrinking schedule-1, run 1 of at most 3: so far ")
    told = result(folder.read_plan(), runs)
    assert told.smallest
    assert parse_scenario(told.smallest.schedule, "its result") == smallest
    assert told.lines[-1].endswith(f"see smallest.yaml and {told.smallest.run.run_id}")
