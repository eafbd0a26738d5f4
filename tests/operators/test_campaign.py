"""The steps of a campaign, run by ``execute`` with the campaign's calls patched."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DagRunTriggerException

from campaigns import recording, rounds, runner
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.places import Places
from clusters.run import experiment
from history.errors import BadInput, HarnessError
from history.results.base import State, Summary
from operators.campaign import NEXT, Conclude, JudgeItems, ListItems, NextRound, PlanCampaign, RecordItem, places

RUN = "manual__2026"
ITEMS = [Item(name=name, scenario="steady", kafka="3.9.1") for name in ("one", "two")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CampaignFolder:
    """A planned comparison of two runs."""
    monkeypatch.setenv("PLIMSOLL_RUNS", str(tmp_path / "runs"))
    made = CampaignFolder.of(tmp_path / "site", "compare", "c1")
    made.write_plan(
        Campaign(campaign_id="c1", kind="compare", created_at="2026-01-01", seed=1, settings={}, items=ITEMS)
    )
    return made


def context(**asked: Any) -> Any:
    """Return Airflow's context for a run of a campaign's DAG with these parameters."""
    begun = SimpleNamespace(run_after=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    return {"params": asked, "dag": SimpleNamespace(dag_id="compare", params=asked), "dag_run": begun}


def test_a_campaign_that_is_planned_already_is_taken_up(folder: CampaignFolder) -> None:
    """Only the DAG of a campaign's kind continues a planned campaign."""
    params = context(campaign=str(folder.path))

    assert PlanCampaign(task_id="plan", kind="compare").execute(params) == str(folder.path)  # type: ignore[arg-type]  # a context's part
    with pytest.raises(BadInput, match="not a campaign of kind capacity"):
        PlanCampaign(task_id="plan", kind="capacity").execute(params)


def test_a_parameter_that_there_is_not_is_refused() -> None:
    """An unknown parameter is rejected, since a misspelt one would start the whole campaign."""
    asked = context(**{"pairs": 2, "try": 1})
    asked["dag"].params = {"pairs": 2, "campaign": None}
    with pytest.raises(BadInput, match="has no parameter 'try'; known: pairs, campaign"):
        PlanCampaign(task_id="plan", kind="compare").execute(asked)


def test_a_question_becomes_a_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters become a campaign with name, seed and settings; the step returns the folder's path."""
    monkeypatch.setenv("PLIMSOLL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(experiment, "check", lambda *_, **__: None)  # it fetches jars and images
    asked = {"base": "3.9.0", "head": "3.9.1", "scenario": "steady", "pairs": 2, "settings": {}, "name": "c", "seed": 7}
    path = PlanCampaign(task_id="plan", kind="compare").execute(context(**asked))

    assert path == str(tmp_path / "site" / "compare" / "c")
    assert CampaignFolder(Path(path)).read_plan().seed == 7


def test_a_cleared_plan_is_the_same_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name, a campaign has the time of its DAG run, and its seed stays."""
    monkeypatch.setenv("PLIMSOLL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(experiment, "check", lambda *_, **__: None)
    asked = {"base": "3.9.0", "head": "3.9.1", "scenario": "steady", "pairs": 2, "settings": {}}
    paths = [PlanCampaign(task_id="plan", kind="compare").execute(context(**asked)) for _ in range(2)]

    assert paths == [str(tmp_path / "site" / "compare" / "20260102-030405")] * 2


def test_the_items_that_are_left_are_listed(folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that do not fit on the disk are rejected before the first of them."""
    changes = {"load": {"rate": "99000/s", "record_bytes": 1000}}
    fast = Item(name="fast", scenario="steady", kafka="3.9.1", changes=changes)
    items = ListItems(task_id="items", campaign=str(folder.path))
    assert items.execute(context()) == ["one", "two"]

    monkeypatch.setattr(rounds, "pending", lambda *_: [fast])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(BadInput, match=r"Runs of c1 to record: 1. They would keep \d+ GB .*, where 1 GB are"):
        items.execute(context())

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**12))
    assert items.execute(context()) == ["fast"]


def test_an_item_is_recorded_unless_it_has_its_run(folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleared task of a recorded item does nothing; its name is shown all the same."""
    recorded: list[str] = []

    def record_item(_folder: CampaignFolder, item: Item, _places: object) -> Path:
        recorded.append(item.name)
        return Path("/runs") / item.name

    monkeypatch.setattr(recording, "record_item", record_item)
    monkeypatch.setattr(rounds, "outstanding", lambda _folder, items, _places: items if not recorded else [])
    in_airflow = context()
    record = RecordItem(task_id="record", campaign=str(folder.path), item="two")

    assert [record.execute(in_airflow), record.execute(in_airflow)] == ["/runs/two", None]
    assert (recorded, in_airflow["item"], rounds.tried_names(folder)) == (["two"], "two", ["two"])


def ending(number: int = 1, **states: str) -> Any:
    """Return the context of a round whose tasks have these states."""
    dag = SimpleNamespace(dag_id="compare", params={"round": 1, "runs": None})
    tasks = SimpleNamespace(get_task_states=lambda **_: {RUN: states})
    run_id = RUN if number == 1 else f"{RUN}_round_{number}"
    return {"params": {"round": number, "runs": None}, "dag": dag, "run_id": run_id, "ti": tasks}


@pytest.mark.parametrize("number", [1, 2])
def test_runs_that_became_necessary_are_another_round(
    folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The same DAG is triggered for the same campaign; its run's name has the number of the round."""
    monkeypatch.setattr(rounds, "decide", lambda *_: ITEMS)
    step = NextRound(task_id=NEXT, campaign=str(folder.path))
    with pytest.raises(DagRunTriggerException) as asked:
        step.execute(ending(number))

    assert (asked.value.trigger_dag_id, asked.value.dag_run_id) == ("compare", f"{RUN}_round_{number + 1}")
    assert asked.value.conf == {"campaign": str(folder.path), "round": number + 1, "runs": None}


def test_without_more_runs_there_is_no_other_round(folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is skipped, and the result is written; it is not while another round follows."""
    monkeypatch.setattr(rounds, "decide", lambda *_: [])
    with pytest.raises(AirflowSkipException, match="no more runs"):
        NextRound(task_id=NEXT, campaign=str(folder.path)).execute(ending())

    with pytest.raises(AirflowSkipException, match="Another round follows"):
        Conclude(task_id="conclude", campaign=str(folder.path)).execute(ending(**{NEXT: "success"}))


@pytest.mark.parametrize("state", ["pass", "unknown", "", "fail"])
def test_a_failed_result_is_red_and_written_all_the_same(
    folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    """A failed result fails the task with the sentence, and is written; an unknown one does not fail it."""
    result = Summary(campaign_id="c1", created_at="", state=state, sentence="3.9.1 loses records.")
    monkeypatch.setattr(runner, "conclude", lambda *_: result)
    step = Conclude(task_id="conclude", campaign=str(folder.path))

    if state == "fail":
        with pytest.raises(AirflowFailException, match=r"3\.9\.1 loses records"):
            step.execute(ending(**{NEXT: "skipped"}))
    else:
        assert step.execute(ending(**{NEXT: "skipped"})) == str(folder.page)


def test_without_a_plan_there_is_nothing_to_do() -> None:
    """Without a plan, later steps are skipped."""
    with pytest.raises(AirflowSkipException, match="no campaign was planned"):
        JudgeItems(task_id="judge", campaign=None).execute(context())


def test_a_step_that_is_told_to_stop_ends_its_call(folder: CampaignFolder) -> None:
    """``on_kill`` raises an error, so that the run is collected and torn down."""
    with pytest.raises(HarnessError, match="judge was stopped"):
        JudgeItems(task_id="judge", campaign=str(folder.path)).on_kill()


def test_a_dag_run_names_its_folder_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archive and pages are next to the folder of runs, which the parameter names, else Airflow's environment."""
    monkeypatch.setenv("PLIMSOLL_RUNS", "/mine/runs")

    assert places(context(runs="/yours/runs")) == Places.beside(Path("/yours/runs"))
    assert places(context(runs=None)) == places(context()) == Places.beside(Path("/mine/runs"))
