"""Start and end this checkout's Airflow with the pages and metrics of runs.

Its processes, also a dead scheduler's workers, are found by session and Airflow home: session numbers are reused, and
runs' nodes have the same home.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import psutil

from clusters.paths import ROOT, locked, runs_folder
from clusters.runtimes.process import NODE_VARIABLE
from clusters.waiting import wait_until
from history import extras
from history.errors import BadInput, HarnessError, WaitTimeout
from history.folder import write_atomically
from service.airflow_home import DATABASE, PAGES, airflow, environment, make_home, migrate, sqlite_address
from service.api import Address
from service.follow import end_left
from service.processes import lives, with_variable

ADDRESS = "127.0.0.1"
_API_SERVER = airflow("api-server")
# Scheduler and triggerer would serve logs on all addresses; the api-server reads the files.
_COMPONENTS = (
    airflow("scheduler", "--skip-serve-logs"),
    ["nice", "-n", "19", *airflow("triggerer", "--skip-serve-logs")],  # not needed at the start
)
# A command does without it: its DAGs are serialized already, and it took 5 to 10 s of CPU from the run.
_OF_UP = (["nice", "-n", "10", *airflow("dag-processor")],)
# Airflow leaves the CPUs to benchmarks.
_CALM = {
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "1800",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
}
_UP_LIMIT_S = 120.0
_DOWN_LIMIT_S = 4.0  # to end; freeing their memory takes seconds
_ANSWER_LIMIT_S = 60.0  # SQLite's lock
# The api-server may wait on the event loop that must release the lock; clients ask again.
_API_LOCK_S = 5.0
_LOOK_S = 0.5
# In Airflow's health report: what runs DAGs, and all.
_NEEDED = ("metadatabase", "scheduler")
_ALL = (*_NEEDED, "triggerer", "dag_processor")
_STARTING = "starting"  # the lock for starting and ending
_READ_BY_TASKS = re.compile(r"PLIMSOLL_JAVA|JAVA_HOME|DOCKER_HOST|AWS_.*|AIRFLOW_CONN_.*|.*_PROXY", re.IGNORECASE)
_AGAIN_S = 5.0  # before an ended component restarts
_ENDED = "plimsoll: ended, restarting: "
_SHOWN = 10  # lines of the log
_MAX_ENDS = 3  # before start-up fails


def url_of(port: int) -> str:
    """Return the address of Airflow's page; the next port has the other pages."""
    return f"http://{ADDRESS}:{port}"


class Ports(NamedTuple):
    """Airflow's port, and that of the runs' metrics, if served."""

    airflow: int
    metrics: int | None


def own_home() -> Path:
    """Return ``PLIMSOLL_SERVICE``, by default ``.airflow/`` of the project."""
    return Path(os.environ.get("PLIMSOLL_SERVICE") or ROOT / ".airflow").absolute()


@contextmanager
def used(say: Callable[[str], object], reads: Iterable[str] = ()) -> Iterator[Address]:
    """Yield the address of ``PLIMSOLL_AIRFLOW``, or of the own Airflow, whose tasks read these variables.

    Raises:
        BadInput: it has other variables.
        HarnessError: it did not start, or does not respond.
    """
    if named := Address.named():
        yield named
        return
    home = own_home()
    end_unused(home, say)  # a killed command left it
    with ExitStack() as held:
        held.callback(end_unused, home)
        with locked(home / _STARTING):
            ports = _running(home)
            if ports:
                _check_variables(home, reads)
                make_home(home)  # its DAGs may have changed
            else:
                say("starting Airflow … (about 15 s)")
                ports = Ports(free_port(), None)
                _start(home, ports, {}, stays=False)
                end_left(Address(url_of(ports.airflow), home=home), say)  # else they would go on
            fcntl.flock(held.enter_context(_users(home)), fcntl.LOCK_SH)
        yield Address(url_of(ports.airflow), home=home)


def end_unused(home: Path | None = None, say: Callable[[str], object] | None = None) -> list[str]:
    """End an Airflow that no command uses, unless ``up`` was called; return what was ended.

    With ``say``, its DAG runs are ended first: their command was killed.
    """
    home = home or own_home()
    if not home.is_dir():
        return []
    with locked(home / _STARTING), _users(home) as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return []
        if _read_state(home).get("stays"):
            return []
        with suppress(HarnessError):  # it does not respond
            if say and (ports := _running(home)):
                end_left(Address(url_of(ports.airflow), home=home), say)
        return ["airflow"] if down(home) else []


def _users(home: Path) -> IO[str]:
    return (home / "users").open("a")


def _check_variables(home: Path, reads: Iterable[str]) -> None:
    started = _processes(home)[0].info["environ"]
    names = {name for name in {*started, *os.environ} if _READ_BY_TASKS.fullmatch(name)} | {*reads}
    if others := sorted(name for name in names if started.get(name) != os.environ.get(name)):
        raise BadInput(
            f"The Airflow of this checkout was started with another {', '.join(others)}; end it by plimsoll down, or "
            "set the same."
        )


def up(port: int, home: Path | None = None, database: str | None = None, metrics_port: int | None = None) -> Ports:
    """Start Airflow unless it runs, to stay until ``down``; return its ports once it is healthy.

    ``database`` is an existing PostgreSQL database; the default is SQLite in ``home``.

    Raises:
        BadInput: a port is in use, or the address is not PostgreSQL's.
        HarnessError: it did not start and was removed, or an earlier one does not respond.
    """
    home = home or own_home()
    ports, variables = Ports(port, metrics_port), _database(database)
    if not _processes(home):
        _check_ports(ports)
    with locked(home / _STARTING):
        if running := _running(home):
            _adopt(home, running)
            return running
        _start(home, ports, variables, stays=True)
    return ports


def _running(home: Path) -> Ports | None:
    if not _processes(home):
        return None
    state = _read_state(home)
    if "port" not in state:
        raise HarnessError(f"Processes of an earlier Airflow run in {home}; end them by plimsoll down.")
    ports = Ports(int(state["port"]), state.get("metrics_port"))
    url = url_of(ports.airflow)
    try:
        wait_until(lambda: _health(url), limit_s=_ANSWER_LIMIT_S, every_s=_LOOK_S, what=f"Airflow to answer at {url}")
    except WaitTimeout as error:
        raise HarnessError(f"Airflow is up, but does not answer at {url}; end it by plimsoll down.") from error
    return ports


def _adopt(home: Path, ports: Ports) -> None:
    """Let a command's Airflow run until ``down``, with all components."""
    state = _read_state(home)
    if state.get("stays"):
        return
    sessions = [*state["sessions"], _spawn(home, ports, {}, _OF_UP)]
    _write_state(home, **state | {"sessions": sessions, "stays": True})
    _await_health(url_of(ports.airflow), _log(home), _ALL)


def _start(home: Path, ports: Ports, variables: Mapping[str, str], *, stays: bool) -> None:
    make_home(home)
    if variables:
        migrate(home, **variables)
    _state_file(home).unlink(missing_ok=True)  # an ended Airflow wrote it
    _log(home).unlink(missing_ok=True)
    servers = [_server("pages_server", ports.airflow + 1, ports.airflow)]
    if ports.metrics is not None:
        servers.append(_server("metrics_endpoint", ports.metrics))
    impatient = [] if variables else ["env", f"{DATABASE}={sqlite_address(home, _API_LOCK_S)}"]
    components = [[*impatient, *_API_SERVER], *_COMPONENTS, *servers, *(_OF_UP if stays else ())]
    session = _spawn(home, ports, variables, components)
    try:
        _write_state(home, sessions=[session], port=ports.airflow, metrics_port=ports.metrics, stays=stays)
        _await_health(url_of(ports.airflow), _log(home), _ALL if stays else _NEEDED)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(session, signal.SIGTERM)  # new processes do not show the variable yet
        down(home)
        raise


def _spawn(home: Path, ports: Ports, variables: Mapping[str, str], components: Iterable[Sequence[str]]) -> int:
    url = url_of(ports.airflow)
    with _log(home).open("ab") as log_file:
        return subprocess.Popen(
            ["/bin/sh", "-c", " ".join(map(_kept, components)) + " wait"],
            env=environment(
                home,
                AIRFLOW__API__BASE_URL=url,
                AIRFLOW__API__HOST=ADDRESS,
                AIRFLOW__API__PORT=str(ports.airflow),
                AIRFLOW__API__WORKERS="1",
                AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{url}/execution/",
                AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "operators" / "plugins"),
                **{PAGES: url_of(ports.airflow + 1)},
                **_CALM,
                **variables,
            ),
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        ).pid


def _log(home: Path) -> Path:
    return home / "airflow.log"


def _kept(command: Sequence[str]) -> str:
    """Restart a component whenever it ends, such as a scheduler without its database."""
    words = shlex.join(command)
    return f"while :; do {words}; echo {shlex.quote(_ENDED + words)}; sleep {_AGAIN_S:g}; done &"


def _server(module: str, port: int, *others: int) -> list[str]:
    return [sys.executable, "-m", f"service.{module}", str(port), str(runs_folder().resolve()), *map(str, others)]


def _database(address: str | None) -> dict[str, str]:
    if address is None:
        return {}
    if not address.startswith("postgresql://"):
        raise BadInput("--db must be a PostgreSQL address such as postgresql://user@host/airflow.")
    extras.require("postgres", "psycopg2", "--db=postgresql://…")
    return {DATABASE: address.replace("postgresql://", "postgresql+psycopg2://", 1)}


def down(home: Path | None = None) -> bool:
    """End all of Airflow with orphaned workers; return whether any of it ran. A teardown has 4 s to end."""
    home = home or own_home()
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
    """Return the recorded Airflow's processes; without a record, all started here."""
    sessions = _read_state(home).get("sessions")
    found = with_variable("AIRFLOW_HOME", str(home))
    if sessions is None:
        return [process for process in found if _is_airflows(process.info["environ"])]
    return [process for process in found if _session(process) in sessions]


def _is_airflows(environment: Mapping[str, str]) -> bool:
    """Exclude a user's shell (no pages' address) and runs' nodes (a name)."""
    return PAGES in environment and NODE_VARIABLE not in environment


def _session(process: psutil.Process) -> int:
    with suppress(ProcessLookupError):
        return os.getsid(process.pid)
    return -1


def _await_health(url: str, log: Path, names: Collection[str]) -> None:
    wait_until(
        # Airflow loads what tasks ask at the first request, which took the first task 4 s.
        lambda: _may_come_up(log) and _health(url, "execution/health") and _are_healthy(names, _health(url)),
        limit_s=_UP_LIMIT_S,
        every_s=_LOOK_S,
        what=f"Airflow to start at {url} (log: {log})",
        last_seen=lambda: str(_health(url) or "no answer"),
    )


def _may_come_up(log: Path) -> bool:
    lines = log.read_text(errors="replace").splitlines()
    ends = Counter(line for line in lines if line.startswith(_ENDED))
    if max(ends.values(), default=0) < _MAX_ENDS:
        return True
    said = "\n".join(lines[-_SHOWN:])
    raise HarnessError(f"Airflow does not start: a component ends repeatedly. The last lines of its log {log}:\n{said}")


def _are_healthy(names: Collection[str], health: Mapping[str, Any]) -> bool:
    return all(health.get(name, {}).get("status") == "healthy" for name in names)


def _health(url: str, path: str = "api/v2/monitor/health") -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/{path}", timeout=2) as answer:
            health: dict[str, Any] = json.load(answer)
            return health
    except (OSError, ValueError):
        return {}


def _check_ports(ports: Ports) -> None:
    for port in (ports.airflow, ports.airflow + 1):
        _check_free(port)
    if ports.metrics in (ports.airflow, ports.airflow + 1):
        raise BadInput(f"--metrics-port={ports.metrics} is the port of other pages; choose another.")
    if ports.metrics is not None:
        _check_free(ports.metrics, "METRICS_PORT")


def _check_free(port: int, variable: str = "PORT") -> None:
    if error := _refusal(port):
        raise BadInput(f"Port {port} of {ADDRESS} is not available ({error}); choose another by {variable}=<number>.")


def _refusal(port: int) -> Exception | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except (OSError, OverflowError) as error:
            return error
    return None


def free_port() -> int:
    """Return the first of two free ports."""
    while True:
        with socket.create_server((ADDRESS, 0)) as probe:
            port: int = probe.getsockname()[1]
            if not _refusal(port + 1):
                return port


def _state_file(home: Path) -> Path:
    return home / "up.json"


def _write_state(home: Path, **state: Any) -> None:
    write_atomically(_state_file(home), json.dumps(state))


def _read_state(home: Path) -> dict[str, Any]:
    """Return what ``up`` recorded, if readable."""
    try:
        state = json.loads(_state_file(home).read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
