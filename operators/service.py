"""Start and end Airflow with its web page, and the pages and metrics of runs (``plimsoll up``, ``plimsoll down``).

Api-server, scheduler and dag-processor share a session and an Airflow home. ``down`` finds them by both, with a dead
scheduler's workers (they ignore SIGTERM): session numbers are reused, and runs' nodes have the same home.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from clusters.paths import ROOT, runs_folder
from clusters.runtimes.process import NODE_VARIABLE
from clusters.waiting import wait_until
from history import extras
from history.errors import BadInput, HarnessError, WaitTimeout
from history.folder import write_atomically
from operators.airflow_home import PAGES, airflow, environment, make_home, migrate
from operators.processes import lives, with_variable

HOME = ROOT / ".airflow"
ADDRESS = "127.0.0.1"
# The scheduler would serve task logs on all addresses; the api-server reads the files.
_COMPONENTS = (("api-server",), ("scheduler", "--skip-serve-logs"), ("dag-processor",))
# Airflow leaves the CPUs to benchmarks.
_CALM = {
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
}
_UP_LIMIT_S = 120.0
_DOWN_LIMIT_S = 15.0
_LOOK_S = 0.5
_WATCHED = ("metadatabase", "scheduler", "dag_processor")  # components in Airflow's health report
_AGAIN_S = 5.0  # before an ended component restarts
_ENDED = "plimsoll: ended, restarting: "
_SHOWN = 10  # lines of the log
_MAX_ENDS = 3  # of a component, before start-up fails


def url_of(port: int) -> str:
    """Return the address of Airflow's page; the next port has the other pages."""
    return f"http://{ADDRESS}:{port}"


class Ports(NamedTuple):
    """Airflow's port, and that of the runs' metrics, if served."""

    airflow: int
    metrics: int | None


def up(port: int, home: Path = HOME, database: str | None = None, metrics_port: int | None = None) -> Ports:
    """Start Airflow unless it runs; return its ports once all components are healthy.

    ``database`` is the address of an existing PostgreSQL database; the default is SQLite in ``home``.

    Raises:
        BadInput: a port is in use, or the address is not PostgreSQL's.
        HarnessError: it did not start and was removed, or an earlier one does not respond.
    """
    if _processes(home):
        state = _read_state(home)
        if "port" not in state:
            raise HarnessError(f"Processes of an earlier Airflow run in {home}; end them by plimsoll down.")
        before = Ports(int(state["port"]), state.get("metrics_port"))
        if not _health(url_of(before.airflow)):
            url = url_of(before.airflow)
            raise HarnessError(f"Airflow is up, but does not answer at {url}; end it by plimsoll down.")
        return before
    url = url_of(port)
    _check_free(port)
    _check_free(port + 1)
    if metrics_port is not None:
        if metrics_port in (port, port + 1):
            raise BadInput(f"--metrics-port={metrics_port} is the port of other pages; choose another.")
        _check_free(metrics_port, "METRICS_PORT")
    variables = _database(database)
    make_home(home)
    if variables:
        migrate(home, **variables)
    _state_file(home).unlink(missing_ok=True)  # of one that has ended
    log = home / "airflow.log"
    servers = [_server("pages_server", port + 1, port)]
    if metrics_port is not None:
        servers.append(_server("metrics_endpoint", metrics_port))
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            ["/bin/sh", "-c", " ".join(map(_kept, [*starmap(airflow, _COMPONENTS), *servers])) + " wait"],
            env=environment(
                home,
                AIRFLOW__API__BASE_URL=url,
                AIRFLOW__API__HOST=ADDRESS,
                AIRFLOW__API__PORT=str(port),
                AIRFLOW__API__WORKERS="1",
                AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{url}/execution/",
                AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "operators" / "plugins"),
                **{PAGES: url_of(port + 1)},
                **_CALM,
                **variables,
            ),
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        state = {"session": process.pid, "port": port, "metrics_port": metrics_port}
        write_atomically(_state_file(home), json.dumps(state))
        _await_health(url, log)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # new processes do not show the variable yet
        down(home)
        raise
    return Ports(port, metrics_port)


def _kept(command: Sequence[str]) -> str:
    """Return a shell command that restarts a component: without its database a scheduler ends, and could tear down no
    run.
    """
    words = shlex.join(command)
    return f"while :; do {words}; echo {shlex.quote(_ENDED + words)}; sleep {_AGAIN_S:g}; done &"


def _server(module: str, port: int, *others: int) -> list[str]:
    return [sys.executable, "-m", f"operators.{module}", str(port), str(runs_folder().resolve()), *map(str, others)]


def _database(address: str | None) -> dict[str, str]:
    if address is None:
        return {}
    if not address.startswith("postgresql://"):
        raise BadInput("--db must be a PostgreSQL address such as postgresql://user@host/airflow.")
    extras.require("postgres", "psycopg2", "--db=postgresql://…")
    return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": address.replace("postgresql://", "postgresql+psycopg2://", 1)}


def down(home: Path = HOME) -> bool:
    """End all of Airflow with orphaned workers; return whether any of it ran."""
    found = ending = _processes(home)
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for process in ending:
            with suppress(psutil.NoSuchProcess):
                end(process)
        with suppress(WaitTimeout):
            gone = partial(_have_ended, ending)
            wait_until(gone, limit_s=_DOWN_LIMIT_S, every_s=_LOOK_S, what="Airflow to end")
        ending = [*filter(lives, ending), *_processes(home)]
    _state_file(home).unlink(missing_ok=True)
    return bool(found)


def _have_ended(processes: list[psutil.Process]) -> bool:
    return not any(map(lives, processes))


def _processes(home: Path) -> list[psutil.Process]:
    """Return the recorded Airflow's processes; without a readable record, of all started here."""
    session = _read_state(home).get("session")
    found = with_variable("AIRFLOW_HOME", str(home))
    if session is None:
        return [process for process in found if _is_airflows(process.info["environ"])]
    return [process for process in found if _session(process) == session]


def _is_airflows(environment: Mapping[str, str]) -> bool:
    """Return whether a process is Airflow's: a user's shell lacks the pages' address, and runs' nodes have a name."""
    return PAGES in environment and NODE_VARIABLE not in environment


def _session(process: psutil.Process) -> int:
    with suppress(ProcessLookupError):
        return os.getsid(process.pid)
    return -1


def _await_health(url: str, log: Path) -> None:
    wait_until(
        lambda: _may_come_up(log) and _is_healthy(_health(url)),
        limit_s=_UP_LIMIT_S,
        every_s=_LOOK_S,
        what=f"Airflow to start at {url} (log: {log})",
        last_seen=lambda: str(_health(url) or "no answer"),
    )


def _may_come_up(log: Path) -> bool:
    """Raise HarnessError if a component ends repeatedly."""
    lines = log.read_text(errors="replace").splitlines()
    ends = Counter(line for line in lines if line.startswith(_ENDED))
    if max(ends.values(), default=0) < _MAX_ENDS:
        return True
    said = "\n".join(lines[-_SHOWN:])
    raise HarnessError(f"Airflow does not start: a component ends repeatedly. The last lines of its log {log}:\n{said}")


def _is_healthy(health: dict[str, Any]) -> bool:
    return all(health.get(name, {}).get("status") == "healthy" for name in _WATCHED)


def _health(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=2) as answer:
            health: dict[str, Any] = json.load(answer)
            return health
    except (OSError, ValueError):
        return {}


def _check_free(port: int, variable: str = "PORT") -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except (OSError, OverflowError) as error:
            raise BadInput(
                f"Port {port} of {ADDRESS} is not available ({error}); choose another by {variable}=<number>."
            ) from error


def _state_file(home: Path) -> Path:
    return home / "up.json"


def _read_state(home: Path) -> dict[str, Any]:
    """Return what ``up`` recorded, if readable."""
    try:
        state = json.loads(_state_file(home).read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
