"""What one version of Kafka answers to the claims about replication: ``make claims``."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from operators.campaign_dag import campaign_dag

dag: DAG = campaign_dag(
    "claims",
    "Experiments on real brokers, and what they say of each claim.",
    {"kafka": Param(None, type=["string", "null"], description="A version, such as 4.3.0")},
    schedule=None,
)
