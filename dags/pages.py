"""Rewrites the index page when the archive grows."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from operators.assets import ARCHIVE, PAGES
from operators.campaign import WriteIndex
from service.stages import recording_queue

with DAG(
    "pages",
    description="The page over everything, written whenever the archive grows.",
    schedule=[ARCHIVE],
    max_active_runs=1,
    default_args={"retries": 0, **recording_queue()},
    tags=["upkeep"],
) as dag:
    WriteIndex(task_id="index", execution_timeout=timedelta(minutes=10), outlets=[PAGES])
