"""The same run under a real scheduler, as ``make up`` starts it; Kafka, Spark and the page are fakes."""

from __future__ import annotations

import ipaddress
import json
import os
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
    """The REST interface of a running Airflow."""

    url: str
    calls_file: Path

    @property
    def rest(self) -> Rest:
        return Rest(self.url)

    def trigger(self, dag_id: str) -> str:
        """Trigger a run, and once more if another task held SQLite's lock (docs/dev/traps.md)."""
        runs, body = f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": {}}
        try:
            answer = self.rest.ask(runs, body)
        except HTTPError as error:
            if error.code != HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            answer = self.rest.ask(runs, body)
        return str(answer["dag_run_id"])

    def run_dag(self, dag_id: str) -> tuple[str, dict[str, str], list[str]]:
        """Trigger a DAG and wait; return the run's state, the tasks' states and the calls."""
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


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Airflow]:
    """Airflow on a free port with a new home, stopped afterwards."""
    port = free_port()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE_WORLD), str(REPOSITORY)]))
    monkeypatch.setenv("FAKE_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PLIMSOLL_RUNS", str(tmp_path / "runs"))
    for name, value in getattr(request, "param", {}).items():
        monkeypatch.setenv(name, value)
    yield Airflow(service.url_of(service.up(port, tmp_path / "home").airflow), tmp_path / "calls")
    service.down(tmp_path / "home")


@pytest.mark.slow
def test_a_scheduler_runs_the_tasks_in_the_same_order(airflow: Airflow) -> None:
    """A scheduler runs the same calls in the same order as ``make run``, and all tasks succeed."""
    state, tasks, calls = airflow.run_dag("steady")

    assert [*START, PHASE, *END, *ALWAYS, *AFTERWARDS] == calls
    assert state == "success"
    assert {"success"} == set(tasks.values())


@pytest.mark.slow
@pytest.mark.parametrize("airflow", [{"FAKE_BREAK": "run_phase", "FAKE_JUDGE": "2"}], indirect=True)
def test_a_scheduler_gives_a_broken_run_the_same_colours(airflow: Airflow) -> None:
    """If a phase fails under a scheduler, the rest is skipped, the final tasks succeed, and the run fails."""
    state, tasks, calls = airflow.run_dag("steady")

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
def test_down_ends_every_process(airflow: Airflow, tmp_path: Path) -> None:
    """``down`` ends every process of the session; a second ``down`` has nothing to do."""
    home = tmp_path / "home"
    session = json.loads((home / "up.json").read_text())["session"]

    assert {process.pid for process in service._processes(home)} == session_members(session) != set()
    assert service.url_of(service.up(free_port(), home).airflow) == airflow.url  # it is up already, where it was
    assert service.down(home)
    assert session_members(session) == set()
    assert not service.down(home)


@pytest.mark.slow
def test_airflow_and_the_pages_listen_on_the_loopback_alone(airflow: Airflow, tmp_path: Path) -> None:
    """All processes of Airflow and the pages listen on the loopback only."""
    port = int(airflow.url.rpartition(":")[2])
    open_sockets = [
        each for process in service._processes(tmp_path / "home") for each in process.net_connections("inet")
    ]
    listening = {each.laddr for each in open_sockets if each.status == psutil.CONN_LISTEN}

    assert {(service.ADDRESS, port), (service.ADDRESS, port + 1)} <= listening
    hosts = {address.ip.removeprefix("::ffff:") for address in listening}
    assert [host for host in hosts if not ipaddress.ip_address(host).is_loopback] == []


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


@pytest.mark.slow
def test_metrics_are_served_beside_airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``up`` serves metrics if requested, and ``down`` ends them."""
    monkeypatch.setenv("PLIMSOLL_RUNS", str(tmp_path / "runs"))
    port, metrics_port = free_port(), free_port()
    try:
        assert service.up(port, tmp_path / "home", metrics_port=metrics_port).metrics == metrics_port
        with urllib.request.urlopen(metrics_endpoint.url_of(metrics_port), timeout=10) as answer:
            assert b"# TYPE plimsoll_replica_lag_records gauge" in answer.read()
    finally:
        service.down(tmp_path / "home")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(metrics_endpoint.url_of(metrics_port), timeout=10)
