"""The same run under a real scheduler, as ``make up`` starts it; Kafka, Spark and the page are fakes."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from threading import Event
from urllib.error import HTTPError

import psutil
import pytest

from clusters.waiting import wait_until
from history.errors import BadInput
from operators import metrics_endpoint, service
from tests.acceptance.under_airflow import Rest, free_port
from tests.operators.calls import AFTERWARDS, ALWAYS, END, PHASE, START

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE_WORLD = Path(__file__).parent / "fake_world"


@dataclass(frozen=True)
class Airflow:
    """A running Airflow: its home, its ports, and the files of the fakes."""

    home: Path
    ports: service.Ports
    calls_file: Path
    settings_file: Path

    @property
    def url(self) -> str:
        return service.url_of(self.ports.airflow)

    @property
    def rest(self) -> Rest:
        return Rest(self.url)

    def trigger(self, dag_id: str) -> str:
        """Trigger a run, and once more if another task held SQLite's lock (docs/dev/traps.md)."""
        runs, body = f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": {"kafka": "3.9.1"}}
        try:
            answer = self.rest.ask(runs, body)
        except HTTPError as error:
            if error.code != HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            answer = self.rest.ask(runs, body)
        return str(answer["dag_run_id"])

    def run_dag(self, dag_id: str, **fakes: str) -> tuple[str, dict[str, str], list[str]]:
        """Trigger a DAG and wait; return the run's state, the tasks' states and the calls."""
        self.settings_file.write_text(json.dumps({"FAKE_RUN": f"run-{secrets.token_hex(4)}", **fakes}))
        self.calls_file.write_text("")
        runs = f"dags/{dag_id}/dagRuns"
        run_id = self.trigger(dag_id)
        state = "queued"
        for _ in range(240):
            state = self.rest.ask(f"{runs}/{run_id}")["state"]
            if state in ("success", "failed"):
                break
            Event().wait(0.5)
        tasks = self.rest.ask(f"{runs}/{run_id}/taskInstances")["task_instances"]
        calls = [call for call in self.calls_file.read_text().splitlines() if call != "reap False"]  # the reaper's own
        return state, {task["task_id"]: task["state"] for task in tasks}, calls


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an Airflow, which is stopped at the end."""
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "settings").write_text("{}")
    yield folder
    service.down(folder / "home")


@pytest.fixture
def airflow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """Airflow with metrics on free ports, started unless it is up since an earlier test."""
    calls, settings = folder / "calls", folder / "settings"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE_WORLD), str(REPOSITORY)]))
    monkeypatch.setenv("FAKE_CALLS", str(calls))
    monkeypatch.setenv("FAKE_SETTINGS", str(settings))
    monkeypatch.setenv("PLIMSOLL_RUNS", str(folder / "runs"))
    ports = service.up(free_port(), folder / "home", metrics_port=free_port())
    return Airflow(folder / "home", ports, calls, settings)


@pytest.mark.slow
def test_a_scheduler_runs_the_tasks_in_the_same_order(airflow: Airflow) -> None:
    """A scheduler runs the same calls in the same order as ``make run``, and all tasks succeed."""
    state, tasks, calls = airflow.run_dag("steady")

    assert [*START, PHASE, *END, *ALWAYS, *AFTERWARDS] == calls
    assert state == "success"
    assert {"success"} == set(tasks.values())


@pytest.mark.slow
def test_a_scheduler_gives_a_broken_run_the_same_colours(airflow: Airflow) -> None:
    """If a phase fails under a scheduler, the rest is skipped, the final tasks succeed, and the run fails."""
    state, tasks, calls = airflow.run_dag("steady", FAKE_BREAK="run_phase", FAKE_JUDGE="2")

    assert calls[-5:] == [*ALWAYS, *AFTERWARDS]
    assert state == "failed"
    assert [tasks[name] for name in ("phase_1_steady", "stop_producers", "capture_after")] == [
        "failed",
        "upstream_failed",
        "upstream_failed",
    ]
    assert [tasks[name] for name in ("collect", "tear_down", "judge", "publish", "watcher")] == [
        "success",
        "success",
        "failed",
        "success",
        "failed",
    ]


def session_members(session: int) -> set[int]:
    """Return the pids of a session's live processes."""
    living = (process for process in psutil.process_iter(["status"]) if process.info["status"] != psutil.STATUS_ZOMBIE)
    found = set()
    for process in living:
        with suppress(ProcessLookupError):
            if os.getsid(process.pid) == session:
                found.add(process.pid)
    return found


@pytest.mark.slow
def test_airflow_and_the_pages_listen_on_the_loopback_alone(airflow: Airflow) -> None:
    """All processes of Airflow and the pages listen on the loopback only."""
    port, metrics_port = airflow.ports
    open_sockets = [each for process in service._processes(airflow.home) for each in process.net_connections("inet")]
    listening = {each.laddr for each in open_sockets if each.status == psutil.CONN_LISTEN}

    assert {(service.ADDRESS, each) for each in (port, port + 1, metrics_port)} <= listening
    hosts = {address.ip.removeprefix("::ffff:") for address in listening}
    assert [host for host in hosts if not ipaddress.ip_address(host).is_loopback] == []


def metrics_address(airflow: Airflow) -> str:
    """Return the address of the metrics."""
    assert airflow.ports.metrics is not None
    return metrics_endpoint.url_of(airflow.ports.metrics)


@pytest.mark.slow
def test_metrics_are_served_beside_airflow(airflow: Airflow) -> None:
    """``up`` serves metrics if requested."""
    with urllib.request.urlopen(metrics_address(airflow), timeout=10) as answer:
        assert b"# TYPE plimsoll_replica_lag_records gauge" in answer.read()


@pytest.mark.slow
def test_down_ends_every_process(airflow: Airflow) -> None:
    """``down`` ends every process of the session, the metrics' too; a second ``down`` has nothing to do."""
    session = json.loads((airflow.home / "up.json").read_text())["session"]

    assert {process.pid for process in service._processes(airflow.home)} == session_members(session) != set()
    assert service.up(free_port(), airflow.home) == airflow.ports  # it is up already, where it was
    assert service.down(airflow.home)
    assert session_members(session) == set()
    assert not service.down(airflow.home)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(metrics_address(airflow), timeout=10)


def test_what_ends_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that exits is started again; its command keeps blanks and quotes."""
    monkeypatch.setattr(service, "_AGAIN_S", 0.01)
    starts = tmp_path / "what it's started"
    command = ["sh", "-c", 'echo x >> "$0"', str(starts)]
    shell = subprocess.Popen(["/bin/sh", "-c", f"{service._kept(command)} wait"], start_new_session=True)
    try:
        wait_until(lambda: starts.exists() and starts.read_text().count("x") >= 3, limit_s=20, what="three starts")
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """A port in use is rejected before anything starts, and no home is created."""
    with socket.create_server((service.ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=rf"Port {port} .* choose another by PORT="):
            service.up(port, tmp_path / "home")

    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("neighbour", [0, 1])
def test_the_metrics_have_a_port_of_their_own(tmp_path: Path, neighbour: int) -> None:
    """The metrics port must differ from Airflow's and the pages' port."""
    port = free_port()
    with pytest.raises(BadInput, match=rf"--metrics-port={port + neighbour} is the port of other pages"):
        service.up(port, tmp_path / "home", metrics_port=port + neighbour)

    assert not (tmp_path / "home").exists()
