"""A comparison's plan and its runs as literal rows, as the archive would have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from campaigns.campaign import Campaign, Item

Measurement = tuple[str, str]  # metric, phase
P99 = ("latency_p99_ms", "steady")
CPU = ("broker_cpu_s_per_gb", "steady")
# Log-ratios of ten pairs: mean 0 and sd 0.02, so that an interval reaches 0.0143 to both sides.
NOISE = [0.02 * math.sqrt(0.9) * sign for sign in (1, -1, -1, 1, 1, -1, 1, -1, -1, 1)]


def campaign(pairs: int = 10, aa_pairs: int = 3, **settings: Any) -> Campaign:
    """A plan of one scenario, base before head in odd pairs."""
    asked = {
        "base": {"kafka": "3.9.0", "name": "Kafka 3.9.0", "changes": {}},
        "head": {"kafka": "3.9.1", "name": "Kafka 3.9.1", "changes": {}},
        "scenarios": ["steady"],
        "pairs": pairs,
        "aa_pairs": aa_pairs,
        "primary": {"latency_p99_ms@steady": 0.05},
        "secondary_margin": 0.10,
        "view": "same_settings",
        "changes": {},
        "resource_limits": {"cpus": 1.0},
        "injected_slowdown": None,
        "runtime": "docker",
        "phases": {"steady": ["steady", "leader dies", "a last one"]},
        **settings,
    }
    items = [*_items("calibration", "base2", aa_pairs), *_items("comparison", "head", pairs)]
    return Campaign(
        campaign_id="c1", kind="compare", created_at="2026-11-01T08:00:00Z", seed=7, settings=asked, items=items
    )


def _items(part: str, other: str, pairs: int) -> list[Item]:
    found = []
    for pair in range(1, pairs + 1):
        for order, role in enumerate(("base", other) if pair % 2 else (other, "base"), 1):
            labels = {"part": part, "role": role, "pair": str(pair), "order": str(order)}
            kafka = "3.9.1" if role == "head" else "3.9.0"
            name = f"steady-{part}-{pair:02}-{order}-{role}"
            found.append(Item(name=name, scenario="steady", kafka=kafka, labels=labels))
    return found


def run_rows(item: Item, measured: Mapping[Measurement, float | None], **about: Any) -> list[dict[str, Any]]:
    """A run's rows; ``about`` replaces columns of all of them."""
    usual = {
        "run_id": f"run-{item.name}",
        "started_at": "2026-11-01T09:00:00Z",
        "scenario": "steady",
        "scenario_digest": "scenario",
        "kafka_version": item.kafka,
        "kafka_jars_digest": f"jars-{item.kafka}",
        "mode": "kraft",
        "runtime": "docker",
        "jvm": "production",
        "seed": 1,
        "host": "host",
        "verdict": "pass",
        "sentence": "Every guarantee held.",
        "anomalies": {},
        "broken": [],
        "known_bugs": {},
        "labels": {"campaign": "c1", "item": item.name, **item.labels},
        "samples": 10_000,
        "censored": False,
        "trusted": True,
        "note": None,
    }
    return [
        {**usual, "metric": metric, "phase": phase, "value": value, **about}
        for (metric, phase), value in measured.items()
    ]


def rows(
    plan: Campaign,
    change: float = 0.0,
    *,
    place: Measurement = P99,
    base: float = 10.0,
    noise: Sequence[float] = NOISE,
    about: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """The rows of every run of a plan: head is ``base`` times 1 + ``change``, with the noise of its pair.

    ``about`` maps an item's name to what is different about its rows.
    """
    found = []
    for number, item in enumerate(plan.items):
        at = {"started_at": f"2026-11-01T{9 + number // 10:02}:{6 * (number % 10):02}:00Z"}  # one after the other
        pair, role = int(item.labels["pair"]), item.labels["role"]
        factor = {"base": 1.0, "base2": 1.0, "head": 1 + change}[role]
        factor *= 1.0 if role == "base" else math.exp(noise[(pair - 1) % len(noise)])
        found += run_rows(item, {place: base * factor}, **{**at, **(about or {}).get(item.name, {})})
    return found
