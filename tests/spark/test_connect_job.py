"""A run judged over Spark Connect has the same result as in one process."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.folders import differences, expected, write
from bench.generated.plan import Plan, Planted
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.folder import RunFolder
from history.tables import JUDGED
from spark import submit
from spark.connection import SparkConnection
from spark.submit import judge

pytestmark = pytest.mark.pipeline

PLAN = Plan(records=4000, partitions=4, planted=Planted(lost=5))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A Spark Connect server on the loopback, whose own Python has none of our libraries."""
    folder = tmp_path_factory.mktemp("server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
    settings = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(number),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    command = [
        str(submit.SPARK_HOME / "bin" / "spark-submit"),
        *("--master", "local[2,4]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for setting in settings.items() for part in ("--conf", "=".join(setting))),
        "spark-internal",
    ]
    environment = submit._environment(SparkConnection("local[2,4]"), folder) | {"PYTHONPATH": ""}
    with submit._own_group(command, environment | {"PYSPARK_PYTHON": "/usr/bin/python3"}):
        wait_until(
            lambda: socket.create_connection(("127.0.0.1", number)), limit_s=300, what="a server", ignoring=(OSError,)
        ).close()
        yield number


def files_of(run: Path) -> dict[str, bytes]:
    """Return the judge's files, without Data Docs, whose pages contain the time."""
    verdict = RunFolder(run).verdict
    files = {str(path.relative_to(verdict)): path for path in verdict.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith("data_docs/")}


def test_a_server_judges_as_one_process_does(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server judges with the same bytes as one process, without spark-submit, and with the Python sent to it."""
    here = write(PLAN, tmp_path / "here" / "run").path
    there = Path(shutil.copytree(here, tmp_path / "there" / "run"))
    assert judge([here]) == 1
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": f"sc://127.0.0.1:{port}"})
    )
    monkeypatch.setattr(submit, "_spark_submit", lambda *_: pytest.fail("spark-submit"))
    assert judge([there]) == 1

    local, connected = files_of(here), files_of(there)
    assert differences(expected(PLAN), json.loads(connected["verdict.json"])) == []
    assert connected == local
    assert {"verdict.json", "latency.hlog", *(f"{table}/part-0.parquet" for table in JUDGED)} == connected.keys()


def test_a_server_that_does_not_answer_is_named(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server the judge ends at once, and its message keeps the token to itself."""
    (tmp_path / "manifest.json").touch()
    url = f"sc://127.0.0.3:{port}/;token=secret"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": url}))
    with pytest.raises(HarnessError, match=rf"sc://127\.0\.0\.3:{port} does not answer") as failed:
        judge([tmp_path])
    assert "secret" not in str(failed.value)
