"""Triggers a nightly run by a schedule.

Apart from the DAG nightly, since a DAG with a schedule makes up its last run when a command unpauses it.
"""

from __future__ import annotations

import os

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

SCHEDULE = "PLIMSOLL_NIGHTLY"  # a cron expression

with DAG(
    "every_night",
    description="Trigger a nightly run by a schedule.",
    schedule=os.environ.get(SCHEDULE, "0 2 * * *") or None,  # empty: none
    is_paused_upon_creation=True,  # it occupies the host for an hour
    catchup=False,
    max_active_runs=1,
    tags=["campaign"],
) as dag:
    TriggerDagRunOperator(task_id="nightly", trigger_dag_id="nightly", fail_when_dag_is_paused=True)
