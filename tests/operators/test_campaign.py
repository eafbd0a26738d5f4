"""The steps of a campaign, run by ``execute`` with the campaign's calls patched."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DagRunTriggerException, TaskDeferred

from campaigns import rounds, runner
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.places import Places
from clusters.run import experiment
from clusters.scenario.scenario import file_of
from history.errors import BadInput, HarnessError
from history.events import EventLog, read_events
from history.folder import RunFolder
from history.results.base import State, Summary
from operators.assets import CAMPAIGNS
from operators.campaign import (
    NEXT,
    Conclude,
    JudgeItems,
    ListItems,
    NextRound,
    PlanCampaign,
    RecordItem,
    places,
    request,
)

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


def test_runs_beside_which_others_may_run_come_first(folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a mixed kind the first list has only the items with ``at_once``, and the second the rest."""
    plain = [Item(name=name, scenario="steady", kafka="3.9.1", at_once=name == "two") for name in ("one", "two")]
    monkeypatch.setattr(rounds, "pending", lambda *_: plain)

    first = ListItems(task_id="items_at_once", campaign=str(folder.path), at_once_only=True)
    assert first.execute(context()) == ["two"]


def recording_of(item: str, **runs: str) -> tuple[RecordItem, Any]:
    """Return an item's task, and the context of an Airflow with DAG runs in these states."""
    task = SimpleNamespace(
        get_dr_count=lambda _dag_id, run_ids: sum(each.partition(":")[2] in runs for each in run_ids),
        get_dagrun_state=lambda _dag_id, run_id: runs[run_id.partition(":")[2]],
        get_dag=lambda _dag_id: SimpleNamespace(is_paused=False),
        xcom_pull=lambda **_: None,
        try_number=1,
        max_tries=3,
    )
    return RecordItem(task_id="record", campaign="", item=item, at_once="", retries=3), context() | {"ti": task}


def test_an_item_is_a_dag_run_of_its_scenario(folder: CampaignFolder) -> None:
    """The scenario's DAG is triggered and waited for; the campaign judges its runs together."""
    record, in_airflow = recording_of("two")
    record.campaign = str(folder.path)
    with pytest.raises(DagRunTriggerException) as asked:
        record.execute(in_airflow)

    triggered = asked.value
    assert (triggered.trigger_dag_id, triggered.dag_run_id) == ("steady", rounds.item_run_id(folder, "two", 1))
    assert (triggered.wait_for_completion, triggered.deferrable) == (True, True)
    assert triggered.conf["labels"] == {"campaign": "c1", "item": "two"}
    assert (triggered.conf["kafka"], triggered.conf["judge"], triggered.conf["at_once"]) == ("3.9.1", False, None)
    assert "scenario" not in triggered.conf
    assert (in_airflow["item"], rounds.tried_names(folder)) == ("two", ["two"])


def test_a_scenario_without_a_dag_is_given_whole(folder: CampaignFolder, tmp_path: Path) -> None:
    """The DAG ``any_scenario`` gets the file's content, and a number of runs at once."""
    content = yaml.safe_load(file_of("steady").read_text()) | {"name": "mine"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    item = Item(name="own", scenario=str(tmp_path / "mine.yaml"), kafka="3.9.1")
    dag_id, conf = request(item, folder.read_plan(), Places.beside(tmp_path), "3")

    assert (dag_id, conf["scenario"], conf["at_once"]) == ("any_scenario", content, 3)


def test_an_item_on_a_cluster_of_others_names_it(folder: CampaignFolder, tmp_path: Path) -> None:
    """It has no version and no runtime."""
    item = Item(name="own", scenario="steady", cluster="staging")
    _, conf = request(item, folder.read_plan(), Places.beside(tmp_path), "")

    assert conf["cluster"] == "staging"
    assert not {"kafka", "runtime"} & conf.keys()


def test_an_item_with_its_run_is_not_recorded_again(folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleared task of a recorded item does nothing; its name is shown all the same."""
    monkeypatch.setattr(rounds, "outstanding", lambda *_: [])
    record, in_airflow = recording_of("two")
    record.campaign = str(folder.path)

    assert record.execute(in_airflow) is None  # type: ignore[func-returns-value]  # that is tested
    assert (in_airflow["item"], rounds.tried_names(folder)) == ("two", [])


@pytest.mark.parametrize("state", ["running", "queued"])
def test_a_cleared_task_waits_for_its_dag_run(folder: CampaignFolder, state: str) -> None:
    """The DAG run of a task that was cleared or killed goes on, so no second one begins."""
    record, in_airflow = recording_of("two", **{"two:1": "failed", "two:2": state})
    record.campaign = str(folder.path)
    with pytest.raises(TaskDeferred) as waits:
        record.execute(in_airflow)

    assert waits.value.trigger.serialize()[1]["run_ids"] == [rounds.item_run_id(folder, "two", 2)]
    assert (waits.value.method_name, rounds.tried_names(folder)) == ("execute_complete", [])


def test_after_a_dag_run_that_ended_another_is_triggered(folder: CampaignFolder) -> None:
    """An item without a run is recorded again, under the next number."""
    record, in_airflow = recording_of("two", **{"two:1": "success", "two:2": "failed"})
    record.campaign = str(folder.path)
    with pytest.raises(DagRunTriggerException) as asked:
        record.execute(in_airflow)

    assert asked.value.dag_run_id == rounds.item_run_id(folder, "two", 3)


@pytest.mark.parametrize(("try_number", "max_tries"), [(2, 3), (3, 4)])  # a retry, and one after the task was cleared
def test_a_retry_is_no_other_experiment(folder: CampaignFolder, try_number: int, max_tries: int) -> None:
    """A run that had a fault is not repeated because a worker died at its end, but if the task is cleared."""
    run = RunFolder(folder.path / "r1")
    run.path.mkdir()
    EventLog(run.events).add("inject")
    record, in_airflow = recording_of("two", **{"two:1": "failed"})
    record.campaign = str(folder.path)
    vars(in_airflow["ti"]).update(xcom_pull=lambda **_: str(run.path), try_number=try_number, max_tries=max_tries)
    with pytest.raises(AirflowFailException, match="had a fault, and another try would be another experiment"):
        record.execute(in_airflow)

    in_airflow["ti"].try_number -= 1  # the first try, also of a cleared task
    with pytest.raises(DagRunTriggerException):
        record.execute(in_airflow)


@pytest.mark.parametrize(
    ("events", "is_sealed", "raised", "words"),
    [
        (["inject"], True, None, ""),
        (["inject", "error"], True, AirflowFailException, "no broker"),
        (["error"], True, HarnessError, "no broker"),  # Airflow tries it again
        (["inject"], False, AirflowFailException, "ended before a run was collected"),
        (None, False, HarnessError, "DAG run c1:two:1 ended before a run was collected"),
    ],
)
def test_only_a_run_without_a_fault_is_tried_again(
    folder: CampaignFolder,
    events: list[str] | None,
    is_sealed: bool,
    raised: type[Exception] | None,
    words: str,
) -> None:
    """A broken run is retried only if it broke before its first fault: a later one is evidence."""
    run = RunFolder(folder.path / "r1")
    if events is not None:
        run.path.mkdir(parents=True)
        for kind in events:
            EventLog(run.events).add(kind, why="no broker")
        if is_sealed:
            run.seal()
    pulled = SimpleNamespace(xcom_pull=lambda **_: str(run.path) if events is not None else None)
    record, event = recording_of("two")[0], ("", {"dag_id": "steady", "run_ids": ["c1:two:1"]})
    record.campaign = str(folder.path)

    if raised:
        with pytest.raises(raised, match=words):
            record.execute_complete(context() | {"ti": pulled}, event)
    else:
        assert record.execute_complete(context() | {"ti": pulled}, event) == str(run.path)
    [ended] = read_events(folder.stages)
    assert (ended.target, ended.detail["state"]) == ("two", "failed" if raised else "success")


def ending(number: int = 1, **states: str) -> Any:
    """Return the context of a round whose tasks have these states."""
    dag = SimpleNamespace(dag_id="compare", params={"round": 1, "runs": None})
    tasks = SimpleNamespace(get_task_states=lambda **_: {RUN: states})
    run_id = RUN if number == 1 else f"{RUN}_round_{number}"
    events = {CAMPAIGNS: SimpleNamespace(extra={})}
    params = {"round": number, "runs": None}
    return {"params": params, "dag": dag, "run_id": run_id, "ti": tasks, "outlet_events": events}


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
        context = ending(**{NEXT: "skipped"})
        assert step.execute(context) == str(folder.page)
        extra = {"campaign": "c1", "state": state, "page": str(folder.page)}
        assert context["outlet_events"][CAMPAIGNS].extra == extra


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


# --- commands --------------------------------------------------------------------------------------


def planned_with(monkeypatch: pytest.MonkeyPatch, kind: str, **asked: Any) -> dict[str, Any]:
    """Return the settings with which a triggered DAG plans its campaign."""
    found: dict[str, Any] = {}

    def plan(_: str, settings: dict[str, Any], **__: Any) -> CampaignFolder:
        found.update(settings)
        return CampaignFolder(Path("c1"))

    monkeypatch.setattr(runner, "plan", plan)
    PlanCampaign(task_id="plan", kind=kind).execute(context(name="c1", runs=None, **asked))
    return found


def test_a_triggered_campaign_runs_scripts_of_the_host_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may trigger a DAG may name one, and write none; a path is no name."""
    monkeypatch.setenv("PLIMSOLL_COMMANDS", str(tmp_path))
    (tmp_path / "build.sh").touch()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "build.sh").touch()
    builds = {"builds": "a,b", "settings": {}}
    subject = {"settings": {"subject": {"kafka": "x.tgz", "command": "build.sh"}}}
    script = f"bash {tmp_path}/build.sh"

    assert planned_with(monkeypatch, "bisect", **builds, command="build.sh")["command"] == script
    assert planned_with(monkeypatch, "nightly", **subject)["subject"]["command"] == script
    assert "command" not in planned_with(monkeypatch, "bisect", **builds, command=None)
    for command in ("in/build.sh", "../build.sh", str(tmp_path / "build.sh"), "rm -rf x", ".."):
        with pytest.raises(BadInput, match="is no file of the folder of commands"):
            planned_with(monkeypatch, "bisect", **builds, command=command)
    with pytest.raises(BadInput, match="command=rm is no file"):
        planned_with(monkeypatch, "bisect", builds="a,b", settings={"command": "rm"})


def test_without_a_folder_of_commands_none_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to set."""
    monkeypatch.delenv("PLIMSOLL_COMMANDS", raising=False)
    with pytest.raises(BadInput, match="which is not set; set PLIMSOLL_COMMANDS to a folder of this host"):
        planned_with(monkeypatch, "bisect", builds="a,b", settings={}, command="build.sh")
