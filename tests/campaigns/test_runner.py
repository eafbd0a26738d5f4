"""A campaign's steps, with recording and judging patched: what is done stays done, and nothing is done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaigns import runner
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.claims import campaign as claims
from campaigns.site import Places
from clusters import experiment
from history.errors import BadInput, HarnessError
from history.events import EventLog, errors_of
from history.folder import RunFolder
from tests.reports.sample_run import write_sample_run

SETTINGS = {"base": "3.9.0", "head": "3.9.1", "scenarios": ["steady"], "pairs": 2, "aa_pairs": 2}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Folders of their own."""
    return Places.beside(tmp_path / "runs")


@pytest.fixture
def folder(places: Places) -> CampaignFolder:
    """A campaign of three runs."""
    items = [Item(name=f"run-{n}", scenario="steady", kafka="3.9.1", labels={"role": "base"}) for n in (1, 2, 3)]
    made = CampaignFolder.of(places.site, "compare", "c1")
    made.write_plan(
        Campaign(campaign_id="c1", kind="compare", created_at="2026-01-01", seed=1, settings={}, items=items)
    )
    return made


def _recorded(places: Places, item: str, campaign: str = "c1") -> RunFolder:
    run = RunFolder(write_sample_run(places.runs / f"20260101-{campaign}-{item}"))
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"labels": {"campaign": campaign, "item": item}}))
    run.seal()
    return run


# --- the plan --------------------------------------------------------------------------------------


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Checks, which fetch jars and images, only note themselves: (scenario, version, runtime)."""
    made: list[tuple[str, str, str]] = []

    def check(scenario: str, *, kafka: str, runtime: str, changes: object) -> None:
        assert changes is not None
        made.append((scenario, kafka, runtime))
        if kafka == "9.9.9":
            raise BadInput("There is no Kafka 9.9.9.")

    monkeypatch.setattr(experiment, "check", check)
    return made


def test_what_no_run_can_have_is_refused_before_the_first(places: Places, checked: list[tuple[str, str, str]]) -> None:
    """Each side is checked once and nothing is written; a name that is no folder's is refused as well."""
    with pytest.raises(BadInput, match=r"There is no Kafka 9\.9\.9"):
        runner.plan("compare", SETTINGS | {"head": "9.9.9"}, name="c", seed=1, places=places)
    with pytest.raises(BadInput, match="NAME=a/b is no name of a folder"):
        runner.plan("compare", SETTINGS, name="a/b", seed=1, places=places)

    assert sorted(set(checked)) == [("steady", "3.9.0", "docker"), ("steady", "9.9.9", "docker")]
    assert not places.site.exists()


@pytest.mark.usefixtures("checked")
def test_a_campaign_of_the_same_name_and_question_goes_on(places: Places) -> None:
    """Its plan keeps the day of its first; another question under the same name is refused."""
    first = runner.plan("compare", SETTINGS, name="c", seed=1, places=places)
    planned = first.read_plan()

    assert runner.plan("compare", SETTINGS, name="c", seed=None, places=places).read_plan() == planned
    with pytest.raises(BadInput, match="holds another plan"):
        runner.plan("compare", SETTINGS | {"pairs": 3}, name="c", seed=1, places=places)


def test_what_was_recorded_is_not_outstanding(folder: CampaignFolder, places: Places) -> None:
    """A sealed run of this campaign is done; one that broke off, and another campaign's, are not."""
    _recorded(places, "run-1")
    (_recorded(places, "run-2").path / "sealed.json").unlink()
    _recorded(places, "run-3", campaign="c2")
    items = runner.items_of(folder, places, more=False)

    assert [item.name for item in runner.outstanding(folder, items, places)] == ["run-2", "run-3"]


def test_an_item_that_broke_comes_last(folder: CampaignFolder, places: Places) -> None:
    """It keeps nobody else from being recorded, and is tried again when the others are done."""
    items = folder.read_plan().items
    turns = [runner.next_item(folder, items, places) for _ in items]
    _recorded(places, "run-2")
    _recorded(places, "run-3")

    assert [item.name for item in turns if item] == ["run-1", "run-2", "run-3"]
    again = runner.next_item(folder, items, places)
    assert again is not None
    assert again.name == "run-1"
    _recorded(places, "run-1")
    assert runner.next_item(folder, items, places) is None


def test_follow_up_is_asked_once(folder: CampaignFolder, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs that the first results made necessary stay the same when the campaign is taken up again."""
    answers = iter([[Item(name="again-1", scenario="steady", kafka="3.9.1")], []])
    monkeypatch.setattr("campaigns.compare.campaign.follow_up", lambda *_: next(answers))

    assert [item.name for item in runner.follow_up(folder, places)] == ["again-1"]
    assert [item.name for item in runner.follow_up(folder, places)] == ["again-1"]
    assert [item.name for item in runner.items_of(folder, places, more=True)] == ["again-1"]
    assert len(runner.items_of(folder, places, more=False)) == 3


# --- recording -------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call on a run notes itself; collecting seals."""
    made: list[str] = []

    def replace(name: str) -> None:
        def call(run: Path, *arguments: object) -> None:
            made.append(" ".join([name, *map(str, arguments)]))
            if name == "collect":
                RunFolder(run).seal()

        monkeypatch.setattr(experiment, name, call)

    for name in (
        *("start_cluster", "create_topics", "start_clients", "capture", "run_phase", "stop_producers"),
        *("quiesce", "drain", "stop_clients", "collect", "tear_down"),
    ):
        replace(name)
    return made


@pytest.fixture
def prepared(places: Places) -> Path:
    """A prepared run of a scenario with one phase, which needs neither jars nor Docker."""
    run = places.runs / "20260101-prepared"
    (run / "work").mkdir(parents=True)
    (run / "work" / "lease").write_text('{"expires": 0}')
    from clusters.scenario import load_scenario
    from clusters.world import Plan

    told: dict[str, Any] = {"kafka_version": "3.9.1", "jars": Path("/jars"), "mode": "kraft", "runtime": "process"}
    (run / "work" / "plan.json").write_text(Plan(scenario=load_scenario("steady"), seed=1, **told).model_dump_json())
    return run


def test_a_run_is_recorded_in_the_order_of_its_dag(prepared: Path, calls: list[str]) -> None:
    """Producers stop before the drain, everything is collected before it is torn down."""
    runner.record(prepared)

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
        runner.record(prepared)

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
        runner.record(prepared)
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

    assert runner.record_item(folder, folder.read_plan().items[0], places) == prepared
    assert asked["labels"] == {"role": "base", "campaign": "c1", "item": "run-1"}
    assert asked["runs"] == places.runs
    assert calls[-1] == "tear_down"


# --- judging ---------------------------------------------------------------------------------------


def test_runs_are_judged_once_and_some_together(
    folder: CampaignFolder, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One Spark application judges several; what is archived is not judged again."""
    together: list[list[str]] = []
    monkeypatch.setattr(runner, "TOGETHER", 2)
    monkeypatch.setattr(runner, "judge", lambda runs: together.append([run.name for run in runs]))
    monkeypatch.setattr(runner, "publish", lambda _: None)
    for item in ("run-1", "run-2", "run-3"):
        _recorded(places, item)

    assert len(runner.judge_recorded(folder, places)) == 3
    assert together == [["20260101-c1-run-1", "20260101-c1-run-2"], ["20260101-c1-run-3"]]

    monkeypatch.setattr("history.archive.read", lambda *_, **__: [{"run_id": "20260101-c1-run-1"}])
    assert runner.judge_recorded(folder, places) == ["20260101-c1-run-2", "20260101-c1-run-3"]


def test_events_of_a_run_stay_as_they_are(prepared: Path, calls: list[str]) -> None:
    """A run without trouble has no error among its events."""
    EventLog(RunFolder(prepared).events).add("run_started")
    runner.record(prepared)

    assert errors_of(RunFolder(prepared)) == []
    assert calls


def test_claims_are_answered_from_what_was_recorded(places: Places) -> None:
    """The archive holds none of it; what was not recorded is named, and the page is written all the same."""
    settings = {"kafka": "3.9.1", "experiments": ["eviction", "elections"]}
    campaign = claims.plan(settings, campaign_id="c1", created_at="2026-11-21T08:00:00+00:00", seed=1)
    folder = CampaignFolder.of(places.site, "claims", "c1")
    folder.write_plan(campaign)
    run = _recorded(places, "eviction")
    found = runner.conclude(folder, places)

    assert found["runs"] == {"eviction": run.run_id}
    assert found["sentence"].endswith("Not recorded: elections.")
    assert json.loads(folder.result.read_text())["answers"]["C14"]["run_id"] == run.run_id
    assert "C48" in folder.page.read_text()
