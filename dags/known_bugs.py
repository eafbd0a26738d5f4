"""Bugs that Kafka had, on versions with and without them: ``make known-bugs``."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from operators.campaign_dag import campaign_dag

dag: DAG = campaign_dag(
    "known_bugs",
    "Are bugs found where Kafka has them, and nowhere else?",
    {
        "bugs": Param(None, type=["string", "null"], description="Such as kafka-13091; all where nothing is said"),
        "kafka": Param(None, type=["string", "null"], description="Versions instead of each bug's own two"),
        "tries": Param(None, type=["integer", "null"], description="Fresh clusters for each bug and version"),
    },
    schedule=None,
)
