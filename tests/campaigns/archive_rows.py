"""Literal rows of the archive, as far as its metrics look at them."""

from __future__ import annotations

from typing import Any


def row(run: str, metric: str, value: float | None, **other: Any) -> dict[str, Any]:
    """A row of a run that passed."""
    of_run = {"run_id": run, "scenario": "steady", "kafka_version": "4.3.0", "started_at": "2026-11-02T23:00:00+00:00"}
    of_row = {"phase": "load", "trusted": True, "censored": False, "verdict": "pass"}
    return {**of_run, "metric": metric, "value": value, **of_row, **other}
