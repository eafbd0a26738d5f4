"""Stages run in order and errors are recorded; the calls on a run are patched."""

from __future__ import annotations

import errno
import fcntl
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from clusters.run import experiment, leftovers, recorder
from clusters.run.recorder import perform, record, salvage
from clusters.run.stages import COLLECT, STOP_CLIENTS, TEAR_DOWN, Stage, stages
from clusters.scenario.scenario import load_scenario
from history.errors import HarnessError
from history.events import EventLog, read_events
from history.folder import RunFolder
from tests.clusters.fakes import plan_of, write_plan
from tests.clusters.noted import note_calls

PHASE = Stage("phase_2_lags", "phase 2/2 lags", 1.0, call="run_phase", arguments=(1, "lags"), phase="lags")
AFTER_THE_SEAL: dict[str, list[str]] = {"stop_clients": [], "collect": [], "tear_down": ["tear_down"]}  # calls of each


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A prepared run of a scenario with one phase, without jars or Docker."""
    run = tmp_path / "a-run"
    write_plan(run, plan_of(load_scenario("steady")))
    (run / "work" / "lease").write_text('{"expires_s": 0}')
    return run


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the calls on a run; ``collect`` seals it."""
    return note_calls(
        monkeypatch,
        *("start_cluster", "create_topics", "start_clients", "capture", "run_phase", "stop_producers"),
        *("quiesce", "drain", "stop_clients", "collect", "tear_down"),
    )


def breaking(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    """Let a call of the experiment raise this error."""

    def call(*_: object) -> None:
        raise error

    monkeypatch.setattr(experiment, name, call)


def errors(run: Path) -> list[tuple[str, str, Any]]:
    """Return (phase, step, why) of the run's error events."""
    events = read_events(RunFolder(run).events)
    return [(event.phase, event.step, event.detail["why"]) for event in events if event.kind == "error"]


def ends(run: Path) -> list[tuple[str, str]]:
    """Return (stage, state) of every ended stage, in order."""
    events = read_events(RunFolder(run).stages)
    return [(event.step, event.detail["state"]) for event in events if event.kind == "stage_ended"]


# --- one stage -------------------------------------------------------------------------------------


def test_a_stage_makes_its_call_and_tells_when(run: Path, calls: list[str]) -> None:
    """A stage makes its call and records start and end apart from the run's events."""
    perform(run, PHASE)
    began, ended = read_events(RunFolder(run).stages)

    assert calls == ["run_phase 1 lags"]
    assert (began.kind, began.step, ended.kind, ended.step) == ("stage_started", PHASE.name, "stage_ended", PHASE.name)
    assert ended.detail["state"] == "success"
    assert ended.detail["seconds"] >= 0
    assert not RunFolder(run).events.exists()


@pytest.mark.parametrize("error", [HarnessError("no broker"), KeyboardInterrupt("no broker")])
def test_what_breaks_is_recorded_and_passes_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """An error, an interrupt or a time-out of a call is recorded as an event and raised."""
    breaking(monkeypatch, "run_phase", error)

    with pytest.raises(type(error), match="no broker"):
        perform(run, PHASE)
    assert errors(run) == [("lags", "run_phase", f"{type(error).__name__}: no broker")]
    assert [event.detail.get("why") for event in read_events(RunFolder(run).stages)] == [None, errors(run)[0][2]]


def test_what_the_call_recorded_itself_is_not_recorded_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that the call recorded itself is not recorded twice."""
    EventLog(RunFolder(run).events).add("error", step="run_phase", why="HarnessError: no broker")
    breaking(monkeypatch, "run_phase", HarnessError("no broker"))

    with pytest.raises(HarnessError):
        perform(run, PHASE)
    assert errors(run) == [("", "run_phase", "HarnessError: no broker")]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("stage", stages(load_scenario("steady")), ids=lambda stage: stage.name)
def test_a_stage_that_is_cleared_after_the_seal_changes_nothing(
    run: Path, calls: list[str], stage: Stage, sealed: bool
) -> None:
    """On a sealed run, stages that need the cluster are rejected, and the final stages do nothing or only remove."""
    if sealed:
        RunFolder(run).seal()
    refused = sealed and stage.name not in AFTER_THE_SEAL
    said = rf"a-run was collected .* {stage.name} cannot run .*; trigger the DAG"
    with pytest.raises(HarnessError, match=said) if refused else nullcontext():
        perform(run, stage)

    assert [call.split()[0] for call in calls] == (AFTER_THE_SEAL.get(stage.name, []) if sealed else [stage.function])
    assert not sealed or RunFolder(run).check_seal() == []


def test_a_stage_acts_on_its_run_alone(run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage is rejected while another process works on the run, and accepted afterwards."""
    monkeypatch.setattr(Stage, "step_wait_s", 0.0)
    with (run / "work" / "step").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(HarnessError, match=r"for another task of a-run to end first; last seen: it goes on"):
            perform(run, PHASE)
        assert calls == []
    perform(run, PHASE)

    assert calls == ["run_phase 1 lags"]


def test_the_teardown_waits_for_nobody_who_does_not_end(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The teardown waits for another process of the run up to its limit, and then removes the run."""
    assert TEAR_DOWN.step_wait_s == STOP_CLIENTS.step_wait_s == 120
    monkeypatch.setattr(Stage, "step_wait_s", 0.0)
    with (run / "work" / "step").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        perform(run, TEAR_DOWN)

    assert calls == ["tear_down"]


def test_the_end_waits_for_a_phase_that_was_given_up(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collecting waits up to 120 s for a phase that was given up; the process that holds the run does not wait."""
    asked: list[float] = []
    monkeypatch.setattr(leftovers, "wait_until", lambda _, *, limit_s, **__: asked.append(limit_s))
    perform(run, STOP_CLIENTS)
    with leftovers.hold_step(run, 5.0):
        salvage(run)

    assert asked == [120.0, 5.0]
    assert calls == ["stop_clients", "stop_clients", "collect", "tear_down"]


def test_the_end_has_nothing_to_do_twice(run: Path, calls: list[str]) -> None:
    """Collecting twice is no error and collects once; the teardown runs each time."""
    for stage in (COLLECT, COLLECT, TEAR_DOWN, TEAR_DOWN):
        perform(run, stage)

    assert calls == ["collect", "tear_down", "tear_down"]
    assert RunFolder(run).check_seal() == []  # stages after the seal are recorded outside of the sealed files


# --- all of them -----------------------------------------------------------------------------------


def test_a_run_is_recorded_in_the_order_of_its_stages(run: Path, calls: list[str]) -> None:
    """A run's stages are called in order, and each ends in success."""
    EventLog(RunFolder(run).events).add("run_started")
    record(run)

    assert calls == [
        *("start_cluster", "create_topics", "start_clients", "capture before", "run_phase 0 steady", "stop_producers"),
        *("quiesce", "drain", "capture after", "stop_clients", "collect", "tear_down"),
    ]
    assert {state for _, state in ends(run)} == {"success"}
    assert len(ends(run)) == len(calls)
    assert errors(run) == []


def test_a_run_that_breaks_is_collected_and_torn_down(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails is still collected and torn down, its error recorded and raised."""
    breaking(monkeypatch, "create_topics", HarnessError("No topic."))

    with pytest.raises(HarnessError, match=r"No topic\."):
        record(run)

    assert calls == ["start_cluster", "stop_clients", "collect", "tear_down"]
    assert errors(run) == [("", "create_topics", "HarnessError: No topic.")]
    assert ends(run)[:2] == [("start_cluster", "success"), ("create_topics", "failed")]


@pytest.mark.parametrize("end", [recorder.record, recorder.salvage])
def test_a_run_that_cannot_be_collected_is_torn_down(
    end: Any, run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that cannot be collected is torn down."""
    breaking(monkeypatch, "collect", HarnessError("No room."))

    with pytest.raises(HarnessError, match=r"No room\."):
        end(run)
    assert calls[-2:] == ["stop_clients", "tear_down"]
    assert errors(run)[-1] == ("", "collect", "HarnessError: No room.")


def test_a_run_that_ended_between_two_stages_is_broken(run: Path, calls: list[str]) -> None:
    """No stage failed, but the run is not complete; its error names what did not run."""
    for stage in stages(load_scenario("steady"))[:3]:
        perform(run, stage)
    salvage(run)

    assert calls == ["start_cluster", "create_topics", "start_clients", "stop_clients", "collect", "tear_down"]
    assert errors(run) == [("", "collect", "capture_before did not complete.")]


def test_a_disk_that_takes_no_event_keeps_nothing_running(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If events cannot be written, the teardown still runs, and any other stage does not begin."""
    full = OSError(errno.ENOSPC, "No space left on device")

    def add(*_: object, **__: object) -> None:
        raise full

    monkeypatch.setattr(EventLog, "add", add)
    for stage in (TEAR_DOWN, PHASE):
        with pytest.raises(OSError, match="No space left"):
            perform(run, stage)

    assert calls == ["tear_down"]
