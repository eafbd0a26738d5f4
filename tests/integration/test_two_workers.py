"""Airflow with Celery, PostgreSQL and Redis: one worker records, another without its folders judges from S3."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from clusters.paths import ROOT
from clusters.waiting import wait_until
from history.folder import RunFolder
from history.remote import path_of
from service.airflow import free_port
from service.airflow_home import airflow, environment, migrate
from tests.acceptance.under_airflow import Database, Rest
from tests.object_store import Server, serving
from tests.two_hosts import CENTRE, NETWORK, Host, hosts

pytestmark = [pytest.mark.slow, pytest.mark.s3, pytest.mark.workers]

DAG, QUEUE, RECORDS, JUDGES = "steady", "recording", "records", "judges"
KEY = "a-key-of-this-test-that-is-long-enough-for-a-token"
ENDED = ("success", "failed")


class Bed(NamedTuple):
    """An Airflow with its two workers, and the store that both reach."""

    rest: Rest
    records: Host
    judges: Host
    store: Server
    work: Callable[[Host, str], object]  # starts a worker of a queue
    database: Database
    centre: dict[str, subprocess.Popen[bytes]]
    begin: Callable[[str], subprocess.Popen[bytes]]  # a component of the centre

    def trigger(self, dag_run: str) -> None:
        conf = {"runtime": "process", "seed": 7, "upload": f"{self.store.bucket}/plimsoll"}
        self.rest.ask(f"dags/{DAG}/dagRuns", {"dag_run_id": dag_run, "logical_date": None, "conf": conf})

    def state(self, dag_run: str) -> str:
        with suppress(OSError, ValueError):
            return str(self.rest.ask(f"dags/{DAG}/dagRuns/{dag_run}")["state"])
        return "no answer"

    def wait_for_the_end(self, dag_run: str) -> str:
        wait_until(
            lambda: self.state(dag_run) in ENDED,
            limit_s=600,
            every_s=1,
            what=f"{dag_run} to end",
            last_seen=lambda: f"{self.state(dag_run)}: {self.tasks(dag_run)}",
        )
        return self.state(dag_run)

    def tasks(self, dag_run: str) -> dict[str, str]:
        found = self.rest.ask(f"dags/{DAG}/dagRuns/{dag_run}/taskInstances")["task_instances"]
        return {each["task_id"]: each["state"] for each in found}

    def run(self) -> RunFolder:
        """Return the newest run."""
        return RunFolder(max((self.records.folder / "runs").iterdir(), key=lambda run: run.name))


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Yield the address of an empty Redis on the hosts' network."""
    port = str(free_port())
    words = ["--bind", CENTRE, "--port", port, "--save", "", "--protected-mode", "no", "--dir", str(folder)]
    server = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    try:
        yield f"redis://{CENTRE}:{port}"
    finally:
        server.terminate()
        server.wait()


@contextmanager
def postgres(folder: Path) -> Iterator[Database]:
    """Yield a database server on the hosts' network."""
    folder.mkdir()
    shutil.chown(folder, "postgres")
    database = Database(folder, CENTRE, f"{NETWORK}.0/24")
    database.start()
    try:
        yield database
    finally:
        database.stop()


def variables(store: Server, broker: str, database: str, port: int, logs: Path) -> dict[str, str]:
    """Return the environment of the schedulers and workers, besides home and folder of runs; logs are shared."""
    access = {"endpoint_url": store.address, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "tester", "password": "secret", "extra": access}
    return {
        "AIRFLOW__API__BASE_URL": f"http://{CENTRE}:{port}",
        "AIRFLOW__API__HOST": CENTRE,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__SECRET_KEY": KEY,
        "AIRFLOW__API_AUTH__JWT_SECRET": KEY,
        "AIRFLOW__CELERY__BROKER_URL": f"{broker}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"{broker}/1",
        "AIRFLOW__CELERY__WORKER_CONCURRENCY": "2",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{CENTRE}:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(logs),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "AIRFLOW__TRIGGERER__QUEUES_ENABLED": "True",
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection),
        "PLIMSOLL_QUEUE": QUEUE,
        "PLIMSOLL_NIGHTLY": "",
    }


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """An Airflow whose database, broker and S3 server two workers in other namespaces reach."""
    with (
        hosts(RECORDS, JUDGES) as found,
        postgres(found[RECORDS].folder.parent / "database") as database,
        redis(found[RECORDS].folder.parent) as broker,
        serving(tmp_path_factory.mktemp("s3"), CENTRE) as store,
    ):
        port, home = free_port(), found[RECORDS].folder.parent / "airflow"
        address = database.create().replace("postgresql://", "postgresql+psycopg2://")
        own = variables(store, broker, address, port, home.with_name("logs"))
        home.mkdir()
        migrate(home, **own)

        def start(host: Host, *words: str) -> None:
            at_home = environment(host.folder / "airflow", **own, PLIMSOLL_RUNS=str(host.folder / "runs"))
            host.start(airflow(*words), {name: value for name, value in at_home.items() if name[:4] != "AWS_"})

        def work(host: Host, queue: str) -> None:
            start(host, "celery", "worker", "--queues", queue, "--celery-hostname", host.name, "--skip-serve-logs")
            if queue == QUEUE:
                start(host, "triggerer", "--queues", queue, "--skip-serve-logs")

        begin = partial(_begin, home, own)
        centre = {component: begin(component) for component in ("api-server", "scheduler", "dag-processor")}
        try:
            rest = Rest(f"http://{CENTRE}:{port}")
            yielded = Bed(rest, found[RECORDS], found[JUDGES], store, work, database, centre, begin)
            work(yielded.records, QUEUE)
            work(yielded.judges, "default")
            wait_until(partial(_knows_dag, rest), limit_s=180, every_s=1, what="Airflow to know the DAG")
            yield yielded
        finally:
            for process in centre.values():
                process.send_signal(signal.SIGTERM)
            for process in centre.values():
                process.wait()


def _begin(home: Path, own: dict[str, str], component: str) -> subprocess.Popen[bytes]:
    """Start a component of the centre."""
    words = [component, *(["--skip-serve-logs"] if component == "scheduler" else [])]
    with (home / "log").open("ab") as log:
        return subprocess.Popen(airflow(*words), env=environment(home, **own), cwd=ROOT, stdout=log, stderr=log)


def _knows_dag(rest: Rest) -> bool:
    with suppress(OSError):
        return bool(rest.ask(f"dags/{DAG}"))
    return False


def test_one_worker_records_and_another_judges_from_the_store(bed: Bed) -> None:
    """The run passes; only the store has its verdict and page, only the recording host its folder."""
    bed.trigger("a-run")

    assert bed.wait_for_the_end("a-run") == "success", bed.tasks("a-run")
    run = bed.run()
    there = RunFolder(path_of(f"{bed.store.bucket}/plimsoll/runs/{run.run_id}"))
    assert json.loads(there.verdict_file.read_text())["verdict"] == "pass"
    assert (there.path / "report" / "index.html").is_file()
    assert there.check_seal() == []
    assert not run.verdict.exists()
    assert not (bed.judges.folder / "runs").exists()


def test_a_command_without_a_shared_folder_shows_the_run(bed: Bed, tmp_path: Path) -> None:
    """It prints what the tasks log, and reads the verdict from the store."""
    words = ["run", DAG, "--runtime", "process", "--airflow", bed.rest.url, "--remote", "--runs", str(tmp_path)]
    access = {"AWS_ENDPOINT_URL": bed.store.address, "AWS_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret"}
    done = subprocess.run(
        [ROOT / "plimsoll", *words, "--upload", f"{bed.store.bucket}/plimsoll"],
        env=os.environ | access | keys,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "phase 1/1 steady … (about 10 s)" in done.stdout
    *_, run, verdict = done.stdout.splitlines()
    assert verdict == "verdict: pass"
    assert run.startswith(f"run: {bed.store.bucket}/plimsoll/runs/")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("task", ["start_cluster", "phase_1_steady", "stop_clients", "collect", "tear_down"])
def test_a_recording_worker_that_is_killed_leaves_nothing(bed: Bed, task: str) -> None:
    """Killed with all its processes and started again, the host collects the run; it passes only if it is complete."""
    bed.trigger(f"killed-in-{task}")
    wait_until(partial(_is_at, bed, f"killed-in-{task}", task), limit_s=240, every_s=0.2, what=f"{task} to run")
    run = bed.run()
    bed.records.kill()
    bed.work(bed.records, QUEUE)

    assert bed.wait_for_the_end(f"killed-in-{task}") == "failed", bed.tasks(f"killed-in-{task}")
    assert run.is_sealed or task == "start_cluster", bed.tasks(f"killed-in-{task}")
    there = RunFolder(path_of(f"{bed.store.bucket}/plimsoll/runs/{run.run_id}"))
    complete = task in ("stop_clients", "collect", "tear_down")
    assert there.read_verdict().get("verdict") in ("unknown", "pass" if complete else None)


@pytest.mark.parametrize(("task", "host"), [("upload", RECORDS), ("judge", JUDGES), ("publish", JUDGES)])
def test_what_follows_a_recording_is_repeated_if_its_worker_is_killed(bed: Bed, task: str, host: str) -> None:
    """Airflow notices and repeats the task; the run passes."""
    bed.trigger(f"killed-in-{task}")
    wait_until(partial(_is_at, bed, f"killed-in-{task}", task), limit_s=240, every_s=0.2, what=f"{task} to run")
    killed = bed.records if host == RECORDS else bed.judges
    killed.kill()
    bed.work(killed, QUEUE if host == RECORDS else "default")

    assert bed.wait_for_the_end(f"killed-in-{task}") == "success", bed.tasks(f"killed-in-{task}")
    there = RunFolder(path_of(f"{bed.store.bucket}/plimsoll/runs/{bed.run().run_id}"))
    assert there.read_verdict()["verdict"] == "pass"


@pytest.mark.parametrize("part", ["scheduler", "database"])
def test_a_run_outlives_a_restart_of_the_centre(bed: Bed, part: str) -> None:
    """Killed during a phase and started again; the task goes on meanwhile."""
    bed.trigger(f"without-{part}")
    running = partial(_is_at, bed, f"without-{part}", "phase_1_steady")
    wait_until(running, limit_s=240, every_s=0.2, what="the phase to run")
    if part == "database":
        bed.database.stop()
        bed.database.start()
    else:
        bed.centre[part].kill()
        bed.centre[part].wait()
        bed.centre[part] = bed.begin(part)

    assert bed.wait_for_the_end(f"without-{part}") == "success", bed.tasks(f"without-{part}")


def _is_at(bed: Bed, dag_run: str, task: str) -> bool:
    with suppress(OSError, ValueError):
        return bed.tasks(dag_run).get(task) == "running"
    return False
