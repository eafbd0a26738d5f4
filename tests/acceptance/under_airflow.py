"""Disturb Airflow during a run: ``python -m tests.acceptance under_airflow [NAME …]``.

The DAG run must end, its cluster must be removed, and an incomplete record must not pass. Run nothing else of Plimsoll
on the host.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil

from clusters.run.stages import Stage, stages
from clusters.scenario.scenario import load_scenario
from clusters.waiting import wait_until
from history.errors import WaitTimeout
from history.events import read_events
from history.folder import RunFolder
from service import airflow
from tests.acceptance.experiment import of_cases
from tests.acceptance.host import inventory, left
from tests.acceptance.kills import judged
from tests.rows import DATA, Row, today

RESULTS = DATA / "under_airflow.json"
SCENARIO = Path(__file__).with_name("kills.yaml")
DAG = "kills"
ENDED = ("success", "failed")
UNFINISHED = {None, "running", "queued", "scheduled", "restarting", "deferred"}
AWAY_S = 15.0
LIMIT_S = 1200.0


# --- Airflow and its database --------------------------------------------------------------------


class Database:
    """A private PostgreSQL server that can be stopped and started, for clients of this host, or of its ``network``."""

    def __init__(self, folder: Path, address: str = airflow.ADDRESS, network: str = "") -> None:
        self._folder, self._address = folder, address
        self._port = airflow.free_port()
        self._run("initdb", "--auth=trust", "--username=airflow")
        if network:
            with (folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {network} trust\n")

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses={self._address}"
        self._run("pg_ctl", "--wait", f"--log={self._folder}/log", f"--options={options}", "start")

    def stop(self) -> None:
        """Stop at once, as in a crash."""
        self._run("pg_ctl", "--wait", "--mode=immediate", "stop")

    def create(self) -> str:
        """Create a database and return its address."""
        words = [f"--host={self._address}", f"--port={self._port}", "--username=airflow", "airflow"]
        subprocess.run(["createdb", *words], check=True, capture_output=True)
        return f"postgresql://airflow@{self._address}:{self._port}/airflow"

    def _run(self, program: str, *words: str) -> None:
        found = shutil.which(program) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}")))
        as_its_user = ["runuser", "-u", "postgres", "--"]
        command = [*as_its_user, found, f"--pgdata={self._folder}/data", *words]
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Rest(NamedTuple):
    """Airflow's REST API."""

    url: str

    def ask(self, path: str, body: Mapping[str, Any] | None = None, method: str | None = None) -> Any:
        """Send a GET, or a POST if there is a body.

        Raises:
            urllib.error.URLError: no answer, or an error status.
        """
        with urllib.request.urlopen(f"{self.url}/auth/token", timeout=30) as answer:
            token = json.load(answer)["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.url}/api/v2/{path}", data, headers, method=method)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)


class Bed(NamedTuple):
    """A running Airflow and its DAG run."""

    home: Path
    port: int
    database: Database
    address: str
    rest: Rest
    runs: Path
    dag_run: str

    @property
    def path(self) -> str:
        return f"dags/{DAG}/dagRuns/{self.dag_run}"

    def judged(self) -> dict[str, Any]:
        """Return the judge's result for the recorded run, if any.

        Raises:
            ValueError: a second run was recorded.
        """
        recorded = [judged(path.parent) for path in self.runs.glob("*/manifest.json")]
        (found,) = recorded or [{"whole": False, "verdict": None, "judge": 0}]
        return found

    def state(self) -> str:
        """Return "" while Airflow is unreachable."""
        with suppress(OSError, ValueError):
            return str(self.rest.ask(self.path)["state"])
        return ""

    def tasks(self) -> dict[str, str]:
        found = self.rest.ask(f"{self.path}/taskInstances")["task_instances"]
        return {each["task_id"]: each["state"] for each in found}

    def wait_for_the_end(self) -> None:
        """Wait until the DAG run and its tear-down have ended.

        Raises:
            WaitTimeout: it did not end.
        """
        wait_until(self._has_ended, limit_s=LIMIT_S, every_s=1, what="the DAG run to end", last_seen=self.state)

    def _has_ended(self) -> bool:
        with suppress(OSError, ValueError):
            return self.state() in ENDED and not UNFINISHED & {*self.tasks().values()}
        return False

    def up(self) -> None:
        airflow.up(self.port, self.home, self.address)


def phase_task() -> Stage:
    """Return the task of the phase in which the leader is down."""
    return next(stage for stage in stages(load_scenario(str(SCENARIO))) if stage.phase == "the leader dies")


# --- disturbances --------------------------------------------------------------------------------


def nothing(_: Bed) -> None:
    """Disturb nothing."""


def mark_task(bed: Bed) -> None:
    """Mark the phase's task as failed."""
    bed.rest.ask(f"{bed.path}/taskInstances/{phase_task().name}", {"new_state": "failed"}, "PATCH")


def mark_run(bed: Bed) -> None:
    """Mark the DAG run as failed."""
    bed.rest.ask(bed.path, {"state": "failed"}, "PATCH")


def clear_task(bed: Bed) -> None:
    """Clear the phase's task and those downstream, as Airflow's UI proposes."""
    of_it = {"dag_run_id": bed.dag_run, "task_ids": [phase_task().name], "include_downstream": True}
    how = {"dry_run": False, "only_failed": False, "reset_dag_runs": True}
    bed.rest.ask(f"dags/{DAG}/clearTaskInstances", of_it | how)
    wait_until(lambda: bed.state() not in ENDED, limit_s=60, every_s=0.2, what="the cleared run to go on")


def kill_task(bed: Bed) -> None:
    """Kill the task, as on out-of-memory; its worker notices."""
    for process in performing(bed):
        process.kill()


def kill_worker(bed: Bed) -> None:
    """Kill the worker and its task, so that no process reports their end."""
    for process in performing(bed):
        process.parent().kill()  # type: ignore[union-attr]  # it has one
        process.kill()


def hang(bed: Bed) -> None:
    """Pause the task until its time limit has passed."""
    limit = phase_task().limit(load_scenario(str(SCENARIO)))
    found = performing(bed)
    for process in found:
        process.suspend()
    time.sleep(limit.total_seconds())
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def restart_airflow(bed: Bed) -> None:
    """Restart Airflow, as for an upgrade of the host."""
    airflow.down(bed.home)
    bed.up()


def kill_scheduler(bed: Bed) -> None:
    """Kill the scheduler, as on out-of-memory; ``plimsoll up`` restarts it."""
    for process in airflow._processes(bed.home):
        if process.cmdline()[-2:] == ["scheduler", "--skip-serve-logs"]:
            process.send_signal(signal.SIGKILL)


def database_away(bed: Bed) -> None:
    """Stop the database for ``AWAY_S``, as in a failover."""
    bed.database.stop()
    time.sleep(AWAY_S)
    bed.database.start()


def performing(bed: Bed) -> list[psutil.Process]:
    """Return the current task's processes, children of the scheduler's workers."""
    of_airflow = airflow._processes(bed.home)
    workers = {
        each.pid for each in of_airflow if " ".join(each.cmdline()).startswith("airflow worker -- LocalExecutor")
    }
    return [each for each in of_airflow if each.ppid() in workers]


When = Literal["before", "leader away", "afterwards"]


class Trouble(NamedTuple):
    """A disturbance, its time, and the DAG run's final state."""

    name: str
    does: Callable[[Bed], None]
    state: str = "failed"
    when: When = "leader away"
    runtime: str = "process"


TROUBLES = (
    Trouble("nothing is wrong", nothing, "success"),
    Trouble("a task is marked as failed", mark_task),
    Trouble("the DAG run is marked as failed", mark_run),
    Trouble("the DAG run is marked as failed before its cluster starts", mark_run, when="before"),
    Trouble("a task of a judged run is cleared", clear_task, when="afterwards"),
    Trouble("a task is cleared while it runs", clear_task),
    Trouble("the process of a task is killed", kill_task),
    Trouble("a worker is killed with its task", kill_worker),
    Trouble("a worker is killed with its task, in Docker", kill_worker, runtime="docker"),
    Trouble("a task hangs for longer than it may", hang),
    Trouble("Airflow is taken down and up again", restart_airflow),
    Trouble("the scheduler is killed", kill_scheduler, "success"),
    Trouble(f"the database goes away for {AWAY_S:.0f} s", database_away, "success"),
)


# --- a row ---------------------------------------------------------------------------------------


@contextmanager
def bed_in(folder: Path, runtime: str) -> Iterator[Bed]:
    """Start Airflow on its own database with a new run; end both afterwards."""
    shutil.chown(folder, "postgres")
    database = Database(folder)
    database.start()
    runs, home, port = folder / "runs", folder / "home", airflow.free_port()
    # else Airflow on a new database makes up for the last nightly run
    os.environ.update(PLIMSOLL_RUNS=str(runs), PLIMSOLL_SCENARIOS=str(SCENARIO.parent), PLIMSOLL_NIGHTLY="")
    try:
        address = database.create()
        rest = Rest(airflow.url_of(airflow.up(port, home, address).airflow))
        asked = {"logical_date": None, "conf": {"runtime": runtime}}
        wait_until(lambda: known(rest), limit_s=120, every_s=1, what="Airflow to know the DAG")
        dag_run = rest.ask(f"dags/{DAG}/dagRuns", asked)["dag_run_id"]
        yield Bed(home, port, database, address, rest, runs, dag_run)
    finally:
        airflow.down(home)
        database.stop()


def known(rest: Rest) -> bool:
    """Return whether Airflow has read the DAG."""
    with suppress(OSError):
        return bool(rest.ask(f"dags/{DAG}"))
    return False


def attempt(trouble: Trouble) -> Row:
    """Cause one disturbance and return its row.

    Raises:
        WaitTimeout: the leader was never killed.
    """
    before, began = inventory(), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="under-airflow-", dir="/var/tmp"))
    with bed_in(folder, trouble.runtime) as bed:
        if trouble.when != "before":
            wait_until(lambda: leader_is_away(bed), limit_s=300, every_s=0.2, what="the leader to be killed")
        if trouble.when == "afterwards":
            bed.wait_for_the_end()
        trouble.does(bed)
        with suppress(WaitTimeout):
            bed.wait_for_the_end()
        state, tasks, found = bed.state(), bed.tasks(), bed.judged()
    row = {
        "name": trouble.name,
        "state": state,
        "tasks": tasks,
        **found,
        "left": left(before, inventory()),
        "seconds": round(time.monotonic() - began),
        "date": today(),
    }
    if not wrong(row):
        shutil.rmtree(folder)
    return row


def leader_is_away(bed: Bed) -> bool:
    """Return whether the phase's fault is active."""
    files = [RunFolder(path.parent).events for path in bed.runs.glob("*/manifest.json")]
    return any((event.kind, event.step) == ("injected", "kill") for file in files for event in read_events(file))


def wrong(row: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a row."""
    wanted = next(each.state for each in TROUBLES if each.name == row["name"])
    return [
        *([f"the DAG run ended as {row['state']}"] if row["state"] != wanted else []),
        *(["an incomplete record passed"] if row["verdict"] == "pass" and not row["whole"] else []),
        *row["left"],
    ]


def _words(row: Row) -> str:
    return f"{row['name']}: {row['state']}, {row['verdict']}, {row['seconds']} s"


main = of_cases(RESULTS, "name", {each.name: each for each in TROUBLES}, attempt=attempt, words=_words, wrong=wrong)
