"""The DAGs as Airflow parses them, without a database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID
from airflow.sdk.definitions.mappedoperator import MappedOperator

from campaigns import kinds
from clusters.scenario import scenario
from clusters.scenario.scenario import scenario_names
from history.errors import BadInput
from history.kafka_versions import DEFAULT_RELEASE
from history.product import product
from operators.assets import ARCHIVE, CAMPAIGNS, PAGES, PUBLISHED
from operators.steps import RunStep
from service.pools import BENCHMARKS, RUNS

DAGS = Path(__file__).resolve().parents[2] / "dags"
SCENARIO = "follower_lag_then_leader_kill"


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """All DAGs of dags/."""
    return DagBag(dag_folder=str(DAGS))


@pytest.fixture(scope="module")
def recorder(bag: DagBag) -> DAG:
    """The DAG of a scenario with three phases."""
    return bag.dags[SCENARIO]


def in_order(dag: DAG) -> Iterator[str]:
    """Yield task ids along the only path on which each task follows the one before it."""
    done: set[str] = set()
    while ready := [t.task_id for t in dag.tasks if t.task_id not in done and t.upstream_task_ids <= done]:
        assert len(ready) == 1, f"{ready} could run side by side"
        done.update(ready)
        yield ready[0]


def test_every_file_parses_and_every_scenario_has_a_dag(bag: DagBag) -> None:
    """Every file parses without an import error, and every scenario has a DAG of its name."""
    assert bag.import_errors == {}
    assert set(scenario_names()) <= bag.dags.keys()
    assert "reaper" in bag.dags


def test_the_tasks_of_a_run_stand_in_one_row(recorder: DAG) -> None:
    """A run's tasks have one order: it is collected before the teardown, then judged, published and watched."""
    assert list(in_order(recorder)) == [
        *("resolve", "start_cluster", "create_topics", "start_clients", "capture_before"),
        *("phase_1_steady", "phase_2_follower_lags", "phase_3_leader_dies"),
        *("stop_producers", "quiesce", "drain", "capture_after", "stop_clients", "collect"),
        *("tear_down", "judge", "publish", "watcher"),
    ]


def test_a_host_that_records_has_its_own_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a queue for recording, the run is uploaded there, and only judge and page are made elsewhere."""
    monkeypatch.setenv("PLIMSOLL_QUEUE", "recording")
    dags = DagBag(dag_folder=str(DAGS)).dags
    queues = {task.task_id: task.queue for task in dags[SCENARIO].tasks}

    assert list(in_order(dags[SCENARIO]))[-5:] == ["tear_down", "upload", "judge", "publish", "watcher"]
    assert {name for name, queue in queues.items() if queue == "default"} == {"judge", "publish"}
    assert {task.queue for name in ("compare", "reaper", "pages") for task in dags[name].tasks} == {"recording"}


def test_the_phases_of_any_scenario_are_mapped(bag: DagBag) -> None:
    """``any_scenario`` has the same tasks, but its phases are those of the run, one at a time, without a retry."""
    dag = bag.dags["any_scenario"]
    phase = dag.task_dict["phase"]

    assert list(in_order(dag)) == [
        *("resolve", "start_cluster", "create_topics", "start_clients", "capture_before"),
        *("phases", "phase"),
        *("stop_producers", "quiesce", "drain", "capture_after", "stop_clients", "collect"),
        *("tear_down", "judge", "publish", "watcher"),
    ]
    assert isinstance(phase, MappedOperator)
    assert (phase.max_active_tis_per_dagrun, phase.retries) == (1, 0)
    assert dag.params["scenario"] is None


@pytest.mark.parametrize("name", [SCENARIO, "any_scenario", "compare"])
def test_a_dag_says_which_plimsoll_it_is_of(bag: DagBag, name: str) -> None:
    """Each DAG that a command triggers has the version as a tag."""
    assert product().version in bag.dags[name].tags


@pytest.mark.parametrize("name", [SCENARIO, "any_scenario"])
def test_setups_and_teardown(bag: DagBag, name: str) -> None:
    """The teardown belongs to both setups, and a failure of it or of the watcher fails the DAG run."""
    recorder = bag.dags[name]
    tear_down, watcher = recorder.task_dict["tear_down"], recorder.task_dict["watcher"]

    assert [task.task_id for task in recorder.tasks if task.is_setup] == ["start_cluster", "start_clients"]
    assert [task.task_id for task in recorder.tasks if task.is_teardown] == ["tear_down", "watcher"]
    assert {"start_cluster", "start_clients"} <= tear_down.upstream_task_ids
    assert tear_down.on_failure_fail_dagrun
    assert watcher.on_failure_fail_dagrun


def test_what_comes_after_a_failure(recorder: DAG) -> None:
    """After a failure the end of a run continues, the experiment does not, and the watcher sees the failure."""
    rules = {task.task_id: task.trigger_rule.value for task in recorder.tasks}
    always = {task for task, rule in rules.items() if rule == "all_done_min_one_success"}

    assert always == {"stop_clients", "collect", "judge", "publish"}
    assert rules["phase_2_follower_lags"] == rules["capture_after"] == "all_success"
    assert rules["watcher"] == "all_done_setup_success"  # a teardown's; it has no setup
    assert recorder.task_dict["watcher"].upstream_task_ids == rules.keys() - {
        "watcher",
        "start_cluster",
        "start_clients",
    }


def test_the_experiment_is_not_tried_twice_and_everything_has_a_time_limit(recorder: DAG) -> None:
    """Only what may be repeated is retried. Tasks have a time limit; the DAG run's would skip the teardown."""
    assert {task.task_id: task.retries for task in recorder.tasks if task.retries} == {
        "resolve": 1,
        "judge": 1,
        "publish": 1,
    }
    assert [t.task_id for t in recorder.tasks if t.execution_timeout is None] == []
    assert recorder.dagrun_timeout is None
    assert recorder.task_dict["resolve"].execution_timeout == timedelta(seconds=900)


def test_parameters(recorder: DAG) -> None:
    """The default parameters are valid, and an unknown runtime is rejected."""
    assert recorder.params.validate()["kafka"] == DEFAULT_RELEASE
    with pytest.raises(Exception, match="podman"):
        recorder.params["runtime"] = "podman"


@pytest.mark.parametrize(
    ("file", "wanted"), [("chaos.py", "steady"), ("chaos.py", "any_scenario"), ("campaign_dags.py", "compare")]
)
def test_a_task_builds_its_own_dag_alone(file: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task's process builds the DAG that it needs and no other."""
    monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, wanted)

    assert DagBag(dag_folder=str(DAGS / file)).dags.keys() == {wanted}


def test_a_scenario_that_is_gone_is_an_import_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose scenario was removed fails with the reason in its log."""
    monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, "gone")
    (error,) = DagBag(dag_folder=str(DAGS / "chaos.py")).import_errors.values()

    assert BadInput.__name__ in error
    assert "There is no scenario" in error


def test_a_scenario_that_is_half_saved_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A scenario with half its text has no DAG and a log line, and other scenarios keep their DAGs."""
    whole = (DAGS.parent / "scenarios" / "steady.yaml").read_text()
    (tmp_path / "steady.yaml").write_text(whole)
    (tmp_path / "half.yaml").write_text(whole.replace("name: steady", "name: half")[: len(whole) // 2])
    monkeypatch.setattr(scenario, "SCENARIOS", tmp_path)
    bag = DagBag(dag_folder=str(DAGS / "chaos.py"))

    assert (set(bag.dags), bag.import_errors) == ({"any_scenario", "steady"}, {})
    assert [record.getMessage()[:29] for record in caplog.records if record.name == "plimsoll.dags"] == [
        "Scenario half has no DAG: hal"
    ]


def test_a_phase_is_told_by_number_and_name(recorder: DAG) -> None:
    """A phase is identified by number and name, since the scenario's file can change during a run."""
    phases = [task.stage.arguments for task in recorder.tasks if isinstance(task, RunStep) and task.stage.phase]

    assert phases == [(0, "steady"), (1, "follower lags"), (2, "leader dies")]


def test_parsing_brings_in_no_heavy_library() -> None:
    """Parsing a DAG file imports none of Spark, Docker and Kafka, since Airflow parses it repeatedly."""
    program = (
        "import runpy, sys; runpy.run_path('dags/chaos.py');"
        "print({'pyspark', 'great_expectations', 'docker', 'kafka', 'pyarrow', 'plotly'} & sys.modules.keys())"
    )
    parsed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=DAGS.parent,
        env={"PYTHONPATH": "."},
        check=True,
    )

    assert parsed.stdout.strip().splitlines()[-1] == "set()"


# --- campaigns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kinds.names())
def test_the_tasks_of_a_campaign_stand_in_one_row(bag: DagBag, kind: str) -> None:
    """A campaign's tasks record and judge the runs, and begin another round or conclude."""
    mixed = ["items_at_once", "record_at_once"] if kind in ("nightly", "qualify") else []

    assert list(in_order(bag.dags[kind])) == [
        *("plan", *mixed, "items", "record", "judge", "next_round", "conclude", "watcher")
    ]


@pytest.mark.parametrize("kind", kinds.names())
def test_benchmark_runs_queue_up(bag: DagBag, kind: str) -> None:
    """All benchmarks' runs share one slot, and a kind has one DAG run at a time; judging needs no slot."""
    dag, pools = bag.dags[kind], {"record": (BENCHMARKS if kinds.of(kind).benchmark else RUNS).name}
    if kinds.of(kind).mixed:
        pools |= {"record_at_once": RUNS.name}

    assert dag.max_active_runs == 1
    assert {task.task_id: task.pool for task in dag.tasks if task.pool != "default_pool"} == pools
    assert ("at_once" in dag.params) is (RUNS.name in pools.values())


@pytest.mark.parametrize("kind", kinds.names())
def test_a_campaign_says_what_it_is(bag: DagBag, kind: str) -> None:
    """A campaign's DAG has a name, an owner, tags, and documentation with all sections."""
    dag = bag.dags[kind]

    assert dag.dag_display_name == kinds.of(kind).title
    assert {task.owner for task in dag.tasks} == {"plimsoll"}
    assert dag.tags == {"campaign", "benchmark" if kinds.of(kind).benchmark else "correctness", product().version}
    for title in ("Why", "Phases", "Expected result", "How to read it"):
        assert f"**{title}:** " in (dag.doc_md or "")


def test_the_form_of_a_campaign_follows_from_its_declaration(bag: DagBag) -> None:
    """A campaign's form has enumerations for choices and checks for numbers; an empty field uses the settings."""
    params = bag.dags["compare"].params
    view, pairs = params.get_param("view"), params.get_param("pairs")

    assert list(params)[:7] == ["base", "head", "change", "scenario", "pairs", "of_knee", "view"]
    assert view.schema["enum"] == ["same_settings", "default_settings", "unfinalised", None]
    assert pairs.schema["description_md"] == "Pairs of runs, one of base and one of head. Example: `10`. Default: `10`."
    assert params.validate()["view"] is None
    with pytest.raises(Exception, match="sideways"):
        params["view"] = "sideways"
    with pytest.raises(Exception, match="ten"):
        params["pairs"] = "ten"


def test_a_campaign_goes_on_without_a_run_that_broke(bag: DagBag) -> None:
    """Other runs are judged and concluded after a run fails, or where none was left to record.

    The watcher keeps a failure from becoming a success.
    """
    rules = {task.task_id: task.trigger_rule.value for task in bag.dags["compare"].tasks}

    assert {name for name, rule in rules.items() if rule == "all_done"} == {"judge", "conclude"}
    assert rules["watcher"] == "all_done_setup_success"  # a teardown's


def test_the_nightly_runs_have_a_schedule_and_the_pages_follow_the_archive(bag: DagBag) -> None:
    """Only the DAG that triggers nightly runs has a schedule, paused at first; the pages follow the archive."""
    assert bag.dags["every_night"].schedule == "0 2 * * *"
    assert bag.dags["every_night"].is_paused_upon_creation  # it takes the host for an hour each night
    assert bag.dags["every_night"].task_dict["nightly"].trigger_dag_id == "nightly"
    assert not bag.dags["pages"].is_paused_upon_creation
    assert bag.dags["nightly"].schedule is None  # a command unpauses it, and shall not get last night's run
    assert bag.dags["compare"].schedule is bag.dags["capacity"].schedule is None
    assert bag.dags["pages"].schedule == [ARCHIVE]
    tasks = [task for name in (SCENARIO, "compare", "pages") for task in bag.dags[name].tasks]
    assert {task.task_id: task.outlets for task in tasks if task.outlets} == {
        "publish": [PUBLISHED],
        "judge": [ARCHIVE],
        "conclude": [ARCHIVE, CAMPAIGNS],
        "index": [PAGES],
    }
