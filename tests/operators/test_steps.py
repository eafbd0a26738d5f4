"""The tasks, run by ``execute`` with the experiment's calls patched."""

from __future__ import annotations

import asyncio
import platform
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from clusters.attached.cluster_file import Described
from clusters.run import experiment, host
from clusters.run.leftovers import end_lease, write_lease
from clusters.run.stages import TEAR_DOWN, Stage
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput, HarnessError, PlimsollError
from history.events import EventLog, read_events
from history.folder import RunFolder
from operators.hooks import DockerHook
from operators.host import HostTrigger
from operators.steps import ListPhases, PrepareRun, Reap, RunPhase, RunStep, StartCluster, TearDown, Watcher
from tests.clusters.fakes import plan_of, write_plan
from tests.clusters.noted import note_calls

PARAMS = {"kafka": "3.9.1", "runtime": "auto", "rate": None, "seed": 7, "subnet": None}
NONE = ("run_dir", "runs", "scenario", "changes", "labels", "at_once", "upload", "cluster")
PARAMS |= dict.fromkeys(NONE) | {"judge": True}
START = Stage("start_cluster", "starting the cluster", 1.0, role="start")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A prepared run folder that is not sealed."""
    folder = tmp_path / "a-run"
    (folder / "work").mkdir(parents=True)
    return folder


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the calls on a run; ``collect`` seals it."""
    return note_calls(monkeypatch, "start_cluster", "run_phase", "stop_clients", "collect", "tear_down")


def breaking(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    """Let a call of the experiment raise this error."""

    def call(*_: object) -> None:
        raise error

    monkeypatch.setattr(experiment, name, call)


def errors(run: Path) -> list[tuple[str, str, Any]]:
    """Return (phase, step, why) of the run's error events."""
    events = read_events(RunFolder(run).events)
    return [(event.phase, event.step, event.detail["why"]) for event in events if event.kind == "error"]


def phase(run: Path) -> RunStep:
    """Return the task of a phase."""
    stage = Stage("phase_2_lags", "phase 2/2 lags", 1.0, call="run_phase", arguments=(1, "lags"), phase="lags")
    return RunStep(task_id=stage.name, run=str(run), stage=stage)


def context(**asked: Any) -> Any:
    """Return Airflow's context for a run of a scenario's DAG."""
    task, dag = SimpleNamespace(xcom_push=lambda *_: None), SimpleNamespace(dag_id="steady", params=PARAMS)
    return {"params": {**PARAMS, **asked}, "dag": dag, "ti": task, "run_id": f"manual-{secrets.token_hex(2)}"}


def prepares(monkeypatch: pytest.MonkeyPatch, run: Path) -> dict[str, object]:
    """Let ``prepare`` return this run; return what it was called with."""
    asked: dict[str, object] = {}

    def prepare(scenario: object, **settings: object) -> Path:
        asked.update(settings, scenario=scenario)
        return run

    monkeypatch.setattr(experiment, "prepare", prepare)
    return asked


def test_resolve_prepares_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``resolve`` passes the parameters to ``prepare`` and returns the run's path as text."""
    asked = prepares(monkeypatch, tmp_path / "new-run")
    monkeypatch.setenv("PLIMSOLL_RUNS", str(tmp_path))
    made = PrepareRun(task_id="resolve", scenario="steady").execute(context())

    assert made == str(tmp_path / "new-run")
    wanted = {"kafka": "3.9.1", "runtime": "auto", "rate": None, "seed": 7, "subnet": None}
    wanted |= {"changes": None, "labels": None, "cluster": None}
    assert asked == {"scenario": "steady", "runs": tmp_path, **wanted}


def test_a_run_that_the_host_does_not_admit_waits_without_a_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``resolve`` defers while a benchmark is on the host, and returns the run's folder after it."""
    benchmark, other = tmp_path / "benchmark", tmp_path / "other"
    for folder in (benchmark, other):
        (folder / "work").mkdir(parents=True)
        write_lease(folder, "time")
    resolve = PrepareRun(task_id="resolve", scenario="steady")
    prepares(monkeypatch, benchmark)
    assert resolve.execute(context(at_once=1)) == str(benchmark)

    prepares(monkeypatch, other)
    with pytest.raises(TaskDeferred) as waits:
        resolve.execute(context())
    assert isinstance(waits.value.trigger, HostTrigger)
    end_lease(benchmark)
    with ThreadPoolExecutor(1) as thread:  # a browser's test may have left a loop in this one
        event = thread.submit(asyncio.run, anext(waits.value.trigger.run())).result()

    assert waits.value.method_name == "admitted"
    assert resolve.admitted(context(), event.payload) == str(other)


def test_a_triggerer_on_another_host_admits_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says that it lacks the run; and the worker asks its own host again, whatever a triggerer says."""
    away = HostTrigger(run=str(tmp_path / "away"), at_once=2, name="x").run()
    with ThreadPoolExecutor(1) as thread, pytest.raises(BadInput, match="away is not on this triggerer's host"):
        thread.submit(asyncio.run, anext(away)).result()

    monkeypatch.setattr(host, "admit", lambda *_: "waiting for its turn, after b1")
    with pytest.raises(TaskDeferred):
        PrepareRun(task_id="resolve", scenario="steady").admitted(context(), str(tmp_path))


def test_resolve_prepares_a_scenario_that_is_given_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The parameter ``scenario`` is a scenario's content, and ``runs`` the folder of its run."""
    asked = prepares(monkeypatch, tmp_path / "new-run")
    PrepareRun(task_id="resolve").execute(context(scenario={"name": "mine"}, runs="/elsewhere"))

    assert (asked["scenario"], asked["runs"]) == ({"name": "mine"}, Path("/elsewhere"))


def test_resolve_passes_a_cluster_s_description(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path is passed on; a connection is read in this task alone, and a wrong one is bad input."""
    asked = prepares(monkeypatch, tmp_path / "new-run")
    resolve = PrepareRun(task_id="resolve", scenario="steady")
    resolve.execute(context(cluster="/etc/mine.yaml"))
    assert asked["cluster"] == Path("/etc/mine.yaml")

    monkeypatch.setenv("AIRFLOW_CONN_STAGING", '{"conn_type": "kafka", "host": "b1", "port": 9092}')
    resolve.execute(context(cluster="staging"))
    assert isinstance(asked["cluster"], Described)
    with pytest.raises(AirflowFailException, match="The connection production is not defined"):
        resolve.execute(context(cluster="production"))


def test_resolve_refuses_a_run_without_a_scenario() -> None:
    """Without a scenario and a prepared run there is nothing to run."""
    with pytest.raises(AirflowFailException, match="No scenario was given; set the parameter scenario, or run_dir"):
        PrepareRun(task_id="resolve").execute(context())


def test_resolve_refuses_a_parameter_that_there_is_not() -> None:
    """``resolve`` rejects an unknown parameter, since a misspelt one would have no effect."""
    with pytest.raises(AirflowFailException, match="steady has no parameter 'kafak'; known: kafka, runtime"):
        PrepareRun(task_id="resolve", scenario="steady").execute(context(kafak="4.3.0"))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "PLIMSOLL_QUEUE is set, so another host may judge"),
        ({"judge": False}, ""),  # its campaign judges it on this host
        ({"upload": "runs/x"}, "runs/x is no URL of an object store"),
    ],
)
def test_a_run_that_another_host_judges_needs_an_upload(
    asked: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``resolve`` rejects a run that the judge's host cannot read, before a folder is made."""
    monkeypatch.setenv("PLIMSOLL_QUEUE", "recording")
    prepared = prepares(monkeypatch, tmp_path / "new-run")
    resolve = PrepareRun(task_id="resolve", scenario="steady")

    with pytest.raises(AirflowFailException, match=why) if why else nullcontext():
        resolve.execute(context(**asked))
    assert bool(prepared) == (not why)


def test_a_recording_task_on_another_host_is_rejected(tmp_path: Path, run: Path) -> None:
    """A task names the host that lacks the run's folder."""
    phase(run).pre_execute({})

    with pytest.raises(BadInput, match=rf"{tmp_path}/elsewhere is not on this host, {platform.node()}; "):
        phase(tmp_path / "elsewhere").pre_execute({})


def test_resolve_takes_a_prepared_folder(run: Path) -> None:
    """``resolve`` uses a folder that the command line prepared."""
    resolve = PrepareRun(task_id="resolve", scenario="steady")

    assert resolve.execute(context(run_dir=str(run))) == str(run)


def test_resolve_refuses_a_folder_that_nobody_prepared(tmp_path: Path) -> None:
    """``resolve`` rejects a folder that is no prepared run, with the alternative."""
    resolve = PrepareRun(task_id="resolve", scenario="steady")

    with pytest.raises(AirflowFailException, match="is not a prepared run folder; leave run_dir empty"):
        resolve.execute(context(run_dir=str(tmp_path)))


def test_a_step_performs_its_stage(run: Path, calls: list[str]) -> None:
    """A task performs its stage with the stage's arguments."""
    phase(run).execute({})

    assert calls == ["run_phase 1 lags"]


def test_a_step_that_is_told_to_stop_stops(run: Path) -> None:
    """``on_kill`` raises an error, since Airflow would let the call continue."""
    with pytest.raises(HarnessError, match="phase_2_lags was stopped"):
        phase(run).on_kill()


def test_a_cluster_that_comes_up_half_is_collected_and_removed(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the cluster's start fails, the task itself collects and removes it, since no teardown follows."""
    breaking(monkeypatch, "start_cluster", HarnessError("broker 2 died"))

    with pytest.raises(HarnessError, match="broker 2 died"):
        StartCluster(task_id="start_cluster", run=str(run), stage=START).execute({})
    assert calls == ["stop_clients", "collect", "tear_down"]
    assert errors(run) == [("", "start_cluster", "HarnessError: broker 2 died")]
    assert RunFolder(run).check_seal() == []


def test_a_cluster_that_lives_is_neither_started_nor_salvaged(run: Path, calls: list[str]) -> None:
    """A second DAG run with the same folder is rejected and leaves the running cluster alone."""
    (run / "work" / "prefix").write_text("127.0.1")
    (run / "work" / "dag_run").write_text("manual__1")
    asked: Any = {"run_id": "manual__2"}

    with pytest.raises(HarnessError, match="a-run was started before; start a new run"):
        StartCluster(task_id="start_cluster", run=str(run), stage=START).execute(asked)
    assert calls == []


def test_a_start_that_is_cleared_removes_the_cluster(run: Path, calls: list[str]) -> None:
    """A cleared start task removes the cluster, since no teardown follows a failed setup."""
    start, asked = StartCluster(task_id="start_cluster", run=str(run), stage=START), context() | {"run_id": "manual__1"}
    start.execute(asked)
    (run / "work" / "prefix").write_text("127.0.1")

    with pytest.raises(HarnessError, match="a-run was started before"):
        start.execute(asked)
    assert calls == ["start_cluster", "tear_down"]
    assert not RunFolder(run).is_sealed


def test_the_cluster_of_a_collected_run_is_not_started(run: Path, calls: list[str]) -> None:
    """The cluster of a collected run is not started again; leftovers are removed and the record stays."""
    RunFolder(run).seal()

    with pytest.raises(
        HarnessError, match="a-run was collected and its cluster was removed, so start_cluster cannot run"
    ):
        StartCluster(task_id="start_cluster", run=str(run), stage=START).execute({})
    assert calls == ["tear_down"]
    assert RunFolder(run).check_seal() == []


def test_a_run_that_was_ended_before_it_was_collected_is_collected_and_red(run: Path, calls: list[str]) -> None:
    """The teardown of a run that was not collected collects it and fails; of a collected run it succeeds."""
    tear_down = TearDown(task_id="tear_down", run=str(run), stage=TEAR_DOWN)

    with pytest.raises(HarnessError, match=r"was collected\. It was collected now, .* `make judge RUN=.*/a-run`"):
        tear_down.execute({})
    assert calls == ["stop_clients", "collect", "tear_down"]
    tear_down.execute({})
    assert calls[3:] == ["tear_down"]


def test_a_run_that_cannot_be_collected_is_removed(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the collection fails at the end, too, everything is removed, and its reason is the task's."""
    breaking(monkeypatch, "collect", HarnessError("the disk is gone"))

    with pytest.raises(HarnessError, match="the disk is gone"):
        TearDown(task_id="tear_down", run=str(run), stage=TEAR_DOWN).execute({})
    assert calls == ["stop_clients", "tear_down"]


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """A prepared run with three phases."""
    run = tmp_path / "planned"
    write_plan(run, plan_of(load_scenario("follower_lag_then_leader_kill")))
    return run


PHASES = ["phase_1_steady", "phase_2_follower_lags", "phase_3_leader_dies"]


def mapped(run: Path, number: int) -> RunPhase:
    """Return a mapped task, as Airflow starts it."""
    task = RunPhase(task_id="phase", run=str(run), phase=PHASES[number])
    task.pre_execute({})
    return task


@pytest.fixture
def no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Airflow without connections."""
    monkeypatch.setattr(DockerHook, "get_conn", lambda _: {})


@pytest.mark.usefixtures("no_connections")
def test_phases_are_those_of_the_run(planned: Path, calls: list[str]) -> None:
    """The phases of a run are listed in order, and each is performed as its own scenario says."""
    assert ListPhases(task_id="phases", run=str(planned)).execute({}) == PHASES
    for number in range(3):
        mapped(planned, number).execute({})

    assert calls == ["run_phase 0 steady", "run_phase 1 follower lags", "run_phase 2 leader dies"]


@pytest.mark.usefixtures("no_connections")
def test_no_phase_runs_after_one_that_did_not_succeed(
    planned: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a phase that failed, was killed or has yet to run, the next is skipped, whatever Airflow starts."""
    mapped(planned, 0).execute({})
    with pytest.raises(AirflowSkipException, match="phase_3_leader_dies does not run, because phase_2_follower_lags"):
        mapped(planned, 2).execute({})
    EventLog(RunFolder(planned).stages).add("stage_started", step=PHASES[1])  # and nothing of its end
    with pytest.raises(AirflowSkipException):
        mapped(planned, 2).execute({})
    breaking(monkeypatch, "run_phase", HarnessError("broker 2 died"))
    with pytest.raises(HarnessError, match="broker 2 died"):
        mapped(planned, 1).execute({})
    with pytest.raises(AirflowSkipException):
        mapped(planned, 2).execute({})

    assert calls == ["run_phase 0 steady"]


@pytest.mark.usefixtures("no_connections")
def test_a_step_has_the_limit_of_its_own_runs_scenario(planned: Path, run: Path) -> None:
    """Limits follow from the run's scenario; the teardown's includes a collection. Without a plan the DAG's stay."""
    steady = Stage(PHASES[0], "as the DAG has it", 1.0, 7.0, call="run_phase", arguments=(0, "steady"), phase="steady")
    hour = timedelta(hours=1)
    tasks = [
        RunStep(task_id="a", run=str(planned), stage=steady, execution_timeout=hour),
        TearDown(task_id="b", run=str(planned), stage=TEAR_DOWN, execution_timeout=hour),
        RunStep(task_id="c", run=str(run), stage=steady, execution_timeout=hour),
    ]
    for task in tasks:
        task.pre_execute({})

    limits = [task.execution_timeout.total_seconds() for task in tasks if task.execution_timeout]
    assert limits == [125, 330 + 900 + 300, 3600]


def test_the_reaper_spares_live_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reaper spares live runs."""
    monkeypatch.setattr(experiment, "reap", lambda *, all_runs=False: [] if all_runs else ["old-run"])

    assert Reap(task_id="reap").execute({}) == ["old-run"]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"phase_1": "success", "publish": "success", "watcher": "running"}, ""),
        ({"record": "skipped", "publish": "success"}, ""),
        ({"publish": "skipped", "next_round": "success"}, ""),
        ({"phase_1": "failed", "drain": "upstream_failed", "judge": "failed"}, "Failed tasks: judge, phase_1; "),
        ({"tear_down": "failed", "publish": "skipped"}, "Failed tasks: tear_down; "),
        ({"resolve": "success", "tear_down": "skipped", "publish": "skipped"}, "ended before its task publish; "),
        ({"resolve": "success"}, "ended before its task publish; "),
    ],
)
def test_the_watcher_is_red_when_a_task_is(states: dict[str, str], said: str) -> None:
    """The watcher fails and names the failed tasks if any task failed, or if the last task was skipped."""
    watched = SimpleNamespace(
        get_task_states=lambda *, dag_id, run_ids: {run_ids[0]: states} if dag_id == "x" else {},
        xcom_pull=lambda **_: None,
    )
    told: Any = {"run_id": "a", "ti": watched, "dag": SimpleNamespace(dag_id="x")}

    with pytest.raises(PlimsollError, match=said) if said else nullcontext():
        Watcher(task_id="watcher", last=["publish", "next_round"]).execute(told)


def test_the_watcher_lets_the_next_run_in(run: Path) -> None:
    """A run that ended before its start makes room on the host."""
    write_lease(run, "time")
    assert host.admit(run, host.ALONE) == ""
    states = {"publish": "success"}
    task = SimpleNamespace(get_task_states=lambda **_: {"a": states}, xcom_pull=lambda **_: str(run))
    Watcher(task_id="watcher", last=["publish"]).execute(
        {"run_id": "a", "ti": task, "dag": SimpleNamespace(dag_id="x")}  # type: ignore[arg-type]  # a context's part
    )

    assert list(host.HOST.iterdir()) == []


def test_the_run_is_a_template_field() -> None:
    """Airflow renders the run's path before ``execute``."""
    step = RunStep(task_id="a", run="{{ params.where }}", stage=START)
    step.render_template_fields({"params": {"where": "/runs/x"}})

    assert step.run == "/runs/x"
