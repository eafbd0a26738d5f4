"""Give DAGs their owner, retries and deadline, from Airflow's environment."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from history.errors import BadInput
from operators.notify import post
from service.stages import recording_queue

OWNER, RETRIES, DEADLINE = "PLIMSOLL_OWNER", "PLIMSOLL_RETRIES", "PLIMSOLL_DEADLINE"
WEBHOOK = "PLIMSOLL_WEBHOOK"

log = logging.getLogger("plimsoll")


def default_args() -> dict[str, Any]:
    """Return what all tasks have; a task of a recording is not retried, since that would be another experiment."""
    return {"owner": os.environ.get(OWNER, "plimsoll"), "retries": 0, **recording_queue()}


def retries() -> int:
    """Return the retries of tasks that may be repeated; raise BadInput for a wrong setting."""
    return int(_number(RETRIES, "1"))


def deadline() -> DeadlineAlert | None:
    """Return the alert for runs that last longer than ``PLIMSOLL_DEADLINE`` minutes, if it is set; raise BadInput."""
    if not os.environ.get(DEADLINE):
        return None
    minutes = _number(DEADLINE, "")
    callback = AsyncCallback(tell_late, {"minutes": minutes})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(minutes=minutes), callback)


def _number(name: str, usual: str) -> float:
    text = os.environ.get(name) or usual
    if not text.replace(".", "", 1).isdigit():
        raise BadInput(f"{name}={text} is no number; set it to one such as 2.")
    return float(text)


async def tell_late(minutes: float, context: dict[str, Any]) -> None:
    """Post to the webhook that a DAG run has missed its deadline; without one, log it."""
    run = context["dag_run"]
    text = f"{run['dag_run_id']} of the DAG {run['dag_id']} has not ended {minutes:g} min after it was queued."
    log.warning(text)
    if url := os.environ.get(WEBHOOK):
        await asyncio.to_thread(post, url, {"text": text, "state": None})
