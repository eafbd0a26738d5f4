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
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from clusters.waiting import wait_until
from history.errors import BadInput
from service import airflow, metrics_endpoint
from service.api import ACTIVE, Address, Airflow
from tests.acceptance.under_airflow import Rest
from tests.operators.calls import AFTERWARDS, ALWAYS, END, PHASE, START
from tests.operators.world import World, fake_world


class Running(NamedTuple):
    """A running Airflow with its world and ports."""

    world: World
    ports: airflow.Ports

    def run_dag(self, dag_id: str, **fakes: str) -> tuple[str, dict[str, str | None], list[str]]:
        """Trigger a DAG and wait; return the run's state, the tasks' states and the calls."""
        run_id = self.world.begin(**fakes)
        api = Airflow(Address(airflow.url_of(self.ports.airflow), home=self.world.home))
        api.check(dag_id)
        api.trigger(dag_id, {"kafka": "3.9.1"}, run_id)
        wait_until(lambda: api.state(dag_id, run_id) not in ACTIVE, limit_s=120, every_s=0.5, what="the run to end")
        return api.state(dag_id, run_id), api.tasks(dag_id, run_id), self.world.calls


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose Airflow is stopped at the end."""
    with fake_world(tmp_path_factory.mktemp("airflow")) as world:
        yield world


@pytest.fixture
def running(world: World) -> Running:
    """Airflow with metrics on free ports, started unless it is up since an earlier test."""
    return Running(world, airflow.up(airflow.free_port(), world.home, metrics_port=airflow.free_port()))


@pytest.mark.slow
def test_a_scheduler_prepares_the_run_and_runs_the_tasks_in_the_same_order(running: Running) -> None:
    """A run that Airflow prepares has the same calls in the same order as ``make run``, and all tasks succeed.

    DAGs that are scheduled on runs get an event with its verdict.
    """
    state, tasks, calls = running.run_dag("steady")
    events = Rest(airflow.url_of(running.ports.airflow)).ask("assets/events?order_by=-timestamp")["asset_events"]

    assert [*START, PHASE, *END, *ALWAYS, *AFTERWARDS] == calls
    assert state == "success"
    assert {"success"} == set(tasks.values())
    assert [(event["uri"], event["extra"]["verdict"]) for event in events] == [("plimsoll://runs/", "pass")]


@pytest.mark.slow
def test_a_scheduler_gives_a_broken_run_the_same_colours(running: Running) -> None:
    """If a phase fails under a scheduler, the rest is skipped, the final tasks succeed, and the run fails."""
    state, tasks, calls = running.run_dag("steady", FAKE_BREAK="run_phase", FAKE_JUDGE="2")

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
def test_airflow_and_the_pages_listen_on_the_loopback_alone(running: Running) -> None:
    """All processes of Airflow and the pages listen on the loopback only."""
    port, metrics_port = running.ports
    open_sockets = [
        each for process in airflow._processes(running.world.home) for each in process.net_connections("inet")
    ]
    listening = {each.laddr for each in open_sockets if each.status == psutil.CONN_LISTEN}

    assert {(airflow.ADDRESS, each) for each in (port, port + 1, metrics_port)} <= listening
    hosts = {address.ip.removeprefix("::ffff:") for address in listening}
    assert [host for host in hosts if not ipaddress.ip_address(host).is_loopback] == []


def metrics_address(running: Running) -> str:
    """Return the address of the metrics."""
    assert running.ports.metrics is not None
    return metrics_endpoint.url_of(running.ports.metrics)


@pytest.mark.slow
def test_metrics_are_served_beside_airflow(running: Running) -> None:
    """``up`` serves metrics if requested."""
    with urllib.request.urlopen(metrics_address(running), timeout=10) as answer:
        assert b"# TYPE plimsoll_replica_lag_records gauge" in answer.read()


@pytest.mark.slow
def test_down_ends_every_process(running: Running) -> None:
    """``down`` ends every process of the session, the metrics' too; a second ``down`` has nothing to do."""
    session = json.loads((running.world.home / "up.json").read_text())["sessions"][0]

    assert {process.pid for process in airflow._processes(running.world.home)} == session_members(session) != set()
    assert airflow.up(airflow.free_port(), running.world.home) == running.ports  # it is up already, where it was
    assert airflow.down(running.world.home)
    assert session_members(session) == set()
    assert not airflow.down(running.world.home)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(metrics_address(running), timeout=10)


def test_what_ends_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that exits is started again; its command keeps blanks and quotes."""
    monkeypatch.setattr(airflow, "_AGAIN_S", 0.01)
    starts = tmp_path / "what it's started"
    command = ["sh", "-c", 'echo x >> "$0"', str(starts)]
    shell = subprocess.Popen(["/bin/sh", "-c", f"{airflow._kept(command)} wait"], start_new_session=True)
    try:
        wait_until(lambda: starts.exists() and starts.read_text().count("x") >= 3, limit_s=20, what="three starts")
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """A port in use is rejected before anything starts, and no home is created."""
    with socket.create_server((airflow.ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=rf"Port {port} .* choose another by PORT="):
            airflow.up(port, tmp_path / "home")

    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("neighbour", [0, 1])
def test_the_metrics_have_a_port_of_their_own(tmp_path: Path, neighbour: int) -> None:
    """The metrics port must differ from Airflow's and the pages' port."""
    port = airflow.free_port()
    with pytest.raises(BadInput, match=rf"--metrics-port={port + neighbour} is the port of other pages"):
        airflow.up(port, tmp_path / "home", metrics_port=port + neighbour)

    assert not (tmp_path / "home").exists()
