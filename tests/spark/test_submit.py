"""The judge's checks before it starts Spark, and Spark's settings."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from history.errors import BadInput, HarnessError
from spark import environment, submit
from spark.connection import SparkConnection
from spark.submit import driver_address, judge, settings

CLUSTER = "spark://10.0.0.1:7077"


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which a server listens on every address of this host."""
    with socket.create_server(("127.0.0.2", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing archive for executors."""
    monkeypatch.setattr(environment, "packed", lambda: Path("/cache/python.tar.gz"))


def test_what_is_no_run_folder_is_bad_input(tmp_path: Path) -> None:
    """A folder without manifest and seal, and an empty list of folders, are bad input."""
    with pytest.raises(BadInput, match="is no run folder"):
        judge([tmp_path])
    with pytest.raises(BadInput, match="plimsoll judge runs/"):
        judge([])


def test_an_old_verdict_stays_when_no_master_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """An old verdict remains if no master answers."""
    (tmp_path / "manifest.json").touch()
    (tmp_path / "verdict").mkdir()
    (tmp_path / "verdict" / "verdict.json").touch()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", f"spark://127.0.0.3:{port}")

    with pytest.raises(HarnessError, match=rf"spark://127\.0\.0\.3:{port} does not answer .*refused.*; start it, or"):
        judge([tmp_path])
    assert (tmp_path / "verdict" / "verdict.json").exists()


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.2:{}", "spark://127.0.0.3:{0},127.0.0.2:{0}", "k8s://https://127.0.0.2:{}"]
)
def test_the_driver_is_where_it_reaches_the_master_from(
    monkeypatch: pytest.MonkeyPatch, port: int, master: str
) -> None:
    """The driver's address is the one that reaches the master, or the first of several that answers."""
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)

    assert driver_address(SparkConnection(master.format(port))) == "127.0.0.1"


def test_the_users_own_address_of_the_driver_wins(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """The user's address of the driver has priority; without a master's address Spark chooses."""
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    chosen = SparkConnection(f"spark://127.0.0.2:{port}", conf={"spark.driver.host": "10.0.0.9"})

    assert driver_address(chosen) is None
    assert driver_address(SparkConnection("yarn")) is None
    assert driver_address(SparkConnection("local[2]")) is None
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.9")
    assert driver_address(SparkConnection(f"spark://127.0.0.2:{port}")) is None


@pytest.mark.usefixtures("packed")
def test_executors_elsewhere_are_sent_all_that_they_need(tmp_path: Path) -> None:
    """Remote executors receive Python, libraries, the project's packages and the driver's address."""
    conf = settings(SparkConnection(CLUSTER), "10.0.0.2", tmp_path)

    assert conf["spark.driver.host"] == "10.0.0.2"
    assert conf["spark.archives"] == "/cache/python.tar.gz#environment"
    assert conf["spark.pyspark.python"] == "./environment/bin/python"
    assert conf["spark.pyspark.driver.python"] == sys.executable
    assert Path(conf["spark.submit.pyFiles"]).is_file()
    assert conf["spark.plimsoll.executorTimeout"] == "120s"


def test_one_process_is_sent_nothing(tmp_path: Path) -> None:
    """A single process is its executor and receives nothing."""
    conf = settings(SparkConnection("local[2]"), None, tmp_path)

    assert not {"spark.archives", "spark.pyspark.python", "spark.submit.pyFiles", "spark.driver.host"} & conf.keys()
    assert list(tmp_path.iterdir()) == []


def test_a_driver_that_is_its_own_executor_listens_on_the_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local driver listens on the loopback through SPARK_LOCAL_IP; one with remote executors does not."""
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)

    assert submit._environment(SparkConnection("local[2]"), tmp_path)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert settings(SparkConnection("local[2]"), None, tmp_path)["spark.ui.enabled"] == "false"
    assert "SPARK_LOCAL_IP" not in submit._environment(SparkConnection(CLUSTER), tmp_path)


@pytest.mark.usefixtures("packed")
def test_the_connections_settings_win(tmp_path: Path) -> None:
    """The connection's settings override the defaults; lists of files are combined."""
    asked = {"spark.driver.memory": "5g", "spark.plimsoll.executorTimeout": "5min", "spark.executor.memory": "3g"}
    files = {"spark.archives": "/data/more.zip", "spark.submit.pyFiles": "/data/more.py"}
    conf = settings(SparkConnection(CLUSTER, conf={**asked, **files}), None, tmp_path)

    assert conf.items() >= asked.items()
    assert conf["spark.archives"] == "/cache/python.tar.gz#environment,/data/more.zip"
    assert conf["spark.submit.pyFiles"].split(",")[1] == "/data/more.py"
    assert conf["spark.ui.enabled"] == "false"
    assert "spark.driver.host" not in conf


def test_a_python_of_the_users_is_not_sent_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python from the user replaces the packed one; the project's packages are sent."""
    monkeypatch.setattr(environment, "packed", lambda: pytest.fail("packed"))
    python = {"spark.pyspark.python": "/opt/python/bin/python"}
    conf = settings(SparkConnection("yarn", conf=python), None, tmp_path)

    assert conf["spark.pyspark.python"] == "/opt/python/bin/python"
    assert "spark.archives" not in conf
    assert "spark.submit.pyFiles" in conf
    there = settings(SparkConnection("yarn", "cluster", python), None, tmp_path / "there")
    assert "spark.pyspark.driver.python" not in there


def test_settings_are_told_in_a_file_of_the_owners(tmp_path: Path) -> None:
    """Settings are in a private file in Java's properties format, with backslashes and line ends escaped."""
    written = submit._written({"spark.authenticate.secret": r"a\b", "spark.app.name": "two\nlines"}, tmp_path)

    assert written.read_text() == "spark.authenticate.secret=a\\\\b\nspark.app.name=two\\nlines\n"
    assert written.stat().st_mode & 0o077 == 0
