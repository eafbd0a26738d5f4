"""What Airflow's connections say of Spark, Docker, S3 and Kafka clusters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from clusters.runtimes.ports import Endpoint
from history import access
from history.errors import BadInput
from operators.hooks import AccessHook, DockerHook, ObjectStoreHook, SparkHook, cluster_named
from operators.judge import Judge
from operators.steps import Reap
from spark.connection import SparkConnection, spark_connection


def stored(monkeypatch: pytest.MonkeyPatch, *connections: Connection) -> None:
    """Let Airflow have exactly these connections."""

    def get(conn_id: str) -> Connection:
        found = [each for each in connections if each.conn_id == conn_id]
        if not found:
            raise AirflowNotFoundException(conn_id)
        return found[0]

    monkeypatch.setattr(BaseHook, "get_connection", get)


def test_a_stored_connection_says_where_spark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """``spark_default`` sets master, memory and configuration, as an environment variable would."""
    extra = {"executor-memory": "3g", "conf": {"spark.cores.max": 4}}
    spark = Connection(
        conn_id="spark_default", conn_type="spark", host="spark://far", port=7077, extra=json.dumps(extra)
    )
    stored(monkeypatch, spark)

    conf = {"spark.executor.memory": "3g", "spark.cores.max": "4"}
    assert spark_connection(SparkHook().get_conn()) == SparkConnection("spark://far:7077", "client", conf)


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [("unix:///run/docker.sock", None, "unix:///run/docker.sock"), ("far", 2375, "tcp://far:2375")],
)
def test_a_stored_connection_says_where_docker_is(
    monkeypatch: pytest.MonkeyPatch, host: str, port: int | None, address: str
) -> None:
    """``docker_default`` is a full address, or a TCP host and port."""
    stored(monkeypatch, Connection(conn_id="docker_default", conn_type="docker", host=host, port=port))

    assert DockerHook().get_conn() == {"DOCKER_HOST": address}


def test_a_docker_connection_without_a_host_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without host is rejected."""
    stored(monkeypatch, Connection(conn_id="docker_default", conn_type="docker"))
    with pytest.raises(BadInput, match="docker_default has no host"):
        DockerHook().get_conn()


@pytest.mark.parametrize("hook", [SparkHook, DockerHook, ObjectStoreHook])
def test_without_a_connection_nothing_is_said(monkeypatch: pytest.MonkeyPatch, hook: type[AccessHook]) -> None:
    """Without connections clients use their defaults."""
    stored(monkeypatch)

    assert hook().get_conn() == {}


def test_a_stored_connection_says_where_s3_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """``aws_default`` sets the credentials, endpoint and region that it has."""
    extra = '{"endpoint_url": "http://store:9000", "region_name": "eu-west-1"}'
    of_s3 = {"login": "key", "password": "x", "extra": extra}
    stored(monkeypatch, Connection(conn_id="aws_default", conn_type="aws", **of_s3))

    assert ObjectStoreHook().get_conn() == {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_ENDPOINT_URL": "http://store:9000",
        "AWS_REGION": "eu-west-1",
    }


def test_a_stored_connection_describes_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and port are a broker, extra has the entries of a cluster file; login and password are the client's."""
    extra = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "topics": {"prefix": "chaos-"}}
    kafka = Connection(conn_id="staging", conn_type="kafka", host="b1", port=9092, login="ann", extra=json.dumps(extra))
    kafka.password = "planted"
    stored(monkeypatch, kafka)

    found = cluster_named("staging")
    assert not isinstance(found, Path)
    assert (found.cluster.bootstrap, found.cluster.topics.prefix) == ([Endpoint("b1", 9092)], "chaos-")
    assert 'username="ann" password="planted"' in found.settings["sasl.jaas.config"]


def test_an_absolute_path_is_a_cluster_file() -> None:
    """No connection is read for it."""
    assert cluster_named("/etc/plimsoll/mine.yaml") == Path("/etc/plimsoll/mine.yaml")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("production", "The connection production is not defined; name one of type kafka, or an absolute path."),
        ("store", "The connection store is of type aws; name one of type kafka, or an absolute path."),
    ],
)
def test_a_connection_that_is_no_cluster_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str, sentence: str) -> None:
    """One sentence says what it is."""
    stored(monkeypatch, Connection(conn_id="store", conn_type="aws", host="b1:9092"))
    with pytest.raises(BadInput) as refused:
        cluster_named(name)
    assert str(refused.value) == sentence


def test_a_task_has_its_own_connections_and_its_children_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reaper has Docker's address, the judge S3's key; a process that they start inherits neither."""
    docker = Connection(conn_id="docker_default", conn_type="docker", host="unix:///planted.sock")
    s3 = Connection(conn_id="aws_default", conn_type="aws", login="key")
    s3.password = "planted"
    stored(monkeypatch, docker, s3)
    monkeypatch.setattr(access, "_connections", {})
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    of_each = []
    for task in (Reap(task_id="reap"), Judge(task_id="judge", run="/runs/x")):
        task.pre_execute({})
        known = access.variables()
        of_each.append((known.get("DOCKER_HOST"), known.get("AWS_SECRET_ACCESS_KEY")))
        child = [sys.executable, "-c", "import os; print(*os.environ.values())"]
        assert "planted" not in subprocess.run(child, capture_output=True, text=True, check=True).stdout

    assert of_each == [("unix:///planted.sock", None), (None, "planted")]
