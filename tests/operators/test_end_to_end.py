"""The command behind ``make run`` with a real Airflow; Kafka, Spark and the page are fakes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clusters.waiting import wait_until
from history.events import read_events
from history.folder import RunFolder
from service import airflow
from tests.operators.calls import AFTERWARDS, ALWAYS, END, PHASE, START
from tests.operators.world import REPOSITORY, World, fake_world

LIMIT_S = 600  # on a busy host Airflow alone needs two minutes; this ends what hangs
pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose Airflow stays up for all tests."""
    with fake_world(tmp_path_factory.mktemp("world")) as world:
        airflow.up(airflow.free_port(), world.home)
        yield world


@dataclass(frozen=True)
class Command:
    """A running ``run steady``."""

    process: subprocess.Popen[str]
    folder: RunFolder
    world: World


def start(world: World, *words: str, **fakes: str) -> Command:
    """Start the command."""
    folder = RunFolder(world.folder / "runs" / world.begin(**fakes))
    process = subprocess.Popen(
        [sys.executable, "-m", "commands", "run", "steady", "--kafka", "3.9.1", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | world.environment(),
    )
    return Command(process, folder, world)


def run(world: World, *words: str, **fakes: str) -> tuple[Command, str, str]:
    """Run the command to its end; return stdout and stderr."""
    command = start(world, *words, **fakes)
    try:
        output, complaints = command.process.communicate(timeout=LIMIT_S)
    finally:
        command.process.kill()
    return command, output, complaints


def errors(folder: RunFolder) -> list[tuple[str, str, str]]:
    """Return (phase, step, why) of the run's error events."""
    events = [event for event in read_events(folder.events) if event.kind == "error"]
    return [(event.phase, event.step, event.detail["why"]) for event in events]


def test_a_run_goes_in_order_and_ends_with_its_verdict(world: World) -> None:
    """A run is recorded, collected, torn down, judged and published in this order, and exits with 0."""
    command, output, complaints = run(world)

    assert [*START, PHASE, *END, *ALWAYS, *AFTERWARDS] == world.calls
    assert [f"run: {command.folder.path}", "verdict: pass"] == output.splitlines()[-2:]
    assert "phase 1/1 steady … (about 10 s)" in output
    assert f"/dags/steady/runs/{command.folder.run_id}\n" in output
    assert (command.process.returncode, complaints) == (0, "")


def test_a_phase_that_breaks_is_recorded_collected_torn_down_and_judged(world: World) -> None:
    """If a phase fails, the rest of the experiment is skipped, and the run is collected, torn down and judged."""
    command, output, complaints = run(world, FAKE_BREAK="run_phase", FAKE_JUDGE="2")

    assert [*START, PHASE, *ALWAYS, *AFTERWARDS] == world.calls
    assert errors(command.folder) == [("steady", "run_phase", "RuntimeError: run_phase broke as asked")]
    assert output.splitlines()[-1] == "verdict: unknown"
    broke, advice = complaints.splitlines()
    assert broke == "The harness broke: RuntimeError: run_phase broke as asked"
    log = world.home / "logs" / "dag_id=steady" / f"run_id={command.folder.run_id}"
    assert advice == f"Once that is fixed, start a new run. Airflow's log: {log}"
    assert (log / "task_id=phase_1_steady").is_dir()
    assert command.process.returncode == 2


@pytest.mark.slow
def test_a_cluster_that_comes_up_half_is_collected_and_torn_down(world: World) -> None:
    """If the cluster's start fails, the setup task collects and tears down itself, since Airflow skips the teardown."""
    command, _, _ = run(world, FAKE_BREAK="start_cluster", FAKE_JUDGE="2")

    assert [*START[:2], *ALWAYS, *AFTERWARDS] == world.calls
    assert errors(command.folder) == [("", "start_cluster", "RuntimeError: start_cluster broke as asked")]
    assert command.process.returncode == 2


@pytest.mark.slow
def test_a_failed_verdict_is_published_and_told_by_the_exit_code(world: World) -> None:
    """A failed verdict is published and exits with 1, without an error message."""
    command, output, complaints = run(world, FAKE_JUDGE="1")

    assert world.calls[-2:] == AFTERWARDS
    assert output.splitlines()[-1] == "verdict: fail"
    assert (command.process.returncode, complaints) == (1, "")


@pytest.mark.slow
def test_a_failed_teardown_is_not_a_good_run(world: World) -> None:
    """If the teardown fails, the verdict stays and the exit code is 2."""
    command, output, _ = run(world, FAKE_BREAK="tear_down")

    assert output.splitlines()[-1] == "verdict: pass"
    assert command.process.returncode == 2


def test_an_airflow_that_does_not_answer_leaves_no_run(world: World) -> None:
    """A named Airflow that does not answer is rejected before anything is prepared."""
    command, output, complaints = run(world, "--airflow", "http://127.0.0.1:1")

    assert (command.process.returncode, output, world.calls) == (3, "", [])
    assert complaints.startswith("No Airflow answers at http://127.0.0.1:1 (ConnectError: ")
    assert not command.folder.path.exists()


@pytest.fixture
def hanging(world: World) -> Iterator[Command]:
    """A run that hangs in its phase."""
    command = start(world, FAKE_HANG="run_phase")
    try:
        wait_until(lambda: PHASE in world.calls, limit_s=LIMIT_S, what="the phase")
        yield command
    finally:
        world.set(FAKE_RUN=command.folder.run_id)
        command.process.kill()
        command.process.communicate()


@pytest.mark.parametrize(
    "by", [signal.SIGINT, *(pytest.param(other, marks=pytest.mark.slow) for other in (signal.SIGTERM, signal.SIGHUP))]
)
def test_an_interrupted_run_is_collected_and_torn_down_but_not_published(hanging: Command, by: signal.Signals) -> None:
    """An interrupted run exits with 130, is collected, sealed and torn down, and is not published."""
    hanging.process.send_signal(by)
    output, _ = hanging.process.communicate(timeout=LIMIT_S)

    assert [*START, PHASE, *ALWAYS] == hanging.world.calls
    assert hanging.folder.is_sealed
    assert "interrupted: collecting the recording and removing everything" in output
    assert f"run: {hanging.folder.path}" == output.splitlines()[-1]
    assert hanging.process.returncode == 130


def test_a_second_interrupt_does_not_wait(hanging: Command) -> None:
    """A second Ctrl-C ends the command, while the teardown goes on in an Airflow that stays; clean removes the rest."""
    hanging.world.set(FAKE_RUN=hanging.folder.run_id, FAKE_HANG="stop_clients")
    hanging.process.send_signal(signal.SIGINT)
    wait_until(lambda: "stop_clients" in hanging.world.calls, limit_s=LIMIT_S, what="the teardown")
    hanging.process.send_signal(signal.SIGINT)
    output, _ = hanging.process.communicate(timeout=LIMIT_S)

    assert output.splitlines()[-2].endswith(
        "the rest is left to the reaper (interrupted again); plimsoll clean removes it"
    )
    assert hanging.process.returncode == 130
    assert not (hanging.folder.work / "lease").exists()
    assert "tear_down" not in hanging.world.calls
    hanging.world.set(FAKE_RUN=hanging.folder.run_id)
    wait_until(lambda: "tear_down" in hanging.world.calls, limit_s=LIMIT_S, what="the teardown to end")


def test_a_killed_command_leaves_its_run_to_an_airflow_that_stays(hanging: Command) -> None:
    """If the command is killed, an Airflow that stays records, judges and publishes the run to its end."""
    hanging.process.kill()
    hanging.process.wait()
    hanging.world.set(FAKE_RUN=hanging.folder.run_id)
    wait_until(lambda: "publish" in hanging.world.calls, limit_s=LIMIT_S, what="the page")

    assert [*START, PHASE, *END, *ALWAYS, *AFTERWARDS] == hanging.world.calls


@pytest.mark.slow
def test_clean_ends_the_airflow_and_the_run_of_a_killed_command(tmp_path: Path) -> None:
    """If a command is killed that started Airflow itself, clean collects and removes the run, and ends Airflow."""
    with fake_world(tmp_path) as world:
        command = start(world, FAKE_HANG="run_phase")
        wait_until(lambda: PHASE in world.calls, limit_s=LIMIT_S, what="the phase")
        command.process.kill()
        command.process.communicate()
        words = [sys.executable, "-m", "commands", "clean"]
        cleaned = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=LIMIT_S)

        assert f"ending steady {command.folder.run_id}" in cleaned.stdout
        assert "removed what was left of: airflow, left-over" in cleaned.stdout
        assert [*START, PHASE, *ALWAYS] == world.calls
        assert command.folder.is_sealed
        assert airflow._processes(world.home) == []
