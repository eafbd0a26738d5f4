"""Spark's master and settings."""

import json

import pytest

from history.errors import BadInput
from spark.connection import SparkConnection, spark_connection

STANDALONE = {"conn_type": "spark", "host": "spark://10.0.0.1", "port": 7077}
KUBERNETES = {"conn_type": "spark", "host": "k8s://https://10.0.0.1", "port": 6443}
YARN = {"conn_type": "spark", "host": "yarn"}


def read(connection, **extra):
    """Return the connection from Airflow's, as JSON or as its variable's text."""
    text = connection if isinstance(connection, str) else json.dumps(connection | ({"extra": extra} if extra else {}))
    return spark_connection({"AIRFLOW_CONN_SPARK_DEFAULT": text})


def test_the_master_is_local_by_default():
    """Without a connection Spark runs locally on all cores."""
    assert spark_connection({}) == SparkConnection("local[*,4]", "client", {})
    assert spark_connection({}).is_local


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (STANDALONE, "spark://10.0.0.1:7077"),
        ({"conn_type": "spark", "host": "spark://10.0.0.1:7077,10.0.0.2:7077"}, "spark://10.0.0.1:7077,10.0.0.2:7077"),
        ({"conn_type": "spark", "host": "10.0.0.1", "port": 7077}, "spark://10.0.0.1:7077"),
        ({"conn_type": "spark", "host": "local[2]"}, "local[2,4]"),  # a task is tried four times
        ({"conn_type": "spark", "host": "local"}, "local[1,4]"),
        ({"conn_type": "spark", "host": "local[2,1]"}, "local[2,1]"),
        ({"conn_type": "spark", "host": "local-cluster[2,1,1024]"}, "local-cluster[2,1,1024]"),
        ({"conn_type": "spark", "host": "sc://10.0.0.1", "port": 15002}, "sc://10.0.0.1:15002"),
        ({"conn_type": "spark", "host": "sc://far/;use_ssl=true;token=x"}, "sc://far/;use_ssl=true;token=x"),
        (YARN, "yarn"),
        (KUBERNETES, "k8s://https://10.0.0.1:6443"),
        ({"conn_type": "k8s", "host": "https://10.0.0.1", "port": 6443}, "k8s://https://10.0.0.1:6443"),
        ("spark://10.0.0.1:7077", "spark://10.0.0.1:7077"),
        ("spark://yarn", "yarn"),
        ("k8s://https%3A%2F%2F10.0.0.1:6443", "k8s://https://10.0.0.1:6443"),
    ],
)
def test_the_master_is_put_together_as_airflows_provider_does(connection, master):
    """The master is composed as Airflow's provider does, from host and port or the connection type; JSON or URI."""
    assert read(connection).master == master


@pytest.mark.parametrize(
    ("master", "is_local"), [("local", True), ("local[4,2]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)]
)
def test_one_process_is_told_from_a_cluster(master, is_local):
    """Only local masters are one process; Spark's local-cluster starts executors."""
    assert SparkConnection(master).is_local == is_local


@pytest.mark.parametrize(
    ("master", "job"),
    [("local[*]", "job"), ("spark://a:7077", "cluster_job"), ("yarn", "cluster_job"), ("sc://a:15002", "connect_job")],
)
def test_each_kind_of_master_has_its_job(master, job):
    """One process, a cluster and Spark Connect are judged by different modules."""
    assert SparkConnection(master).job == job


def test_fields_become_sparks_settings():
    """Fields of Airflow's provider and of spark-submit become Spark's settings, with values in Spark's form."""
    conf = {"spark.eventLog.enabled": True, "spark.task.cpus": 1}
    connection = read(
        STANDALONE,
        **{"deploy-mode": "client", "executor-memory": "3g", "executor-cores": 2, "total-executor-cores": 4},
        **{"driver-memory": "1g", "conf": conf},
    )

    assert connection.conf == {
        "spark.executor.memory": "3g",
        "spark.executor.cores": "2",
        "spark.cores.max": "4",
        "spark.driver.memory": "1g",
        "spark.eventLog.enabled": "true",
        "spark.task.cpus": "1",
    }


def test_queue_and_namespace_are_of_one_master_each():
    """A queue is a setting of YARN, and a namespace one of Kubernetes."""
    assert read(YARN, queue="night").conf == {"spark.yarn.queue": "night"}
    assert read(KUBERNETES, namespace="kafka").conf == {"spark.kubernetes.namespace": "kafka"}


def test_a_connection_that_airflows_form_made_is_taken():
    """Empty fields of Airflow's form, and fields of the provider's monitoring, are ignored."""
    form = {"queue": "", "deploy-mode": "client", "spark-binary": "spark-submit", "namespace": "", "rest-port": "6066"}

    assert read(STANDALONE, **form) == SparkConnection("spark://10.0.0.1:7077", "client", {})


def test_fields_of_a_uri_are_read():
    """Fields of a URI are read individually, or from Airflow's single field."""
    named = read("spark://10.0.0.1:7077?executor-memory=2g")
    whole = read("spark://10.0.0.1:7077?__extra__=%7B%22conf%22%3A+%7B%22spark.executor.memory%22%3A+%222g%22%7D%7D")

    assert named == whole
    assert named.conf == {"spark.executor.memory": "2g"}


def test_a_driver_on_the_cluster_needs_a_python_there():
    """A driver on a YARN or Kubernetes cluster needs a Python there that the user names."""
    there = {"conf": {"spark.pyspark.python": "/opt/plimsoll/bin/python"}}

    assert read(YARN, **{"deploy-mode": "cluster", **there}).deploy_mode == "cluster"
    with pytest.raises(BadInput, match=r"needs spark\.pyspark\.python in conf"):
        read(YARN, **{"deploy-mode": "cluster"})


@pytest.mark.parametrize(
    "text",
    [
        "http://host:7077",
        '{"conn_type": "http", "host": "x"}',
        '{"conn_type": "spark"}',
        '{"conn_type": "spark", "host": "yarn", "extra": "{"}',
        "[]",
        "spark://[",
    ],
)
def test_another_connection_is_refused(text):
    """Any other connection is rejected with an example of a Spark connection."""
    with pytest.raises(BadInput, match="must be a Spark connection such as"):
        read(text)


def test_a_refusal_keeps_passwords_to_itself():
    """A rejection names type and host of a connection, and not its password."""
    with pytest.raises(BadInput, match="not one of type 'http' with host 'far'") as refused:
        read({"conn_type": "http", "host": "far", "password": "hunter2"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("connection", "extra", "says"),
    [
        ({"conn_type": "spark", "host": "spark://10.0.0.1"}, {}, "spark://10.0.0.1 is no Spark master"),
        ({"conn_type": "spark", "host": "far"}, {}, "far is no Spark master"),
        ({"conn_type": "spark", "host": "sc://far/token=hunter2"}, {}, "sc://far/token=hunter2 is no Spark master"),
        ({"conn_type": "spark", "host": "sc://far"}, {"executor-memory": "2g"}, "executor-memory is of the server's"),
        (STANDALONE, {"executor_memory": "2g"}, "no field executor_memory; did you mean executor-memory?"),
        (STANDALONE, {"colour": "red"}, "no field colour; it takes conf, deploy-mode"),
        (STANDALONE, {"namespace": "kafka"}, "has a meaning for k8s:// alone, not for spark://10.0.0.1:7077"),
        (YARN, {"total-executor-cores": 4}, "has a meaning for spark:// alone, not for yarn"),
        (STANDALONE, {"deploy-mode": "remote"}, "deploy-mode=remote; it is client or cluster"),
        (STANDALONE, {"deploy-mode": "cluster"}, "Spark runs no Python driver on spark://10.0.0.1:7077"),
        (STANDALONE, {"spark-binary": "spark3-submit"}, "it is spark-submit"),
        (STANDALONE, {"keytab": "cGxpbXNvbGw="}, "in conf, as spark.kerberos.keytab"),
        (STANDALONE, {"executor-cores": [2]}, r"executor-cores must be a text or a number, not \[2\]"),
        (STANDALONE, {"conf": "spark.task.cpus=1"}, "conf must be an object"),
        (STANDALONE, {"conf": {"executor.memory": "2g"}}, "is none of Spark's settings"),
        (STANDALONE, {"conf": {"spark.master": "yarn"}}, "set host and port of the connection"),
        (STANDALONE, {"conf": {"spark.plimsoll.executorTimeout": "long"}}, "is no time such as 120s"),
        (
            STANDALONE,
            {"executor-memory": "2g", "conf": {"spark.executor.memory": "3g"}},
            "executor-memory=2g contradicts spark.executor.memory=3g",
        ),
    ],
)
def test_what_is_unknown_or_contradicts_itself_is_refused(connection, extra, says):
    """An unknown or contradictory field is rejected in one sentence with its value."""
    with pytest.raises(BadInput, match=says):
        read(connection, **extra)


def test_the_same_said_twice_is_no_contradiction():
    """A field and its setting with the same value do not contradict each other."""
    twice = {"executor-memory": "2g", "conf": {"spark.executor.memory": "2g"}}

    assert read(STANDALONE, **twice).conf["spark.executor.memory"] == "2g"
