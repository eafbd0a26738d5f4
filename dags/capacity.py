"""How much load is safe on this cluster: ``make capacity``."""

from __future__ import annotations

from airflow.sdk import DAG

from operators.campaign_dag import campaign_dag

dag: DAG = campaign_dag(
    "capacity",
    "How many brokers, which headroom, and how long one of them may stay down.",
    schedule=None,
)
