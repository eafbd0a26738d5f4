"""Configure Spark, Docker and S3 from Airflow's connections (environment, database or secrets backend)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook, BaseOperator
from airflow.sdk.exceptions import AirflowNotFoundException

from history.errors import BadInput

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

SPARK = "spark_default"
DOCKER = "docker_default"
OBJECT_STORE = "aws_default"


class ConnectedOperator(BaseOperator):
    """Configure Spark, Docker and S3 before the task."""

    def pre_execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        use_connections()


def use_connections() -> None:
    """Set the clients' environment variables from the connections that exist.

    Raises:
        BadInput: the connection to Docker has no host.
    """
    if spark := connection(SPARK):
        fields = {"conn_type": spark.conn_type, "host": spark.host, "port": spark.port, "extra": spark.extra_dejson}
        os.environ[f"AIRFLOW_CONN_{SPARK.upper()}"] = json.dumps(fields)
    if docker := connection(DOCKER):
        if not docker.host:
            raise BadInput(f"The connection {DOCKER} has no host; it is an address such as unix:///run/docker.sock.")
        is_whole = "://" in docker.host
        port = f":{docker.port}" if docker.port else ""
        os.environ["DOCKER_HOST"] = docker.host if is_whole else f"tcp://{docker.host}{port}"

    if store := connection(OBJECT_STORE):
        of_s3 = {
            "AWS_ACCESS_KEY_ID": store.login,
            "AWS_SECRET_ACCESS_KEY": store.password,
            "AWS_SESSION_TOKEN": store.extra_dejson.get("aws_session_token"),
            "AWS_ENDPOINT_URL": store.extra_dejson.get("endpoint_url"),
            "AWS_REGION": store.extra_dejson.get("region_name"),
        }
        os.environ.update({name: value for name, value in of_s3.items() if value})


def connection(name: str) -> Connection | None:
    """Return Airflow's connection of a name, if there is one."""
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None
