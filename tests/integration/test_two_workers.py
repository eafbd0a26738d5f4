"""Airflow with Celery, PostgreSQL and Redis: one worker records, another without its folders judges from S3."""

from __future__ import annotations

import json
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
from history.events import read_events
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
        """Return the only run that is recorded and not yet sealed, or else the newest."""
        found = sorted((self.records.folder / "runs").glob("*/manifest.json"), key=lambda file: file.stat().st_mtime)
        return RunFolder(found[-1].parent)


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
def postgres(folder: Path) -> Iterator[str]:
    """Yield the address of an empty database on the hosts' network."""
    folder.mkdir()
    shutil.chown(folder, "postgres")
    database = Database(folder, CENTRE, f"{NETWORK}.0/24")
    database.start()
    try:
        yield database.create().replace("postgresql://", "postgresql+psycopg2://")
    finally:
        database.stop()


def variables(store: Server, broker: str, database: str, port: int) -> dict[str, str]:
    """Return the environment of the schedulers and workers, besides home and folder of runs."""
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
        own = variables(store, broker, database, port)
        home.mkdir()
        migrate(home, **own)

        def start(host: Host, *words: str) -> None:
            at_home = environment(host.folder / "airflow", **own, PLIMSOLL_RUNS=str(host.folder / "runs"))
            host.start(airflow(*words), {name: value for name, value in at_home.items() if name[:4] != "AWS_"})

        def work(host: Host, queue: str) -> None:
            start(host, "celery", "worker", "--queues", queue, "--celery-hostname", host.name, "--skip-serve-logs")
            if queue == QUEUE:
                start(host, "triggerer", "--queues", queue, "--skip-serve-logs")

        with (home / "log").open("w") as log:
            centre = [
                subprocess.Popen(airflow(*words), env=environment(home, **own), cwd=ROOT, stdout=log, stderr=log)
                for words in (["api-server"], ["scheduler", "--skip-serve-logs"], ["dag-processor"])
            ]
        try:
            rest = Rest(f"http://{CENTRE}:{port}")
            yielded = Bed(rest, found[RECORDS], found[JUDGES], store, work)
            work(yielded.records, QUEUE)
            work(yielded.judges, "default")
            wait_until(partial(_knows_dag, rest), limit_s=180, every_s=1, what="Airflow to know the DAG")
            yield yielded
        finally:
            for process in centre:
                process.send_signal(signal.SIGTERM)
            for process in centre:
                process.wait()


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


def test_a_recording_worker_that_is_killed_leaves_nothing(bed: Bed) -> None:
    """Killed with all its processes and started again, the host collects the run, which cannot be judged."""
    bed.trigger("killed")
    wait_until(partial(_is_loaded, bed), limit_s=180, every_s=0.5, what="the load of the run")
    run = bed.run()
    bed.records.kill()
    bed.work(bed.records, QUEUE)

    assert bed.wait_for_the_end("killed") == "failed"
    assert run.is_sealed
    there = RunFolder(path_of(f"{bed.store.bucket}/plimsoll/runs/{run.run_id}"))
    assert json.loads(there.verdict_file.read_text())["verdict"] == "unknown"


def _is_loaded(bed: Bed) -> bool:
    with suppress(IndexError, FileNotFoundError):
        run = bed.run()
        return not run.is_sealed and any(event.kind == "phase_started" for event in read_events(run.events))
    return False
