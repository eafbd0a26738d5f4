"""A DAG per kind of campaign; only nightly runs have a schedule."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, get_parsing_context

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
    "schedule": os.environ.get(SCHEDULE, "0 2 * * *") or None,  # empty: manual
    # it occupies the host for an hour: unpause it on Airflow's page
    "is_paused_upon_creation": SCHEDULE not in os.environ,
    "catchup": False,  # without start_date, so that last night's run is not made up
}

_only = get_parsing_context().dag_id  # a task needs its own DAG alone
dags: dict[str, DAG] = {
    name: campaign_dag(kinds.of(name), **(NIGHTLY if name == "nightly" else {}))
    for name in kinds.names()
    if _only in (None, name)
}
globals().update(dags)
