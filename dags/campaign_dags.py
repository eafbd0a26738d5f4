"""One DAG for each kind of campaign, as its package declares it; only nightly runs have a schedule."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG

from campaigns import kinds
from operators.campaign_dag import campaign_dag
from operators.notify import RECEIVERS, NightlyNotifier, NightlyWebhook

SCHEDULE = "PLIMSOLL_NIGHTLY"  # a cron expression
PLANNED = "{{ ti.xcom_pull(task_ids='plan') }}"  # the nightly run's folder
NIGHTLY: dict[str, Any] = {
    "tell": [
        NightlyWebhook(campaign=PLANNED),
        *(NightlyNotifier(receiver=receiver, campaign=PLANNED) for receiver in RECEIVERS),
    ],
    "schedule": os.environ.get(SCHEDULE, "0 2 * * *") or None,  # empty: only when asked for
    # It takes the host for an hour each night: who has not asked for a schedule unpauses it on Airflow's page.
    "is_paused_upon_creation": SCHEDULE not in os.environ,
    "catchup": False,  # and no start_date: with one, Airflow would begin last night's run as soon as it is up
}

dags: dict[str, DAG] = {
    name: campaign_dag(kinds.of(name), **(NIGHTLY if name == "nightly" else {})) for name in kinds.names()
}
globals().update(dags)
