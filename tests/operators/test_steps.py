"""The steps, by ``execute`` with the experiment's calls patched."""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.run import experiment, leftovers
from history.errors import BadInput, HarnessError
from history.events import EventLog, read_events
from history.folder import RunFolder
from operators.steps import EndStep, PrepareRun, Reap, RunStep, StartCluster, TearDown, Watcher
from tests.clusters.noted import note_calls

PARAMS = {"kafka": "3.9.1", "runtime": "auto", "rate": None, "seed": 7, "subnet": None, "run_dir": None}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder that was prepared and not yet sealed."""
    folder = tmp_path / "a-run"
    (folder / "work").mkdir(parents=True)
    return folder


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces every call on a run by one that notes itself; collecting seals."""
    return note_calls(monkeypatch, "start_cluster", "run_phase", "stop_clients", "collect", "tear_down")


def breaking(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    """Let a call of the experiment raise."""

    def call(*_: object) -> None:
        raise error

    monkeypatch.setattr(experiment, name, call)


def errors(run: Path) -> list[tuple[str, str, Any]]:
    """(phase, step, why) of the run's error events."""
    events = read_events(RunFolder(run).events)
    return [(event.phase, event.step, event.detail["why"]) for event in events if event.kind == "error"]


def phase(run: Path) -> RunStep:
    """The step of a phase."""
    return RunStep(task_id="phase_2_lags", run=str(run), call="run_phase", arguments=(1,), phase="lags")


def context(**asked: Any) -> Any:
    """What Airflow hands over when a run of a scenario's DAG is asked for."""
    return {"params": {**PARAMS, **asked}, "dag": SimpleNamespace(dag_id="steady", params=PARAMS)}


def test_resolve_prepares_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The parameters reach ``prepare``; what passes on is a path as text."""
    asked: dict[str, object] = {}

    def prepare(scenario: str, **settings: object) -> Path:
        asked.update(settings, scenario=scenario)
        return tmp_path / "new-run"

    monkeypatch.setattr(experiment, "prepare", prepare)
    monkeypatch.setenv("PLIMSOLL_RUNS", str(tmp_path))
    made = PrepareRun(task_id="resolve", scenario="steady").execute(context())

    assert made == str(tmp_path / "new-run")
    wanted = {"kafka": "3.9.1", "runtime": "auto", "rate": None, "seed": 7, "subnet": None}
    assert asked == {"scenario": "steady", "runs": tmp_path, **wanted}


def test_resolve_refuses_a_parameter_that_there_is_not() -> None:
    """Airflow hands on whatever was asked; a name with a typing error would do nothing."""
    with pytest.raises(BadInput, match="steady has no parameter 'kafak'; known: kafka, runtime"):
        PrepareRun(task_id="resolve", scenario="steady").execute(context(kafak="4.3.0"))


def test_resolve_takes_a_prepared_folder(run: Path) -> None:
    """A folder that the command line prepared is used as it is."""
    resolve = PrepareRun(task_id="resolve", scenario="steady")

    assert resolve.execute(context(run_dir=str(run))) == str(run)


def test_resolve_refuses_a_folder_that_nobody_prepared(tmp_path: Path) -> None:
    """The sentence says which, and how to do without."""
    resolve = PrepareRun(task_id="resolve", scenario="steady")

    with pytest.raises(BadInput, match="is no prepared run folder; leave run_dir empty"):
        resolve.execute(context(run_dir=str(tmp_path)))


def test_a_step_makes_its_call(run: Path, calls: list[str]) -> None:
    """With its arguments, and without an event of its own."""
    phase(run).execute({})

    assert calls == ["run_phase 1"]
    assert not RunFolder(run).events.exists()


@pytest.mark.parametrize("error", [HarnessError("no broker"), KeyboardInterrupt("no broker")])
def test_what_breaks_is_recorded_and_passes_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The judge learns of it from the events, also of interrupts and time-outs."""
    breaking(monkeypatch, "run_phase", error)

    with pytest.raises(type(error), match="no broker"):
        phase(run).execute({})
    assert errors(run) == [("lags", "run_phase", f"{type(error).__name__}: no broker")]


def test_what_the_call_recorded_itself_is_not_recorded_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error, one event."""
    EventLog(RunFolder(run).events).add("error", step="run_phase", why="HarnessError: no broker")
    breaking(monkeypatch, "run_phase", HarnessError("no broker"))

    with pytest.raises(HarnessError):
        phase(run).execute({})
    assert errors(run) == [("", "run_phase", "HarnessError: no broker")]


def test_a_phase_is_refused_after_the_run_was_collected(run: Path, calls: list[str]) -> None:
    """Clearing it would run it against no cluster; the sealed folder stays as it is."""
    RunFolder(run).seal()

    with pytest.raises(HarnessError, match=r"a-run was collected .* phase_2_lags cannot run .*; trigger the DAG"):
        phase(run).execute({})
    assert calls == []
    assert RunFolder(run).check_seal() == []


def test_a_step_that_is_told_to_stop_stops(run: Path) -> None:
    """Airflow goes on after ``on_kill``, so that only an exception ends the call."""
    with pytest.raises(HarnessError, match="phase_2_lags was told to stop"):
        phase(run).on_kill()


def test_a_cluster_that_comes_up_half_is_collected_and_removed(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No teardown follows a setup that failed."""
    breaking(monkeypatch, "start_cluster", HarnessError("broker 2 died"))

    with pytest.raises(HarnessError, match="broker 2 died"):
        StartCluster(task_id="start_cluster", run=str(run), call="start_cluster").execute({})
    assert calls == ["stop_clients", "collect", "tear_down"]
    assert errors(run) == [("", "start_cluster", "HarnessError: broker 2 died")]
    assert RunFolder(run).check_seal() == []


def test_a_cluster_that_lives_is_neither_started_nor_salvaged(run: Path, calls: list[str]) -> None:
    """A second try is refused, and the first goes on."""
    (run / "work" / "prefix").write_text("127.0.1")

    with pytest.raises(HarnessError, match="a-run was started before; a run is never started twice, start a new one"):
        StartCluster(task_id="start_cluster", run=str(run), call="start_cluster").execute({})
    assert calls == []


def test_a_run_that_cannot_be_collected_is_removed_all_the_same(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collecting is tried, removing is certain."""
    breaking(monkeypatch, "collect", HarnessError("disk full"))

    with pytest.raises(HarnessError, match="disk full"):
        experiment.salvage(run)
    assert calls == ["stop_clients", "tear_down"]
    assert errors(run) == [("", "collect", "HarnessError: disk full")]


def test_a_step_acts_on_its_run_alone(run: Path, calls: list[str]) -> None:
    """While another process holds the run it is refused; once that has ended it is not."""
    step = phase(run)
    step.wait_s = 0.0
    with (run / "work" / "step").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(HarnessError, match=r"for another task of a-run to end, .*; last seen: it goes on"):
            step.execute({})
        assert calls == []
    step.execute({})

    assert calls == ["run_phase 1"]


def test_the_end_waits_for_a_phase_that_was_given_up(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collected is what it left when it had healed; the same holds for a salvage, and for one within a step."""
    asked: list[tuple[float, str]] = []
    monkeypatch.setattr(leftovers, "wait_until", lambda _, *, limit_s, what, **__: asked.append((limit_s, what)))
    EndStep(task_id="stop_clients", run=str(run), call="stop_clients").execute({})
    with leftovers.hold_step(run, 5.0):
        experiment.salvage(run)

    assert [limit_s for limit_s, _ in asked] == [120.0, 5.0]
    assert calls == ["stop_clients", "stop_clients", "collect", "tear_down"]


def test_the_end_has_nothing_to_do_twice(run: Path, calls: list[str]) -> None:
    """Collecting a collected run is no error; tearing down is repeated, for it is by label."""
    collect = EndStep(task_id="collect", run=str(run), call="collect")
    collect.execute({})
    collect.execute({})
    TearDown(task_id="tear_down", run=str(run), call="tear_down").execute({})

    assert calls == ["collect", "tear_down"]


def test_the_reaper_spares_live_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It never asks for all runs."""
    monkeypatch.setattr(experiment, "reap", lambda *, all_runs=False: [] if all_runs else ["old-run"])

    assert Reap(task_id="reap").execute({}) == ["old-run"]


def test_the_watcher_is_red_when_it_runs() -> None:
    """It runs only after a failure."""
    with pytest.raises(Exception, match="A task of this run failed"):
        Watcher(task_id="watcher").execute({})


def test_the_run_is_a_template_field() -> None:
    """Airflow puts the path in its place before ``execute``."""
    step = RunStep(task_id="a", run="{{ params.where }}", call="drain")
    step.render_template_fields({"params": {"where": "/runs/x"}})

    assert step.run == "/runs/x"
