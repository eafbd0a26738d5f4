"""Nightly runs as literal archive rows: two control runs, and each cell of the matrix once or more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from campaigns.campaign import Campaign, Item
from campaigns.nightly import campaign as nightly

Row = dict[str, Any]
METRIC = "latency_p99_ms"
SETTINGS: dict[str, Any] = {
    "scenarios": ["steady"],
    "versions": ["3.9.1", "4.3.0"],
    "repetitions": 1,
    "control": {"scenario": "transactions", "kafka": "3.9.1"},
    "watch": {METRIC: {"margin": 0.05}},
    "baseline": {"nightly_runs": 30, "releases": ["3.9.1"]},
    "confirm": {"pairs": 3, "candidates": 1, "cool_down": 2},
}
FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)
Value = Callable[[Item], float | None]


def name_of(nightly_run: int) -> str:
    """Return ``nightly-07`` for 7."""
    return f"nightly-{nightly_run:02d}"


def campaign_of(nightly_run: int, **settings: Any) -> Campaign:
    """Return the plan of a nightly run."""
    at = FIRST + timedelta(days=nightly_run)
    return nightly.plan(
        {**SETTINGS, **settings}, campaign_id=name_of(nightly_run), created_at=at.isoformat(), seed=nightly_run
    )


def wobble(nightly_run: int) -> float:
    """Return deterministic noise of about 1%."""
    return 1 + 0.01 * math.sin(37.0 * nightly_run)


def rows_of(campaign: Campaign, items: Iterable[Item], value: Value, /, **more: Any) -> list[Row]:
    """Return one row per run: p99 of the whole run; a value of None omits the run."""
    rows = []
    for place, item in enumerate(items):
        figure = value(item)
        if figure is not None:
            rows.append(row(campaign, item, figure, place, **more))
    return rows


def row(campaign: Campaign, item: Item, figure: float, place: int = 0, **more: Any) -> Row:
    """Return a passed run with one value."""
    at = datetime.fromisoformat(campaign.created_at) + timedelta(minutes=3 * place)
    return {
        "run_id": f"{campaign.campaign_id}-{item.name}",
        "started_at": at.isoformat(),
        "scenario": item.scenario,
        "scenario_digest": f"digest of {item.scenario}",
        "kafka_version": item.kafka,
        "host": "host-a",
        "verdict": "pass",
        "sentence": "Every acknowledged record survived.",
        "anomalies": {},
        "broken": [],
        "known_bugs": {},
        "labels": {**item.labels, "campaign": campaign.campaign_id, "item": item.name},
        "metric": METRIC,
        "phase": "",
        "value": figure,
        "samples": 10_000,
        "censored": False,
        "trusted": True,
        "note": None,
        **more,
    }


def history(nightly_runs: int, slow: Mapping[str, tuple[int, float]] | None = None, **settings: Any) -> list[Row]:
    """Return this many nightly runs at 20 ms with noise; ``slow`` maps version or role to (first slow run, factor)."""
    rows: list[Row] = []
    for nightly_run in range(nightly_runs):
        campaign = campaign_of(nightly_run, **settings)
        rows += rows_of(
            campaign, campaign.items, lambda item, nightly_run=nightly_run: figure(item, nightly_run, slow or {})
        )
    return rows


def figure(item: Item, nightly_run: int, slow: Mapping[str, tuple[int, float]]) -> float:
    """Return 20 ms with the noise of nightly run and cell, times the factors that apply."""
    value = 20 * wobble(nightly_run + sum(map(ord, item.name)))
    for what in {item.kafka, item.labels["role"]} & slow.keys():
        since, factor = slow[what]
        value *= factor if nightly_run >= since else 1
    return value


def rerun(factor: float) -> Value:
    """Return a function for rerun values: candidates are slower by a factor, and each run has noise."""

    def value(item: Item) -> float:
        is_candidate = item.labels["role"] == "candidate"
        return 20 * wobble(5 * int(item.labels["pair"]) + is_candidate) * (factor if is_candidate else 1)

    return value
