"""The rounds of a campaign: what is recorded next, and when it ends."""

import functools
from pathlib import Path
from typing import Any

import pytest

from campaigns import rounds
from campaigns.campaign import CampaignFolder, Item
from campaigns.places import Places
from history.errors import HarnessError
from history.events import read_events, stage_events
from tests.campaigns.sample_runs import sealed_run

AGAIN = Item(name="again-1", scenario="steady", kafka="3.9.1")


def names(items: list[Item]) -> list[str]:
    """Return the items' names."""
    return [item.name for item in items]


def tries(folder: CampaignFolder, *items: str) -> None:
    """Note a try of each item."""
    for item in map(functools.partial(rounds.item_of, folder), items):
        rounds.begin_item(folder, item)
        rounds.end_item(folder, item)


def test_an_item_that_broke_is_tried_again_by_the_next_command(folder: CampaignFolder, places: Places) -> None:
    """Within a command each item is tried once; the next command tries those that broke last."""
    rounds.begin(folder)
    assert names(rounds.pending(folder, places)) == ["run-1", "run-2", "run-3"]
    tries(folder, "run-1", "run-2")
    sealed_run(places, "run-1", broke=True)
    sealed_run(places, "run-2")
    assert names(rounds.pending(folder, places)) == ["run-3"]

    rounds.begin(folder)
    assert names(rounds.pending(folder, places)) == ["run-3", "run-1"]


@pytest.fixture
def archived(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The archive's rows, to be filled."""
    rows: list[dict[str, Any]] = []
    monkeypatch.setattr("history.archive.read", lambda *_, **__: rows)
    return rows


def row(item: str) -> dict[str, Any]:
    """Return an archive row of a passed run."""
    labels = {"campaign": "c1", "item": item}
    return {"run_id": item, "started_at": "", "verdict": "pass", "labels": labels}


@pytest.mark.parametrize("done", [3, 2])
def test_a_follow_up_of_the_whole_plan_is_decided_once(
    folder: CampaignFolder, places: Places, archived: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """That of an incomplete plan is recorded too, and decided anew by the next command."""
    archived += [row(f"run-{n}") for n in range(1, done + 1)]
    tries(folder, "run-1", "run-2", "run-3")
    answers = iter([[AGAIN], []])
    monkeypatch.setattr("campaigns.compare.campaign.follow_up", lambda *_: next(answers))

    assert names(rounds.decide(folder, places)) == ["again-1"]
    assert rounds.item_of(folder, "again-1") == AGAIN
    assert "again-1" in names(rounds.pending(folder, places))
    tries(folder, "again-1")
    assert rounds.decide(folder, places) == []  # no follow-up of a follow-up

    rounds.begin(folder)
    tries(folder, "run-1", "run-2", "run-3", "again-1")
    assert ("again-1" in names(rounds.decided(folder))) == (done == 3)
    assert rounds.decide(folder, places) == []
    assert (next(answers, None) is None) == (done == 2)


def test_a_search_goes_on_until_nothing_follows(
    places: Places, folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round has the items that the search asks for; an empty one is not stored, so that it can be resumed."""

    class Search:
        answers = iter([[AGAIN], [AGAIN.model_copy(update={"name": "again-2"})], []])

        @classmethod
        def next_items(cls, _folder: CampaignFolder, _places: Places) -> list[Item]:
            return next(cls.answers)

    monkeypatch.setattr("campaigns.kinds.Kind.search", Search)
    found = []
    for tried in (["run-1", "run-2", "run-3"], ["again-1"], ["again-2"]):
        tries(folder, *tried)
        found.append(names(rounds.decide(folder, places)))

    assert found == [["again-1"], ["again-2"], []]
    assert names(rounds.decided(folder)) == ["run-1", "run-2", "run-3", "again-1", "again-2"]


def test_what_a_search_passes_over_is_known_to_its_command(folder: CampaignFolder, tmp_path: Path) -> None:
    """The next command tries it again; other decisions pass over nothing."""
    rounds.begin(folder)
    rounds.say(folder, "4.0.0 is passed over: it was not made", "4")
    rounds.say(folder, "3.9.1: try 2")
    assert rounds.passed_over(folder) == {"4"}

    rounds.begin(folder)
    assert rounds.passed_over(folder) == set()
    assert rounds.passed_over(CampaignFolder(tmp_path / "new")) == set()


def test_a_round_that_was_not_recorded_decides_nothing(
    folder: CampaignFolder, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If items could not be listed, such as on a full disk, no other round follows, which could not either."""
    monkeypatch.setattr("campaigns.compare.campaign.follow_up", lambda *_: [AGAIN])
    tries(folder, "run-1", "run-2")
    assert rounds.decide(folder, places) == []

    tries(folder, "run-3")
    assert rounds.decide(folder, places) == [AGAIN]


def test_progress_is_what_the_stages_recorded(folder: CampaignFolder) -> None:
    """Items count by their last try; the campaign is in progress until its result was written, or a stage failed."""
    rounds.begin(folder)
    tries(folder, "run-1", "run-2")
    broken, started = rounds.item_of(folder, "run-2"), rounds.item_of(folder, "run-3")
    rounds.begin_item(folder, broken)
    rounds.end_item(folder, broken, "no broker starts")
    rounds.begin_item(folder, started)
    now = rounds.progress(folder)
    assert (now.state, dict(now.items), now.round) == ("in_progress", {"recorded": 1, "failed": 1, "recording": 1}, 1)
    assert (now.last.kind, now.last.target) == ("stage_started", "run-3")

    states = []
    for stage in ("judge", "conclude"):
        with stage_events(folder.stages, stage):
            states.append(rounds.progress(folder).state)
        states.append(rounds.progress(folder).state)
    rounds.begin(folder)
    states.append(rounds.progress(folder).state)
    with pytest.raises(HarnessError), stage_events(folder.stages, "judge"):
        raise HarnessError("no memory")
    states.append(rounds.progress(folder).state)
    assert states == ["in_progress", "in_progress", "in_progress", "concluded", "in_progress", "failed"]


# --- an item's DAG run -----------------------------------------------------------------------------


def test_a_try_has_the_events_of_a_stage(folder: CampaignFolder, tmp_path: Path) -> None:
    """A try has the events of a stage around the item's recording, with the reason if it failed; it ends later."""
    first, second, _ = folder.read_plan().items
    with stage_events(tmp_path / "stages.jsonl", rounds.RECORD, "run-1"):
        pass
    with pytest.raises(HarnessError), stage_events(tmp_path / "stages.jsonl", rounds.RECORD, "run-2"):
        raise HarnessError("no broker starts")

    rounds.begin_item(folder, first)
    rounds.end_item(folder, first)
    rounds.begin_item(folder, second)
    assert rounds.tried_names(folder) == ["run-1", "run-2"]
    rounds.end_item(folder, second, "no broker starts")

    def written(file: Path) -> list[tuple[object, ...]]:
        return [(event.kind, event.step, event.target, event.detail.get("state")) for event in read_events(file)]

    assert written(folder.stages) == written(tmp_path / "stages.jsonl")
    *_, end = read_events(folder.stages)
    assert end.detail["why"] == "no broker starts"


def test_the_runs_of_a_campaign_have_its_name() -> None:
    """An item's tries have ids of their own, which begin like those of its campaign, not like those of another."""
    mine, other = CampaignFolder(Path("/mine/c1")), CampaignFolder(Path("/other/c1"))

    assert rounds.item_run_id(mine, "run-1", 2).partition(":")[2] == "run-1:2"
    assert rounds.item_run_id(mine, "run-1", 2).startswith(rounds.item_run_id(mine))
    assert not rounds.item_run_id(other, "run-1", 2).startswith(rounds.item_run_id(mine))
    assert rounds.item_run_id(mine).startswith("c1-")
