"""Addresses from Airflow's connections, as used by Spark's, Docker's and S3's clients."""

from __future__ import annotations

import json
import os

import pytest
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from history.errors import BadInput
from operators.connections import use_connections
from spark.connection import SparkConnection, spark_connection


def stored(monkeypatch: pytest.MonkeyPatch, *connections: Connection) -> None:
    """Let Airflow have exactly these connections."""
    monkeypatch.setattr(os, "environ", {})

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
    use_connections()

    conf = {"spark.executor.memory": "3g", "spark.cores.max": "4"}
    assert spark_connection(os.environ) == SparkConnection("spark://far:7077", "client", conf)
    assert "DOCKER_HOST" not in os.environ


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [("unix:///run/docker.sock", None, "unix:///run/docker.sock"), ("far", 2375, "tcp://far:2375")],
)
def test_a_stored_connection_says_where_docker_is(
    monkeypatch: pytest.MonkeyPatch, host: str, port: int | None, address: str
) -> None:
    """``docker_default`` is a full address, or a TCP host and port."""
    stored(monkeypatch, Connection(conn_id="docker_default", conn_type="docker", host=host, port=port))
    use_connections()

    assert os.environ == {"DOCKER_HOST": address}


def test_without_connections_everything_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without connections the environment is unchanged and Spark is local; a connection without host is rejected."""
    stored(monkeypatch)
    use_connections()
    assert os.environ == {}
    assert spark_connection(os.environ).master == "local[*]"

    stored(monkeypatch, Connection(conn_id="docker_default", conn_type="docker"))
    with pytest.raises(BadInput, match="docker_default has no host"):
        use_connections()


def test_a_stored_connection_says_where_s3_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """``aws_default`` sets the variables of S3 clients for credentials, endpoint and region that it has."""
    extra = '{"endpoint_url": "http://store:9000", "region_name": "eu-west-1"}'
    of_s3 = {"login": "key", "password": "x", "extra": extra}
    stored(monkeypatch, Connection(conn_id="aws_default", conn_type="aws", **of_s3))
    use_connections()
    assert os.environ == {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_ENDPOINT_URL": "http://store:9000",
        "AWS_REGION": "eu-west-1",
    }
