"""Airflow with its web page, in the background: ``make up`` and ``make down``.

The api-server, the scheduler and the dag-processor share one session, by which ``down`` finds them all,
and the workers that a dead scheduler left (they ignore SIGTERM).
"""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from threading import Event
from typing import Any

from clusters.paths import ROOT
from history.errors import BadInput, HarnessError
from operators.airflow_home import airflow, environment, make_home
from operators.processes import send, session_members

HOME = ROOT / ".airflow"
ADDRESS = "127.0.0.1"
_COMPONENTS = ("api-server", "scheduler", "dag-processor")
_UP_LIMIT_S = 120.0
_DOWN_LIMIT_S = 15.0
_LOOK_S = 0.5


def up(port: int, home: Path = HOME) -> str:
    """Start Airflow unless it runs; returns the address of its page once all of it is healthy.

    Raises:
        BadInput: the port is in use.
        HarnessError: it did not come up; nothing of it is left.
    """
    url = f"http://{ADDRESS}:{port}"
    state = _read_state(home)
    if state and session_members(state["session"]):
        return f"http://{ADDRESS}:{state['port']}"
    _check_free(port)
    make_home(home)
    log = home / "airflow.log"
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            ["/bin/sh", "-c", " & ".join(shlex.join(airflow(name)) for name in _COMPONENTS) + " & wait"],
            env=environment(
                home,
                AIRFLOW__API__BASE_URL=url,
                AIRFLOW__API__HOST=ADDRESS,
                AIRFLOW__API__PORT=str(port),
                AIRFLOW__API__WORKERS="1",
                AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{url}/execution/",
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
    return url


def down(home: Path = HOME) -> bool:
    """End all of Airflow, orphaned workers included; says whether any of it ran."""
    state = _read_state(home)
    members = session_members(state["session"]) if state else []
    if members:
        send(signal.SIGTERM, members)
        deadline = time.monotonic() + _DOWN_LIMIT_S
        pause = Event()
        while session_members(state["session"]) and time.monotonic() < deadline:
            pause.wait(_LOOK_S)
        send(signal.SIGKILL, session_members(state["session"]))
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
