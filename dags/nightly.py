"""Every night the same matrix, so that a change is seen the morning after: ``make nightly``."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from operators.campaign_dag import campaign_dag
from operators.notify import NightlyWebhook

dag: DAG = campaign_dag(
    "nightly",
    "Scenarios × versions, judged and screened; what changed is confirmed before anybody is told.",
    tell=[NightlyWebhook(campaign="{{ ti.xcom_pull(task_ids='plan') }}")],
    schedule=os.environ.get("PLIMSOLL_NIGHTLY", "0 2 * * *") or None,  # empty: only when asked for
    catchup=False,  # and no start_date: with one, Airflow would begin last night's run as soon as it is up
)
