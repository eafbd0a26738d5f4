"""Where Spark runs."""

import pytest

from history.errors import BadInput
from spark.connection import spark_master


def test_the_master_is_local_by_default():
    """Without a connection Spark runs here, on all cores."""
    assert spark_master({}) == ("local[*]", {})


def test_the_master_comes_from_airflows_connection():
    """Host, port and the known extras of the Spark connection are taken."""
    text = (
        '{"conn_type": "spark", "host": "spark://10.0.0.1", "port": 7077, "extra": {"deploy-mode": "client", "x": 1}}'
    )

    assert spark_master({"AIRFLOW_CONN_SPARK_DEFAULT": text}) == ("spark://10.0.0.1:7077", {"deploy-mode": "client"})


@pytest.mark.parametrize(
    "text",
    [
        "spark://host:7077",
        '{"conn_type": "http", "host": "x"}',
        '{"conn_type": "spark"}',
        '{"conn_type": "spark", "host": "x", "extra": "{"}',
        "[]",
    ],
)
def test_another_connection_is_refused(text):
    """What is no Spark connection in JSON is refused with an example."""
    with pytest.raises(BadInput, match="must be a JSON object such as"):
        spark_master({"AIRFLOW_CONN_SPARK_DEFAULT": text})
