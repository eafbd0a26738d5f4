"""Owner, retries and deadline of DAGs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from history.errors import BadInput
from operators import dag_settings
from operators.dag_settings import deadline, default_args, retries, tell_late

LATE = {"dag_run": {"dag_id": "steady", "dag_run_id": "manual__1"}, "deadline": {}}


def test_what_is_not_set_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of a recording are never retried, whatever the setting."""
    for name in ("OWNER", "RETRIES", "DEADLINE"):
        monkeypatch.delenv(f"PLIMSOLL_{name}", raising=False)
    assert (default_args(), retries(), deadline()) == ({"owner": "plimsoll", "retries": 0}, 1, None)


def test_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline counts from the time at which the run was queued."""
    for name, value in (("OWNER", "kafka-team"), ("RETRIES", "3"), ("DEADLINE", "1.5")):
        monkeypatch.setenv(f"PLIMSOLL_{name}", value)
    assert (default_args()["owner"], default_args()["retries"], retries()) == ("kafka-team", 0, 3)
    alert: Any = deadline()
    assert (alert.interval, alert.reference.reference_name) == (timedelta(seconds=90), "DagRunQueuedAtDeadline")
    assert (alert.callback.path, alert.callback.kwargs) == ("operators.dag_settings.tell_late", {"minutes": 1.5})


@pytest.mark.parametrize("value", ["-1", "2h", "1.2.3"])
def test_what_is_no_number_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow shows the sentence as an import error."""
    monkeypatch.setenv("PLIMSOLL_DEADLINE", value)
    with pytest.raises(BadInput, match=f"PLIMSOLL_DEADLINE={value} is no number"):
        deadline()


def test_a_late_run_is_told_to_the_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one it is logged alone."""
    posted: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(dag_settings, "post", lambda url, message: posted.append((url, message)))
    monkeypatch.delenv("PLIMSOLL_WEBHOOK", raising=False)
    _in_a_loop()
    assert posted == []
    monkeypatch.setenv("PLIMSOLL_WEBHOOK", "http://chat")
    _in_a_loop()
    text = "manual__1 of the DAG steady has not ended 90 min after it was queued."
    assert posted == [("http://chat", {"text": text, "state": None})]


def _in_a_loop() -> None:
    """Tell as the triggerer does; in a thread of its own, since a browser's tests leave a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, tell_late(90.0, LATE)).result()
