"""Where Airflow's Spark connection says that Spark runs; light, so that it can be refused before anything starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from history.errors import BadInput

_CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"


def spark_master(environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Master URL and further spark-submit options, from Airflow's Spark connection in the environment, where tasks put
    one that Airflow stores (``operators.connections``).

    Raises:
        BadInput: the connection is no JSON object of type spark.
    """
    text = environment.get(_CONNECTION)
    if text is None:
        return "local[*]", {}
    try:
        connection: dict[str, Any] = json.loads(text)
        kind, host, port = connection["conn_type"], connection["host"], connection.get("port")
        extra = connection.get("extra") or {}
        extra = json.loads(extra) if isinstance(extra, str) else extra
        options = {name: str(extra[name]) for name in ("deploy-mode", "queue", "namespace") if name in extra}
    except (ValueError, KeyError, TypeError):
        kind = None
    if kind != "spark":
        example = '{"conn_type": "spark", "host": "local[2]"}'
        raise BadInput(f"{_CONNECTION} must be a JSON object such as {example}, not {text!r}.")
    return (f"{host}:{port}" if port else host), options
