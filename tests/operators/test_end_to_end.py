"""The command behind ``make run`` with a real Airflow; Kafka, Spark and the page are fakes."""

from __future__ import annotations

import os
import secrets
import shutil
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
from operators.airflow_home import HOMES, make_home
from tests.operators.calls import AFTERWARDS, ALWAYS, END, PHASE, START

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE_WORLD = Path(__file__).parent / "fake_world"
LIMIT_S = 600  # on a busy host Airflow alone needs two minutes; this ends what hangs
pytestmark = pytest.mark.pipeline

SETUP = ["reap False", *START]


@pytest.fixture(scope="module", autouse=True)
def _airflow_is_prepared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Creates the first Airflow home in advance, since that takes longer."""
    make_home(tmp_path_factory.mktemp("airflow") / "home")


@pytest.fixture(autouse=True)
def no_homes_left() -> Iterator[None]:
    """Removes homes that commands kept for their log."""
    before = set((HOMES / "runs").glob("test-*"))
    yield
    for home in set((HOMES / "runs").glob("test-*")) - before:
        shutil.rmtree(home)


@dataclass(frozen=True)
class Command:
    """A running ``run --scenario steady`` and the file of its calls."""

    process: subprocess.Popen[str]
    folder: RunFolder
    calls_file: Path

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


def start(tmp_path: Path, **fakes: str) -> Command:
    """Start the command, with fakes controlled by ``FAKE_…`` variables."""
    calls = tmp_path / "calls"
    run_id = f"test-{secrets.token_hex(4)}"
    environment = {
        **os.environ,
        **fakes,
        "FAKE_CALLS": str(calls),
        "FAKE_RUN": run_id,
        "PYTHONPATH": os.pathsep.join([str(FAKE_WORLD), str(REPOSITORY)]),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "commands", "run", "steady", "--kafka", "3.9.1", "--runs", tmp_path],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    return Command(process, RunFolder(tmp_path / run_id), calls)


def run(tmp_path: Path, **fakes: str) -> tuple[Command, str, str]:
    """Run the command to its end; return stdout and stderr."""
    command = start(tmp_path, **fakes)
    try:
        output, complaints = command.process.communicate(timeout=LIMIT_S)
    finally:
        command.process.kill()
    return command, output, complaints


def errors(folder: RunFolder) -> list[tuple[str, str, str]]:
    """Return (phase, step, why) of the run's error events."""
    events = [event for event in read_events(folder.events) if event.kind == "error"]
    return [(event.phase, event.step, event.detail["why"]) for event in events]


def test_a_run_goes_in_order_and_ends_with_its_verdict(tmp_path: Path) -> None:
    """A run is recorded, collected, torn down, judged and published in this order, and exits with 0."""
    command, output, complaints = run(tmp_path)

    assert [*SETUP, PHASE, *END, *ALWAYS, *AFTERWARDS] == command.calls
    assert [f"run: {command.folder.path}", "verdict: pass"] == output.splitlines()[-2:]
    assert "phase 1/1 steady … (about 10 s)" in output
    assert (command.process.returncode, complaints) == (0, "")
    assert not (HOMES / "runs" / command.folder.run_id).exists()


def test_a_phase_that_breaks_is_recorded_collected_torn_down_and_judged(tmp_path: Path) -> None:
    """If a phase fails, the rest of the experiment is skipped, and the run is collected, torn down and judged."""
    command, output, complaints = run(tmp_path, FAKE_BREAK="run_phase", FAKE_JUDGE="2")

    assert [*SETUP, PHASE, *ALWAYS, *AFTERWARDS] == command.calls
    assert errors(command.folder) == [("steady", "run_phase", "RuntimeError: run_phase broke as asked")]
    assert output.splitlines()[-1] == "verdict: unknown"
    broke, advice = complaints.splitlines()
    assert broke == "The harness broke: RuntimeError: run_phase broke as asked"
    assert advice.startswith("Once that is fixed, start a new run. Airflow's log: ")
    assert command.process.returncode == 2
    assert (HOMES / "runs" / command.folder.run_id / "airflow.log").is_file()


@pytest.mark.slow
def test_a_cluster_that_comes_up_half_is_collected_and_torn_down(tmp_path: Path) -> None:
    """If the cluster's start fails, the setup task collects and tears down itself, since Airflow skips the teardown."""
    command, _, _ = run(tmp_path, FAKE_BREAK="start_cluster", FAKE_JUDGE="2")

    assert [*SETUP[:3], *ALWAYS, *AFTERWARDS] == command.calls
    assert errors(command.folder) == [("", "start_cluster", "RuntimeError: start_cluster broke as asked")]
    assert command.process.returncode == 2


@pytest.mark.slow
def test_a_failed_verdict_is_published_and_told_by_the_exit_code(tmp_path: Path) -> None:
    """A failed verdict is published and exits with 1, without an error message."""
    command, output, complaints = run(tmp_path, FAKE_JUDGE="1")

    assert command.calls[-2:] == AFTERWARDS
    assert output.splitlines()[-1] == "verdict: fail"
    assert (command.process.returncode, complaints) == (1, "")


@pytest.mark.slow
def test_a_failed_teardown_is_not_a_good_run(tmp_path: Path) -> None:
    """If the teardown fails, the verdict stays and the exit code is 2."""
    command, output, _ = run(tmp_path, FAKE_BREAK="tear_down")

    assert output.splitlines()[-1] == "verdict: pass"
    assert command.process.returncode == 2


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Command]:
    """A run that hangs in its phase."""
    command = start(tmp_path, FAKE_HANG="run_phase")
    try:
        wait_until(lambda: PHASE in command.calls, limit_s=LIMIT_S, what="the phase")
        yield command
    finally:
        command.process.kill()
        command.process.communicate()


@pytest.mark.parametrize(
    "by", [signal.SIGINT, *(pytest.param(other, marks=pytest.mark.slow) for other in (signal.SIGTERM, signal.SIGHUP))]
)
def test_an_interrupted_run_is_collected_and_torn_down_but_not_published(hanging: Command, by: signal.Signals) -> None:
    """An interrupted run exits with 130, is collected, sealed and torn down, and is not published."""
    hanging.process.send_signal(by)
    output, _ = hanging.process.communicate(timeout=LIMIT_S)

    assert [*SETUP, PHASE, *ALWAYS] == [call for call in hanging.calls if call not in AFTERWARDS]
    assert hanging.folder.is_sealed
    assert f"run: {hanging.folder.path}" == output.splitlines()[-1]
    assert hanging.process.returncode == 130
