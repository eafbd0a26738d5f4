"""Airflow with its web page, and the pages of runs and campaigns beside it: ``make up`` and ``make down``.

The api-server, the scheduler and the dag-processor share one session, by which ``down`` finds them all,
and the workers that a dead scheduler left (they ignore SIGTERM).
"""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusters.paths import ROOT
from clusters.waiting import wait_until
from history import extras
from history.errors import BadInput, HarnessError, WaitTimeout
from operators.airflow_home import airflow, environment, make_home, migrate
from operators.processes import send, session_members
from operators.steps import runs_folder

HOME = ROOT / ".airflow"
ADDRESS = "127.0.0.1"
_COMPONENTS = ("api-server", "scheduler", "dag-processor")
# What runs beside benchmarks leaves them the CPUs.
_CALM = {
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
}
_UP_LIMIT_S = 120.0
_DOWN_LIMIT_S = 15.0
_LOOK_S = 0.5


def url_of(port: int) -> str:
    """The address of Airflow's page; the other pages are at the next port's."""
    return f"http://{ADDRESS}:{port}"


def up(port: int, home: Path = HOME, database: str | None = None) -> int:
    """Start Airflow unless it runs; returns its port once all of it is healthy.

    ``database`` is the address of a PostgreSQL database that exists; without it SQLite in ``home`` serves.

    Raises:
        BadInput: the port is in use, or the address is no PostgreSQL's.
        HarnessError: it did not come up, and nothing of it is left; or one that was up before does not answer.
    """
    state = _read_state(home)
    if state and session_members(state["session"]):
        before = int(state["port"])
        if not _health(url_of(before)):
            raise HarnessError(f"Airflow is up, but does not answer at {url_of(before)}; end it by make down.")
        return before
    url = url_of(port)
    _check_free(port)
    _check_free(port + 1)
    variables = _database(database)
    make_home(home)
    if variables:
        migrate(home, **variables)
    log = home / "airflow.log"
    pages = [sys.executable, "-m", "operators.pages_server", str(port + 1), str(runs_folder().resolve())]
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            ["/bin/sh", "-c", " & ".join(map(shlex.join, [*map(airflow, _COMPONENTS), pages])) + " & wait"],
            env=environment(
                home,
                AIRFLOW__API__BASE_URL=url,
                AIRFLOW__API__HOST=ADDRESS,
                AIRFLOW__API__PORT=str(port),
                AIRFLOW__API__WORKERS="1",
                AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{url}/execution/",
                **_CALM,
                **variables,
            ),
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        )
    _state_file(home).write_text(json.dumps({"session": process.pid, "port": port, "boot_id": _boot_id()}))
    try:
        _await_health(url, process, log)
    except BaseException:
        down(home)
        raise
    return port


def _database(address: str | None) -> dict[str, str]:
    if address is None:
        return {}
    if not address.startswith("postgresql://"):
        raise BadInput("DB= is no PostgreSQL database's address, which begins as in postgresql://user@host/airflow.")
    extras.require("postgres", "psycopg2", "DB=postgresql://…")
    return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": address.replace("postgresql://", "postgresql+psycopg2://", 1)}


def down(home: Path = HOME) -> bool:
    """End all of Airflow, orphaned workers included; says whether any of it ran."""
    state = _read_state(home)
    members = session_members(state["session"]) if state else []
    if members:
        for number in (signal.SIGTERM, signal.SIGKILL):
            send(number, session_members(state["session"]))
            with suppress(WaitTimeout):
                wait_until(
                    lambda: not session_members(state["session"]),
                    limit_s=_DOWN_LIMIT_S,
                    every_s=_LOOK_S,
                    what="Airflow to be gone",
                )
    _state_file(home).unlink(missing_ok=True)
    return bool(members)


def _await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _UP_LIMIT_S
    health: dict[str, Any] = {}
    while time.monotonic() < deadline:
        health = _health(url)
        if all(
            health.get(name, {}).get("status") == "healthy" for name in ("metadatabase", "scheduler", "dag_processor")
        ):
            return
        try:
            process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            continue
        break
    raise HarnessError(f"Airflow did not come up at {url} (last seen: {health or 'no answer'}); see {log}.")


def _health(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=2) as answer:
            health: dict[str, Any] = json.load(answer)
            return health
    except (OSError, ValueError):
        return {}


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except (OSError, OverflowError) as error:
            raise BadInput(
                f"Port {port} of {ADDRESS} cannot be had ({error}); choose another by PORT=<number>."
            ) from error


def _state_file(home: Path) -> Path:
    return home / "up.json"


def _read_state(home: Path) -> dict[str, Any]:
    """What ``up`` noted, if that was since the machine booted: session numbers are used again."""
    try:
        state: dict[str, Any] = json.loads(_state_file(home).read_text())
    except FileNotFoundError:
        return {}
    return state if state["boot_id"] == _boot_id() else {}


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
