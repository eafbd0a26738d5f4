"""Two versions of Kafka against each other: ``make compare``."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from operators.campaign_dag import campaign_dag

dag: DAG = campaign_dag(
    "compare",
    "What changes for somebody who upgrades Kafka, with its uncertainty.",
    {
        "base": Param(None, type=["string", "null"], description="A version, such as 3.0.2"),
        "head": Param(None, type=["string", "null"], description="Another, or a folder or tarball of jars"),
        "scenario": Param(None, type=["string", "null"]),
        "pairs": Param(None, type=["integer", "null"], description="Fresh clusters on each side"),
    },
    schedule=None,
)
