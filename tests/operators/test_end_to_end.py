"""The command behind ``make run`` with a real Airflow; Kafka, Spark and the page are stand-ins."""

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
    """The first home on a machine takes longer, and says so."""
    make_home(tmp_path_factory.mktemp("airflow") / "home")


@pytest.fixture(autouse=True)
def no_homes_left() -> Iterator[None]:
    """Homes that commands kept for their log go after the test."""
    before = set((HOMES / "runs").glob("test-*"))
    yield
    for home in set((HOMES / "runs").glob("test-*")) - before:
        shutil.rmtree(home)


@dataclass(frozen=True)
class Command:
    """A started ``run --scenario steady`` and where it notes its calls."""

    process: subprocess.Popen[str]
    folder: RunFolder
    calls_file: Path

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


def start(tmp_path: Path, **fakes: str) -> Command:
    """Start the command, with stand-ins told by ``FAKE_…`` variables."""
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
    """Start the command and wait; returns what it said on stdout and stderr."""
    command = start(tmp_path, **fakes)
    try:
        output, complaints = command.process.communicate(timeout=LIMIT_S)
    finally:
        command.process.kill()
    return command, output, complaints


def errors(folder: RunFolder) -> list[tuple[str, str, str]]:
    """(phase, step, why) of the run's error events."""
    events = [event for event in read_events(folder.events) if event.kind == "error"]
    return [(event.phase, event.step, event.detail["why"]) for event in events]


def test_a_run_goes_in_order_and_ends_with_its_verdict(tmp_path: Path) -> None:
    """Recorded, collected, torn down, only then judged and published; exit code 0 and two lines for machines."""
    command, output, complaints = run(tmp_path)

    assert [*SETUP, PHASE, *END, *ALWAYS, *AFTERWARDS] == command.calls
    assert [f"run: {command.folder.path}", "verdict: pass"] == output.splitlines()[-2:]
    assert "phase 1/1 steady … (about 10 s)" in output
    assert (command.process.returncode, complaints) == (0, "")
    assert not (HOMES / "runs" / command.folder.run_id).exists()


def test_a_phase_that_breaks_is_recorded_collected_torn_down_and_judged(tmp_path: Path) -> None:
    """The rest of the experiment is left out, nothing else is; the sentence says what broke."""
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
    """No teardown follows a setup that failed, so that the setup cleans up itself."""
    command, _, _ = run(tmp_path, FAKE_BREAK="start_cluster", FAKE_JUDGE="2")

    assert [*SETUP[:3], *ALWAYS, *AFTERWARDS] == command.calls
    assert errors(command.folder) == [("", "start_cluster", "RuntimeError: start_cluster broke as asked")]
    assert command.process.returncode == 2


@pytest.mark.slow
def test_a_failed_verdict_is_published_and_told_by_the_exit_code(tmp_path: Path) -> None:
    """The judge's task is red; that is a result, not a broken harness."""
    command, output, complaints = run(tmp_path, FAKE_JUDGE="1")

    assert command.calls[-2:] == AFTERWARDS
    assert output.splitlines()[-1] == "verdict: fail"
    assert (command.process.returncode, complaints) == (1, "")


@pytest.mark.slow
def test_a_failed_teardown_is_not_a_good_run(tmp_path: Path) -> None:
    """The verdict stands, the exit code says that something was left."""
    command, output, _ = run(tmp_path, FAKE_BREAK="tear_down")

    assert output.splitlines()[-1] == "verdict: pass"
    assert command.process.returncode == 2


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Command]:
    """A run that is in its phase and will not leave it."""
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
    """Ctrl-C in a phase, or a closed terminal: exit code 130, a sealed folder, and no task after the teardown has its
    way.
    """
    hanging.process.send_signal(by)
    output, _ = hanging.process.communicate(timeout=LIMIT_S)

    assert [*SETUP, PHASE, *ALWAYS] == [call for call in hanging.calls if call not in AFTERWARDS]
    assert hanging.folder.is_sealed
    assert f"run: {hanging.folder.path}" == output.splitlines()[-1]
    assert hanging.process.returncode == 130
