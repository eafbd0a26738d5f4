"""Read Airflow's connections (environment, database or secrets backend) of Spark, Docker, S3 and Kafka clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from airflow.sdk import BaseHook, BaseOperator
from airflow.sdk.exceptions import AirflowNotFoundException

from history import access
from history.errors import BadInput

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

    from clusters.attached.cluster_file import Described


def connection(name: str) -> Connection | None:
    """Return Airflow's connection, if there is one."""
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None


class AccessHook(BaseHook):
    """Return a connection's values as the variables that clients read."""

    default_conn_name: ClassVar[str]
    conn_type: ClassVar[str]

    def get_conn(self) -> dict[str, str]:
        stored = connection(self.default_conn_name)
        return {name: value for name, value in self.values_of(stored).items() if value} if stored else {}

    def values_of(self, stored: Connection) -> dict[str, str | None]:
        raise NotImplementedError


class SparkHook(AccessHook):
    """Return the Spark connection as JSON."""

    default_conn_name, conn_type = "spark_default", "spark"

    def values_of(self, stored: Connection) -> dict[str, str | None]:
        fields = {name: getattr(stored, name) for name in ("conn_type", "host", "port")}
        return {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({**fields, "extra": stored.extra_dejson})}


class DockerHook(AccessHook):
    """Return the Docker daemon's address."""

    default_conn_name, conn_type = "docker_default", "docker"

    def values_of(self, stored: Connection) -> dict[str, str | None]:
        if not stored.host:
            raise BadInput(
                f"The connection {stored.conn_id} has no host; it is an address such as unix:///run/docker.sock."
            )
        port = f":{stored.port}" if stored.port else ""
        return {"DOCKER_HOST": stored.host if "://" in stored.host else f"tcp://{stored.host}{port}"}


class ObjectStoreHook(AccessHook):
    """Return keys, endpoint and region of S3."""

    default_conn_name, conn_type = "aws_default", "aws"

    def values_of(self, stored: Connection) -> dict[str, str | None]:
        extra = stored.extra_dejson
        return {
            "AWS_ACCESS_KEY_ID": stored.login,
            "AWS_SECRET_ACCESS_KEY": stored.password,
            "AWS_SESSION_TOKEN": extra.get("aws_session_token"),
            "AWS_ENDPOINT_URL": extra.get("endpoint_url"),
            "AWS_REGION": extra.get("region_name"),
        }


def cluster_named(name: str) -> Path | Described:
    """Return a cluster file's absolute path, or a connection's cluster; raise BadInput if that is wrong."""
    if name.startswith("/"):
        return Path(name)
    from clusters.attached.connection import described  # heavy for DAG parsing

    stored = connection(name)
    if stored is None or stored.conn_type != "kafka":
        what = "not defined" if stored is None else f"of type {stored.conn_type}"
        raise BadInput(f"The connection {name} is {what}; name one of type kafka, or an absolute path.")
    address = f"{stored.host}:{stored.port}" if stored.port else stored.host or ""
    return described(name, stored.extra_dejson, address, stored.login or "", stored.password or "")


class ConnectedOperator(BaseOperator):
    """Read the connections that the task needs."""

    hooks: ClassVar[tuple[type[AccessHook], ...]] = (SparkHook, DockerHook, ObjectStoreHook)

    def pre_execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        access.use({name: value for hook in self.hooks for name, value in hook().get_conn().items()})
