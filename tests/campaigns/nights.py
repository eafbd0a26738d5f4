"""Nights of literal figures, as rows of the archive: the canary twice, and a cell of the matrix once or more."""

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
    "canary": {"scenario": "transactions", "kafka": "3.9.1"},
    "watch": {METRIC: {"margin": 0.05}},
    "baseline": {"nights": 30, "releases": ["3.9.1"]},
    "confirm": {"pairs": 3, "suspects": 1, "rest": 2},
}
FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)
Value = Callable[[Item], float | None]


def name_of(night: int) -> str:
    """``night-07``."""
    return f"night-{night:02d}"


def campaign_of(night: int, **settings: Any) -> Campaign:
    """The plan of a night."""
    at = FIRST + timedelta(days=night)
    return nightly.plan({**SETTINGS, **settings}, campaign_id=name_of(night), created_at=at.isoformat(), seed=night)


def wobble(night: int) -> float:
    """A quiet host's noise, about 1 %, the same each time."""
    return 1 + 0.01 * math.sin(37.0 * night)


def rows_of(campaign: Campaign, items: Iterable[Item], value: Value, /, **more: Any) -> list[Row]:
    """One row a run: p99 of the whole run; a value of None makes no run at all."""
    rows = []
    for place, item in enumerate(items):
        figure = value(item)
        if figure is not None:
            rows.append(row(campaign, item, figure, place, **more))
    return rows


def row(campaign: Campaign, item: Item, figure: float, place: int = 0, **more: Any) -> Row:
    """A run that passed, with one figure."""
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


def history(nights: int, slow: Mapping[str, tuple[int, float]] | None = None, **settings: Any) -> list[Row]:
    """So many nights at 20 ms and the host's noise; ``slow`` maps version or role to (first night, factor)."""
    rows: list[Row] = []
    for night in range(nights):
        campaign = campaign_of(night, **settings)
        rows += rows_of(campaign, campaign.items, lambda item, night=night: figure(item, night, slow or {}))
    return rows


def figure(item: Item, night: int, slow: Mapping[str, tuple[int, float]]) -> float:
    """20 ms, the noise of the night and of the cell, and what is slow by then."""
    value = 20 * wobble(night + sum(map(ord, item.name)))
    for what in {item.kafka, item.labels["role"]} & slow.keys():
        since, factor = slow[what]
        value *= factor if night >= since else 1
    return value


def rerun(factor: float) -> Value:
    """The figure of a rerun: suspects are slower than the release by a factor, and each run has noise of its own."""

    def value(item: Item) -> float:
        is_suspect = item.labels["role"] == "suspect"
        return 20 * wobble(5 * int(item.labels["pair"]) + is_suspect) * (factor if is_suspect else 1)

    return value
