"""A run judged by a Spark cluster on separate addresses has the same result as in one process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.folders import differences, expected, write
from bench.generated.plan import Plan, Planted
from history.errors import BadInput, HarnessError
from history.folder import RunFolder
from history.tables import JUDGED
from service import spark_cluster
from service.spark_cluster import SparkCluster
from spark.environment import PYTHON
from spark.submit import judge

pytestmark = pytest.mark.pipeline

PLAN = Plan(records=4000, partitions=4, planted=Planted(lost=5))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers, which leave nothing behind."""
    try:
        spark_cluster.check_possible()
    except BadInput as refusal:
        pytest.skip(str(refusal))
    folder = tmp_path_factory.mktemp("cluster")
    try:
        yield spark_cluster.up(folder)
    finally:
        spark_cluster.down(folder)
    assert not spark_cluster.down(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of four partitions with five lost records."""
    return write(PLAN, tmp_path_factory.mktemp("runs") / "run").path


def connected(monkeypatch: pytest.MonkeyPatch, master: str, **conf: Any) -> None:
    """Let Airflow's connection name this master and these settings."""
    connection = {"conn_type": "spark", "host": master, "extra": {"conf": conf}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def judged(run: Path, copy: Path) -> dict[str, bytes]:
    """Judge a copy of a run; return the judge's files, without Data Docs, whose pages contain the time."""
    shutil.copytree(run, copy)
    assert judge([copy]) == 1
    verdict = RunFolder(copy).verdict
    files = {str(path.relative_to(verdict)): path for path in verdict.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith("data_docs/")}


def test_a_cluster_judges_as_one_process_does(
    cluster: SparkCluster, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster judges with the same bytes as one process, on both workers and with the Python sent to them."""
    connected(monkeypatch, "local[2]")
    local = judged(run, tmp_path / "local" / run.name)
    events = tmp_path / "events"
    events.mkdir()
    written = {"enabled": "true", "dir": events.as_uri(), "compress": "false", "rolling.enabled": "false"}
    connected(monkeypatch, cluster.master, **{f"spark.eventLog.{name}": value for name, value in written.items()})
    there = judged(run, tmp_path / "cluster" / run.name)

    assert differences(expected(PLAN), json.loads(local["verdict.json"])) == []
    assert {name for name in local.keys() | there.keys() if local.get(name) != there.get(name)} == set()
    tables = {f"{table}/part-0.parquet" for table in JUDGED}
    assert {"verdict.json", "latency.hlog", *tables} == local.keys()
    (log,) = events.iterdir()
    told = [json.loads(line) for line in log.read_text().splitlines()]
    added = {each["Executor ID"]: each["Executor Info"]["Host"] for each in told if "Executor Info" in each}
    worked = {
        added[each["Task Info"]["Executor ID"]]
        for each in told
        if each["Event"] == "SparkListenerTaskEnd" and each["Task End Reason"]["Reason"] == "Success"
    }
    assert worked == set(cluster.worker_addresses)
    (settings,) = (each["Spark Properties"] for each in told if "Spark Properties" in each)
    assert settings["spark.driver.host"] == cluster.host_address
    assert settings["spark.pyspark.python"] == PYTHON


@pytest.mark.slow
def test_executors_that_cannot_reach_the_driver_are_an_end(
    cluster: SparkCluster, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors that cannot reach the driver's address end the judge after the limit, without a verdict."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    nobody = cluster.host_address.removesuffix(".1") + ".99"
    settings = {"spark.driver.host": nobody, "spark.driver.bindAddress": cluster.host_address}
    connected(monkeypatch, cluster.master, **settings, **{"spark.plimsoll.executorTimeout": "10s"})

    with pytest.raises(HarnessError, match=rf"No executor of .* answered the driver at {nobody} for 10s"):
        judge([copy])
    assert not RunFolder(copy).verdict_file.exists()


def test_a_cluster_that_runs_is_not_started_again(
    cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A running cluster is not started again; leftovers of dead clusters are removed, and the running one stays."""
    folder = next(tmp_path_factory.getbasetemp().glob("cluster*"))
    dead = f"{spark_cluster.NAMESPACES}dead00-master"
    subprocess.run(["ip", "netns", "add", dead], check=True)

    removed = spark_cluster.remove_leftovers(everything=False)

    assert spark_cluster.up(folder) == cluster
    assert dead.removesuffix("-master") in removed
    assert spark_cluster._prefix(folder) not in removed
    assert dead not in subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
