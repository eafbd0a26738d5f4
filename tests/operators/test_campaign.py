"""The steps of a campaign, run by ``execute`` with the campaign's calls patched."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from campaigns import recording, runner
from campaigns.campaign import Campaign, CampaignFolder, Item
from clusters.run import experiment
from history.errors import BadInput, HarnessError
from history.results.base import State, Summary
from operators.campaign import Conclude, CountItems, JudgeItems, PlanCampaign, RecordItem

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
    return {"params": asked, "dag": SimpleNamespace(dag_id="compare", params=asked)}


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


def test_a_task_for_each_item_that_is_left(folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task is mapped for each outstanding item of the plan or of its follow-up."""
    monkeypatch.setattr(recording, "follow_up", lambda *_: [])

    assert CountItems(task_id="i", campaign=str(folder.path)).execute({}) == [0, 1]
    assert CountItems(task_id="i", campaign=str(folder.path), follow_up=True).execute({}) == []


def test_a_rate_that_was_found_out_later_may_ask_for_more_than_the_disk_has(
    folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Follow-up runs that do not fit on the disk are rejected before the first of them."""
    changes = {"load": {"rate": "99000/s", "record_bytes": 1000}}
    fast = Item(name="fast", scenario="steady", kafka="3.9.1", changes=changes)
    monkeypatch.setattr(recording, "follow_up", lambda *_: [fast])
    count = CountItems(task_id="i", campaign=str(folder.path), follow_up=True)

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(BadInput, match=r"Runs of c1 to record: 1. They would keep \d+ GB .*, where 1 GB are"):
        count.execute({})

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**12))
    assert count.execute({}) == [0]


def test_runs_keep_their_order_whatever_airflow_starts_first(
    folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapped tasks record items in the plan's order, whichever task starts first; a surplus task does nothing."""
    recorded: list[str] = []

    def record_item(_folder: CampaignFolder, item: Item, _places: object) -> Path:
        recorded.append(item.name)
        return Path("/runs") / item.name

    monkeypatch.setattr(recording, "record_item", record_item)
    monkeypatch.setattr(
        recording, "outstanding", lambda _folder, items, _places: [item for item in items if item.name not in recorded]
    )
    context: Any = {}

    made = [RecordItem(task_id="r", campaign=str(folder.path), number=n).execute(context) for n in (1, 0, 2)]

    assert made == ["/runs/one", "/runs/two", None]
    assert recorded == ["one", "two"]
    assert context["item"] == "nothing left"  # its template is rendered all the same


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
            step.execute({})
    else:
        assert step.execute({}) == str(folder.page)


def test_without_a_plan_there_is_nothing_to_do() -> None:
    """Without a plan, later steps are skipped."""
    with pytest.raises(AirflowSkipException, match="no campaign was planned"):
        JudgeItems(task_id="judge", campaign=None).execute({})


def test_a_step_that_is_told_to_stop_ends_its_call(folder: CampaignFolder) -> None:
    """``on_kill`` raises an error, so that the run is collected and torn down."""
    with pytest.raises(HarnessError, match="judge was stopped"):
        JudgeItems(task_id="judge", campaign=str(folder.path)).on_kill()
