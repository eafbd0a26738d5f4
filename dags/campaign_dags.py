"""A DAG per kind of campaign."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, get_parsing_context

from campaigns import kinds
from operators.campaign_dag import campaign_dag
from operators.notify import RECEIVERS, NightlyNotifier, NightlyWebhook

PLANNED = "{{ ti.xcom_pull(task_ids='plan') }}"  # the nightly run's folder
NIGHTLY: dict[str, Any] = {
    "tell": [
        NightlyWebhook(campaign=PLANNED),
        *(NightlyNotifier(receiver=receiver, campaign=PLANNED) for receiver in RECEIVERS),
    ],
}

_only = get_parsing_context().dag_id  # a task needs its own DAG alone
dags: dict[str, DAG] = {
    name: campaign_dag(kinds.of(name), **(NIGHTLY if name == "nightly" else {}))
    for name in kinds.names()
    if _only in (None, name)
}
globals().update(dags)
