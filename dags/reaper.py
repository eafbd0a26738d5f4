"""Removes leftovers of expired runs, hourly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from operators.steps import Reap

with DAG(
    "reaper",
    description="Remove what expired runs left behind; runs that live are spared.",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["upkeep"],
) as dag:
    Reap(task_id="reap", execution_timeout=timedelta(minutes=10))
