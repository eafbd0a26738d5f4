"""Read Airflow's Spark connection, without heavy imports, to reject a wrong one before anything starts.

Its fields are those of Airflow's Spark provider. ``extra`` also has memory, cores and settings, named as spark-submit's
options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from history.errors import BadInput

_CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"
LOCAL = "local[*,4]"

# A field of extra → Spark's name, and the masters that it applies to (empty: all).
FIELDS: dict[str, tuple[str, str]] = {
    "queue": ("spark.yarn.queue", "yarn"),
    "namespace": ("spark.kubernetes.namespace", "k8s://"),
    "principal": ("spark.kerberos.principal", ""),
    "driver-memory": ("spark.driver.memory", ""),
    "driver-cores": ("spark.driver.cores", ""),
    "executor-memory": ("spark.executor.memory", ""),
    "executor-cores": ("spark.executor.cores", ""),
    "num-executors": ("spark.executor.instances", ""),
    "total-executor-cores": ("spark.cores.max", "spark://"),
}
# The provider polls its application with these; Plimsoll waits for spark-submit.
_IGNORED = ("rest-scheme", "rest-port", "yarn_resourcemanager_webapp_address")
_OTHER_MASTERS = r"yarn|local(-cluster)?(\[.+\])?|sc://[^/;:]+(:\d+)?(/(;[^;=]+=[^;]*)*)?"
_OTHERS = ("deploy-mode", "conf", "spark-binary")
# How long work may wait while no executor answers the driver.
EXECUTOR_LIMIT = "spark.plimsoll.executorTimeout"
NO_EXECUTOR = 4  # the exit code of an application that waited longer
# Settings that belong in other fields.
_ELSEWHERE = {"spark.master": "host and port", "spark.submit.deployMode": "the field deploy-mode"}


@dataclass(frozen=True)
class SparkConnection:
    """The master's URL for spark-submit or Spark Connect, ``client`` or ``cluster``, and Spark's settings."""

    master: str = LOCAL
    deploy_mode: str = "client"
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return self.master == "local" or self.master.startswith("local[")

    @property
    def is_connect(self) -> bool:
        return self.master.startswith("sc://")

    @property
    def job(self) -> str:
        """Return the module of this package that judges there."""
        return "job" if self.is_local else "connect_job" if self.is_connect else "cluster_job"

    @property
    def server(self) -> str:
        """Return the master without Spark Connect's parameters, which may have a token."""
        return self.master.partition("/;")[0]


def spark_connection(environment: Mapping[str, str]) -> SparkConnection:
    """Return Airflow's Spark connection (JSON or URI) of the environment; without one, Spark runs in the driver.

    Tasks put stored connections there (``operators.hooks``).

    Raises:
        BadInput: it is unreadable, unknown, contradictory or impossible.
    """
    text = environment.get(_CONNECTION)
    if text is None:
        return SparkConnection()
    try:
        kind, host, port, extra = _of_json(text) if text.lstrip().startswith(("{", "[")) else _of_uri(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        kind, host, port, extra = "", "", None, {}
    if kind not in ("spark", "k8s") or not host:
        example = '{"conn_type": "spark", "host": "spark://10.0.0.1", "port": 7077}'
        found = f"one of type {kind!r} with host {host!r}" if kind else "what it holds"  # which may be a password
        raise BadInput(f"{_CONNECTION} must be a Spark connection such as {example}, not {found}.")
    return _checked(
        _master(kind, host, port), {name: value for name, value in extra.items() if value not in ("", None)}
    )


def _of_json(text: str) -> tuple[str, str, Any, dict[str, Any]]:
    connection: dict[str, Any] = json.loads(text)
    extra = connection.get("extra") or {}
    extra = json.loads(extra) if isinstance(extra, str) else extra
    return connection["conn_type"], str(connection["host"]), connection.get("port"), dict(extra)


def _of_uri(text: str) -> tuple[str, str, Any, dict[str, Any]]:
    parts = urlsplit(text)
    extra: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    extra = json.loads(extra["__extra__"]) if "__extra__" in extra else extra
    if isinstance(extra.get("conf"), str):
        extra["conf"] = json.loads(extra["conf"])
    return parts.scheme, unquote(parts.hostname or ""), parts.port, extra


def _master(kind: str, host: str, port: Any) -> str:
    """Return the master's URL as the provider builds it: the host is all of it, or the kind is its scheme."""
    end = f":{port}" if port else ""
    if end and "/;" in host:
        raise BadInput(f"{_CONNECTION}: give the port within the host, as in sc://host:15002/;token=…, not apart.")
    is_whole = kind == "spark" and ("://" in host or not port)
    whole = f"{host}{end}" if is_whole else f"{kind}://{host}{end}"
    scheme, _, rest = whole.partition("://")
    is_standalone = scheme == "spark" and all(re.fullmatch(r".+:\d+", each) for each in rest.split(","))
    if not (is_standalone or scheme == "k8s" or re.fullmatch(_OTHER_MASTERS, whole)):
        raise BadInput(
            f"{_CONNECTION}: {whole.partition('/;')[0]} is no Spark master; it is local[*], yarn, spark://<host> with "
            "a port such as 7077, k8s://https://<host> with a port, or sc://<host> of Spark Connect."
        )
    return re.sub(
        r"^local(?:\[([^,]+)\])?$", lambda local: f"local[{local[1] or 1},4]", whole
    )  # tries, as on a cluster


def _checked(master: str, extra: Mapping[str, Any]) -> SparkConnection:
    known = [*FIELDS, *_OTHERS]
    if "keytab" in extra:
        raise BadInput(f"{_CONNECTION}: keytab is not taken; name its file in conf, as spark.kerberos.keytab.")
    if unknown := sorted(extra.keys() - {*known, *_IGNORED}):
        near = get_close_matches(unknown[0].replace("_", "-"), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(sorted(known))}."
        raise BadInput(f"{_CONNECTION}: extra has no field {unknown[0]}; {hint}")
    if extra.get("spark-binary", "spark-submit") != "spark-submit":
        raise BadInput(
            f"{_CONNECTION}: spark-binary={extra['spark-binary']}; it is spark-submit, which the installed pyspark has."
        )
    if master.startswith("sc://") and (of_start := sorted(extra.keys() - {"conf"})):
        raise BadInput(f"{_CONNECTION}: {of_start[0]} is of the server's start, and Spark Connect does not change it.")
    conf = _conf(extra.get("conf", {}))
    for name, (setting, masters) in FIELDS.items():
        if name not in extra:
            continue
        value = _written(name, extra[name])
        if not master.startswith(masters):
            raise BadInput(f"{_CONNECTION}: {name}={value} has a meaning for {masters} alone, not for {master}.")
        if conf.setdefault(setting, value) != value:
            raise BadInput(
                f"{_CONNECTION}: {name}={value} contradicts {setting}={conf[setting]} of conf; leave one of them out."
            )
    return SparkConnection(master, _deploy_mode(master, extra.get("deploy-mode", "client"), conf), conf)


def _conf(told: Any) -> dict[str, str]:
    if not isinstance(told, dict):
        raise BadInput(
            f'{_CONNECTION}: conf must be an object such as {{"spark.executor.memory": "2g"}}, not {told!r}.'
        )
    conf = {name: _written(name, value) for name, value in told.items()}
    for name, value in conf.items():
        if not name.startswith("spark."):
            raise BadInput(f"{_CONNECTION}: {name} of conf is none of Spark's settings, which begin with spark.")
        if name in _ELSEWHERE:
            raise BadInput(f"{_CONNECTION}: {name} does not belong in conf; set {_ELSEWHERE[name]} of the connection.")
        if name == EXECUTOR_LIMIT and not re.fullmatch(r"\d+(s|m|min|h)", value):
            raise BadInput(f"{_CONNECTION}: {name}={value} is no time such as 120s or 5min.")
    return conf


def _written(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise BadInput(f"{_CONNECTION}: {name} must be a text or a number, not {value!r}.")


def _deploy_mode(master: str, mode: Any, conf: Mapping[str, str]) -> str:
    if mode not in ("client", "cluster"):
        raise BadInput(f"{_CONNECTION}: deploy-mode={mode}; it is client or cluster.")
    if mode == "cluster" and not master.startswith(("yarn", "k8s://")):
        raise BadInput(
            f"{_CONNECTION}: deploy-mode=cluster needs yarn or k8s://, for Spark runs no Python driver on {master}; "
            "use client."
        )
    if mode == "cluster" and "spark.pyspark.python" not in conf:
        raise BadInput(
            f"{_CONNECTION}: deploy-mode=cluster needs spark.pyspark.python in conf, a Python on the cluster that has "
            "all of requirements.lock; only executors are sent what they need."
        )
    return str(mode)
