"""Removes leftovers of expired runs, hourly."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from operators.steps import Reap
from service.stages import recording_queue

with DAG(
    "reaper",
    description="Remove what expired runs left behind; runs that live are spared.",
    schedule="@hourly",
    catchup=False,  # without start_date, so that a new Airflow does not begin with it
    max_active_runs=1,
    default_args=recording_queue(),
    tags=["upkeep"],
) as dag:
    Reap(task_id="reap", execution_timeout=timedelta(minutes=10))
