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

from campaigns import kinds
from clusters.scenario import scenario
from clusters.scenario.scenario import scenario_names
from history.errors import BadInput
from history.kafka_versions import DEFAULT_RELEASE
from operators.airflow_home import BENCHMARK_POOL
from operators.campaign_dag import ARCHIVE
from operators.steps import RunStep

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


def test_setups_and_teardown(recorder: DAG) -> None:
    """The teardown belongs to both setups, and a failure of it or of the watcher fails the DAG run."""
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


def test_nothing_is_tried_twice_and_everything_has_a_time_limit(recorder: DAG) -> None:
    """Each task has no retry and a time limit; the DAG run has no limit, which would skip the teardown."""
    assert {task.retries for task in recorder.tasks} == {0}
    assert [t.task_id for t in recorder.tasks if t.execution_timeout is None] == ["watcher"]
    assert recorder.dagrun_timeout is None
    assert recorder.task_dict["phase_1_steady"].execution_timeout == timedelta(seconds=5 + 120)
    assert recorder.task_dict["phase_2_follower_lags"].execution_timeout == timedelta(seconds=12 + 50 + 2 * 8 + 120)


def test_parameters(recorder: DAG) -> None:
    """The default parameters are valid, and an unknown runtime is rejected."""
    assert recorder.params.validate()["kafka"] == DEFAULT_RELEASE
    with pytest.raises(Exception, match="podman"):
        recorder.params["runtime"] = "podman"


def test_a_single_scenario_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``PLIMSOLL_SCENARIO`` names any file, which is then the only scenario."""
    mine = tmp_path / "mine.yaml"
    mine.write_text((DAGS.parent / "scenarios" / "steady.yaml").read_text().replace("name: steady", "name: mine"))
    monkeypatch.setenv("PLIMSOLL_SCENARIO", str(mine))

    assert DagBag(dag_folder=str(DAGS / "chaos.py")).dags.keys() == {"mine"}


def test_a_wrong_scenario_is_an_import_error_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong scenario is an import error with the reason on Airflow's page."""
    monkeypatch.setenv("PLIMSOLL_SCENARIO", str(tmp_path / "gone.yaml"))
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
    monkeypatch.delenv("PLIMSOLL_SCENARIO", raising=False)
    bag = DagBag(dag_folder=str(DAGS / "chaos.py"))

    assert (set(bag.dags), bag.import_errors) == ({"steady"}, {})
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
    """A campaign's tasks record and judge the runs, do the same with a follow-up, and conclude."""
    assert list(in_order(bag.dags[kind])) == [
        *("plan", "items", "record", "judge", "items_follow_up", "record_follow_up", "judge_follow_up"),
        *("conclude", "watcher"),
    ]


@pytest.mark.parametrize("kind", kinds.names())
def test_benchmark_runs_queue_up(bag: DagBag, kind: str) -> None:
    """All campaigns' runs share one slot, and a kind has one DAG run at a time; judging needs no slot."""
    dag = bag.dags[kind]

    assert dag.max_active_runs == 1
    assert {task.task_id for task in dag.tasks if task.pool == BENCHMARK_POOL} == {"record", "record_follow_up"}


@pytest.mark.parametrize("kind", kinds.names())
def test_a_campaign_says_what_it_is(bag: DagBag, kind: str) -> None:
    """A campaign's DAG has a name, an owner, tags, and documentation with all sections."""
    dag = bag.dags[kind]

    assert dag.dag_display_name == kinds.of(kind).title
    assert {task.owner for task in dag.tasks} == {"plimsoll"}
    assert dag.tags == {"campaign", "benchmark" if kinds.of(kind).benchmark else "correctness"}
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

    assert {name for name, rule in rules.items() if rule == "all_done"} == {
        *("judge", "items_follow_up", "judge_follow_up", "conclude")
    }
    assert rules["watcher"] == "all_done_setup_success"  # a teardown's


def test_the_nightly_runs_have_a_schedule_and_the_pages_follow_the_archive(bag: DagBag) -> None:
    """Only nightly runs have a schedule, paused at first; the pages follow the archive."""
    assert bag.dags["nightly"].schedule == "0 2 * * *"
    assert bag.dags["nightly"].is_paused_upon_creation  # it takes the host for an hour each night
    assert not bag.dags["pages"].is_paused_upon_creation
    assert bag.dags["nightly"].start_date is None
    assert bag.dags["compare"].schedule is bag.dags["capacity"].schedule is None
    assert bag.dags["pages"].schedule == [ARCHIVE]
