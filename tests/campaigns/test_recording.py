"""Items of a campaign are recorded in order and once, with the calls on a run patched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from campaigns import recording
from campaigns.campaign import CampaignFolder, Item
from campaigns.places import Places
from clusters import experiment
from clusters.scenario import load_scenario
from clusters.world import Plan
from history.errors import HarnessError
from history.events import EventLog, errors_of
from history.folder import RunFolder
from history.java import Java
from tests.campaigns.sample_runs import sealed_run
from tests.clusters.noted import note_calls


def test_what_was_recorded_is_not_outstanding(folder: CampaignFolder, places: Places) -> None:
    """A sealed run of this campaign is done; one that broke off, and another campaign's, are not."""
    sealed_run(places, "run-1")
    (sealed_run(places, "run-2").path / "sealed.json").unlink()
    sealed_run(places, "run-3", campaign="c2")
    items = recording.items_of(folder, places, more=False)

    assert [item.name for item in recording.outstanding(folder, items, places)] == ["run-2", "run-3"]


def test_an_item_that_broke_comes_last(folder: CampaignFolder, places: Places) -> None:
    """It keeps nobody else from being recorded, and is tried again when the others are done."""
    items = folder.read_plan().items
    turns = [recording.next_item(folder, items, places) for _ in items]
    sealed_run(places, "run-2")
    sealed_run(places, "run-3")

    assert [item.name for item in turns if item] == ["run-1", "run-2", "run-3"]
    again = recording.next_item(folder, items, places)
    assert again is not None
    assert again.name == "run-1"
    sealed_run(places, "run-1")
    assert recording.next_item(folder, items, places) is None


def test_an_item_that_broke_is_recorded_again(folder: CampaignFolder, places: Places) -> None:
    """Until a run of it comes to its end without an error; the last such run is the item's."""
    items, campaign = folder.read_plan().items, folder.read_plan()
    sealed_run(places, "run-1", broke=True)
    sealed_run(places, "run-2")
    assert [item.name for item in recording.outstanding(folder, items, places)] == ["run-1", "run-3"]

    for day, broke in (("20260102", False), ("20260103", True)):
        sealed_run(places, "run-1", day=day, broke=broke)
    assert [item.name for item in recording.outstanding(folder, items, places)] == ["run-3"]
    found = {item: run.name for item, run in recording.recorded_runs(campaign, places).items()}
    assert found == {"run-1": "20260102-c1-run-1", "run-2": "20260101-c1-run-2"}
    assert len(list(recording.collected_runs(campaign, places))) == 4


@pytest.mark.parametrize(
    ("verdict", "broke", "is_done"),
    [("unknown", True, False), ("fail", True, True), ("unknown", False, True), ("unknown", None, True)],
)
def test_an_archived_run_is_done_unless_the_harness_broke(  # noqa: PLR0917  # of two fixtures and a case
    folder: CampaignFolder,
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    verdict: str,
    broke: bool | None,
    is_done: bool,
) -> None:
    """A promise that it broke counts all the same; of a run whose folder is gone (None) the archive speaks."""
    row = {"run_id": "20260101-c1-run-1", "verdict": verdict, "labels": {"item": "run-1"}}
    monkeypatch.setattr("history.archive.read", lambda *_, **__: [row])
    if broke is not None:
        sealed_run(places, "run-1", broke=broke)
        (places.runs / row["run_id"] / "sealed.json").unlink()

    left = recording.outstanding(folder, folder.read_plan().items, places)
    assert [item.name for item in left] == (["run-2", "run-3"] if is_done else ["run-1", "run-2", "run-3"])
    assert recording.counted([row], places) == ([row] if is_done else [])


def test_items_that_always_break_are_tried_once_a_round(folder: CampaignFolder, places: Places) -> None:
    """Each has its turn, and no more than there were to record."""
    items = folder.read_plan().items
    for turn, wanted in enumerate(["run-1", "run-2", "run-3"]):
        item = recording.next_item(folder, items, places)
        assert item is not None
        assert item.name == wanted
        sealed_run(places, wanted, day=f"2026010{turn}", broke=True)
    assert len(recording.outstanding(folder, items, places)) == 3


@pytest.mark.parametrize("archived", [3, 2])
def test_follow_up_is_asked_once(
    folder: CampaignFolder, places: Places, monkeypatch: pytest.MonkeyPatch, archived: int
) -> None:
    """What the whole plan made necessary stays the same; what a part of it did is asked again with the rest."""
    rows = [{"labels": {"campaign": "c1", "item": f"run-{n}"}} for n in (1, 2, 3)]
    others: list[dict[str, Any]] = [{"labels": {}}, {"labels": {"campaign": "c2", "item": "run-3"}}]
    known = [{"run_id": "r", "verdict": "pass", **row} for row in (*rows[:archived], *others)]
    monkeypatch.setattr(recording.archive, "read", lambda _: known)
    answers = iter([[Item(name="again-1", scenario="steady", kafka="3.9.1")], []])
    monkeypatch.setattr("campaigns.compare.campaign.follow_up", lambda *_: next(answers))

    assert [item.name for item in recording.follow_up(folder, places)] == ["again-1"]
    assert [item.name for item in recording.follow_up(folder, places)] == (["again-1"] if archived == 3 else [])
    assert (folder.path / "follow_up.json").exists() == (archived == 3)
    if archived == 3:
        assert [item.name for item in recording.items_of(folder, places, more=True)] == ["again-1"]
    assert len(recording.items_of(folder, places, more=False)) == 3


# --- recording -------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call on a run notes itself; collecting seals."""
    return note_calls(
        monkeypatch,
        *("start_cluster", "create_topics", "start_clients", "capture", "run_phase", "stop_producers"),
        *("quiesce", "drain", "stop_clients", "collect", "tear_down"),
    )


@pytest.fixture
def prepared(places: Places) -> Path:
    """A prepared run of a scenario with one phase, which needs neither jars nor Docker."""
    run = places.runs / "20260101-prepared"
    (run / "work").mkdir(parents=True)
    (run / "work" / "lease").write_text('{"expires": 0}')
    told: dict[str, Any] = {"kafka_version": "3.9.1", "jars": Path("/jars"), "mode": "kraft", "runtime": "process"}
    told["java"] = Java(home=Path("/java"), version="25.0.4+1", vendor="Debian", released="2026-07-21")
    (run / "work" / "plan.json").write_text(Plan(scenario=load_scenario("steady"), seed=1, **told).model_dump_json())
    return run


def test_a_run_is_recorded_in_the_order_of_its_dag(prepared: Path, calls: list[str]) -> None:
    """Producers stop before the drain, everything is collected before it is torn down."""
    recording.record(prepared)

    assert calls == [
        *("start_cluster", "create_topics", "start_clients", "capture before", "run_phase 0", "stop_producers"),
        *("quiesce", "drain", "capture after", "stop_clients", "collect", "tear_down"),
    ]


def test_a_run_that_breaks_is_collected_and_torn_down(
    prepared: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events say why, so that its verdict becomes unknown; the error passes on."""

    def broken(*_: object) -> None:
        raise HarnessError("No topic.")

    monkeypatch.setattr(experiment, "create_topics", broken)

    with pytest.raises(HarnessError, match=r"No topic\."):
        recording.record(prepared)

    assert calls == ["start_cluster", "stop_clients", "collect", "tear_down"]
    assert errors_of(RunFolder(prepared)) == ["HarnessError: No topic."]


def test_a_run_that_cannot_be_collected_is_torn_down(
    prepared: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it lives on."""

    def broken(*_: object) -> None:
        raise HarnessError("No room.")

    monkeypatch.setattr(experiment, "collect", broken)

    with pytest.raises(HarnessError, match=r"No room\."):
        recording.record(prepared)
    assert calls[-1] == "tear_down"


def test_an_item_carries_its_labels_into_the_run(
    folder: CampaignFolder, places: Places, prepared: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign and the item are added to the plan's own."""
    asked: dict[str, Any] = {}

    def prepare(scenario: str, **settings: Any) -> Path:
        asked.update(settings, scenario=scenario)
        return prepared

    monkeypatch.setattr(experiment, "prepare", prepare)

    assert recording.record_item(folder, folder.read_plan().items[0], places) == prepared
    assert asked["labels"] == {"role": "base", "campaign": "c1", "item": "run-1"}
    assert asked["runs"] == places.runs
    assert calls[-1] == "tear_down"


def test_events_of_a_run_stay_as_they_are(prepared: Path, calls: list[str]) -> None:
    """A run without trouble has no error among its events."""
    EventLog(RunFolder(prepared).events).add("run_started")
    recording.record(prepared)

    assert errors_of(RunFolder(prepared)) == []
    assert calls
