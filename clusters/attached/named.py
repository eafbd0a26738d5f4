"""Name a cluster that somebody else runs: a file such as mine.yaml, or a connection of Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from history.errors import BadInput

CONNECTION = "connection:"


def is_connection(text: str) -> bool:
    """Return whether a text names a connection."""
    return text.startswith(CONNECTION)


def cluster_in(text: str) -> str:
    """Return a file's absolute path or a connection's name; "" if a text names neither."""
    if is_connection(text):
        return text.removeprefix(CONNECTION)
    return str(Path(text).absolute()) if text.endswith((".yaml", ".yml")) else ""


def named(text: str) -> str:
    """Return ``cluster_in`` of a text that names a cluster; one with a slash or a dot is a file."""
    return cluster_in(text) or (str(Path(text).absolute()) if "/" in text or "." in text else text)


Named = Annotated[str, AfterValidator(named)]  # a cluster, in settings


def file_of(name: str) -> Path:
    """Return a cluster file's path; raise BadInput for a connection, which only Airflow's tasks can read."""
    if name.startswith("/"):
        return Path(name)
    raise BadInput(
        f"{CONNECTION}{name} is a connection of Airflow, which a command cannot read; trigger the DAG there, or name a "
        "cluster file such as mine.yaml."
    )
