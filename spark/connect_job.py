"""Judge over Spark Connect as ``job.py`` does; the server's executors are sent our packages, and a Python.

``SPARK_REMOTE`` names the server.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from history.access import variables
from history.scratch import scratch
from spark import environment, job
from spark.connection import spark_connection
from spark.progress import by_messages
from spark.submit import packages

_PYTHON = "spark.sql.execution.pyspark.python"


def main(folders: Sequence[str]) -> None:
    """Judge run folders as ``job.main`` does."""
    session, conf = SparkSession.builder.getOrCreate(), spark_connection(variables()).conf
    for name, value in conf.items():
        session.conf.set(name, value)
    with scratch() as folder:
        session.addArtifacts(packages(folder), pyfile=True)
    if _PYTHON not in conf:
        session.addArtifacts(f"{environment.packed()}#{environment.NAME}", archive=True)
        session.conf.set(_PYTHON, environment.PYTHON)
    job.main(folders, by_messages)
