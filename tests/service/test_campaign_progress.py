"""Progress lines from the events of a campaign's stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns import rounds
from campaigns.campaign import CampaignFolder, Item
from history.errors import HarnessError
from history.events import EventLog, stage_events
from history.folder import RunFolder
from service.campaign_progress import CampaignProgress

ITEMS = [
    Item(name=f"pair-1-{side}", scenario="steady", kafka=kafka) for side, kafka in (("a", "3.9.0"), ("b", "3.9.1"))
]


def following(folder: CampaignFolder, said: list[str]) -> CampaignProgress:
    """Follow a campaign of two runs of one minute each."""
    return CampaignProgress(
        folder, folder.path, said.append, {item.name: item for item in ITEMS}.__getitem__, lambda _: 60.0
    )


def stage(folder: CampaignFolder, name: str, item: str = "") -> None:
    """Record a stage's begin and end."""
    with stage_events(folder.stages, name, item):
        pass


def test_each_run_and_how_long_the_rest_takes(tmp_path: Path) -> None:
    """Each run has a line with place, name, version and remaining time; judging, waiting and concluding have one each.

    What a search decided is shown; other stages have no line, and stages of an earlier command are not repeated.
    """
    folder, said = CampaignFolder(tmp_path), []
    stage(folder, "conclude")
    progress = following(folder, said)
    rounds.begin_round(folder, ITEMS)
    for item in ITEMS:
        stage(folder, "record", item.name)
    folder.say_waiting("waiting until this host's benchmark has ended")
    with stage_events(folder.stages, "judge"):
        EventLog(folder.stages).add("judging", runs=["run-a", "run-b"])
        progress.look()
        for run in ("run-a", "run-b"):
            RunFolder(tmp_path / run).verdict.mkdir(parents=True)
            RunFolder(tmp_path / run).verdict_file.touch()
            progress.look()
    rounds.say(folder, "3.9.1: try 2")
    stage(folder, "conclude")
    progress.look()

    assert [line[8:].rstrip() for line in said] == [
        "run 1 of 2: pair-1-a, steady on Kafka 3.9.0 … (all recorded in about 2.0 min)",
        "run 2 of 2: pair-1-b, steady on Kafka 3.9.1 … (all recorded in about 1 s)",
        "  waiting until this host's benchmark has ended",
        "judging the recordings in Spark …",
        "  judged 1 of 2",
        "  judged 2 of 2",
        "  3.9.1: try 2",
        "writing the result and its page …",
    ]
    assert progress.running == ""


@pytest.mark.parametrize(
    ("labels", "shown"),
    [({}, "jars/own-4f"), ({"build": "4f2a9c"}, "4f2a9c"), ({"subject": "trunk", "build": "4.5.0 (4f2a9c)"}, "trunk")],
)
def test_a_build_that_was_made_goes_by_its_name(labels: dict[str, str], shown: str, tmp_path: Path) -> None:
    """A run's line shows the build's name instead of the folder of its jars."""
    folder, said = CampaignFolder(tmp_path), list[str]()
    item = Item(name="build-1", scenario="steady", kafka="jars/own-4f", labels=labels)
    progress = CampaignProgress(folder, folder.path, said.append, lambda _: item, lambda _: 60.0)
    rounds.begin_round(folder, [item])
    stage(folder, "record", "build-1")
    progress.look()

    assert f"steady on Kafka {shown} …" in said[0]


def test_a_run_at_hand_is_known(tmp_path: Path) -> None:
    """The current run is known, since Airflow is asked less often meanwhile."""
    folder = CampaignFolder(tmp_path)
    progress = following(folder, [])
    rounds.begin_round(folder, ITEMS)
    with stage_events(folder.stages, "record", "pair-1-a"):
        progress.look()

    assert progress.running == "pair-1-a"


def test_runs_at_once_are_shown_together(tmp_path: Path) -> None:
    """Each run has its line at once; the remaining time follows from those that ended; another try is said."""
    folder, said = CampaignFolder(tmp_path), []
    progress = following(folder, said)
    rounds.begin_round(folder, ITEMS)
    for item in ITEMS:
        rounds.begin_item(folder, item)
    progress.look()
    assert progress.running == "pair-1-a, pair-1-b"

    rounds.end_item(folder, ITEMS[1], "no broker")
    rounds.begin_item(folder, ITEMS[1])
    progress.look()
    rounds.end_item(folder, ITEMS[0])
    rounds.end_item(folder, ITEMS[1])
    progress.look()
    assert [line[8:].rstrip() for line in said] == [
        "run 1 of 2: pair-1-a, steady on Kafka 3.9.0 … (all recorded in about 2.0 min)",
        "run 2 of 2: pair-1-b, steady on Kafka 3.9.1 …",
        "  ERROR: pair-1-b, no broker",
        "run 2 of 2: once more, pair-1-b, steady on Kafka 3.9.1 …",
        "  pair-1-a ended, 1 of 2; all in about 1 s",
    ]
    assert progress.running == ""


def test_a_run_that_broke_is_told_with_its_reason(tmp_path: Path) -> None:
    """A failed run is reported with its reason, and the campaign continues."""
    folder, said = CampaignFolder(tmp_path), []
    progress = following(folder, said)
    rounds.begin_round(folder, ITEMS)
    with pytest.raises(HarnessError), stage_events(folder.stages, "record", "pair-1-a"):
        raise HarnessError("no broker")
    progress.look()

    assert said[-1][8:] == "  ERROR: pair-1-a, HarnessError: no broker\n"


def test_what_a_run_asks_of_a_clusters_owner_is_shown(tmp_path: Path) -> None:
    """Each request is shown once, and only those of new runs; plans without such clusters have no requests."""
    item = Item(name="upgrade", scenario="steady", cluster="/c/staging.yaml")
    for items, lines in (([item], 1), (ITEMS, 0)):
        folder, said = CampaignFolder(tmp_path / str(lines)), list[str]()
        folder.path.mkdir()
        runs = folder.path / "runs"
        _ask(runs / "old")
        progress = CampaignProgress(folder, runs, said.append, {each.name: each for each in items}.__getitem__, _minute)
        rounds.begin_round(folder, items)
        progress.look()
        _ask(runs / "new")
        progress.look()
        progress.look()
        assert [line.strip()[8:] for line in said if "YOUR TURN" in line] == [
            "  YOUR TURN: upgrade the brokers"
        ] * lines


def _ask(run: Path) -> None:
    run.mkdir(parents=True)
    EventLog(RunFolder(run).events).add("owner_asked", why="upgrade the brokers")


def _minute(_: Item) -> float:
    return 60.0
