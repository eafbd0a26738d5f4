"""Archive rows of a simulated capacity campaign with R = 12 MB/s and a start of 9 s."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from campaigns.campaign import Campaign, Item
from campaigns.capacity import campaign as results
from campaigns.capacity.campaign import plan
from campaigns.statistics.catch_up import catch_up_s

Json = dict[str, Any]
RATE, START_S, NOISE = 12.0, 9.0, 0.06
LEADERSHIP_S = 4.0
KNEE = {"knee": 6.5, "degraded": 4.7}  # MB/s at which p99 passes 200 ms


class Machine(NamedTuple):
    """Brokers with ``speed`` times the capacity, at this CPU cost."""

    speed: float = 1.0
    cpu_s_per_gb: float = 130.0


USUAL = Machine()
SETTINGS: dict[str, dict[str, Any]] = {
    "question": {
        "write_mb_per_s": 3,
        "burst": 1.3,
        "growth_per_month": [0.02, 0.04],
        "horizon_months": 6,
        "brokers": 3,
        "target_p99_ms": 200,
        "target_recovery_s": 60,
        "downtime_s": 30,
        **dict.fromkeys(("tls", "compression", "compresses_to", "consumer_groups", "racks", "old_reads_share")),
        **dict.fromkeys(("retention_hours", "retention_gb", "disk_gb", "disk_mb_per_s")),
    },
    "measurement": {
        "kafka": "3.9.1",
        "runtime": "docker",
        "resource_limits": {"cpus": 0.35, "network": "40MB/s"},
        "load_steps": [1, 2, 3, 4, 6, 8],
        "repetitions": 3,
        "grid": {"write_mb_per_s": [1, 2, 4], "down_s": [15, 30, 60]},
        "held_out": [[5, 45], [3, 90], [5, 90]],
        "cold": None,
        "partitions": None,  # of runs that measure what they cost
    },
}


def settings(*, topic: int | None = None, **changes: Any) -> dict[str, Any]:
    """Return settings with these values replaced; None removes one.

    ``topic`` is the number of partitions in the question.
    """
    told = {part: {**values, **{k: v for k, v in changes.items() if k in values}} for part, values in SETTINGS.items()}
    told["question"]["partitions"] = topic
    return {part: {key: value for key, value in values.items() if value is not None} for part, values in told.items()}


def campaign(**changes: Any) -> Campaign:
    """Return the plan for these settings."""
    return plan(settings(**changes), campaign_id="plan-1", created_at="2026-11-21T10:00:00+00:00", seed=7)


def archive(
    of: Campaign, change: Callable[[Item, dict[str, Any]], dict[str, Any]] | None = None, machine: Machine = USUAL
) -> list[dict[str, Any]]:
    """Return the rows of every run of a campaign, each altered by ``change``."""
    random = np.random.default_rng(of.seed)
    rows = []
    for number, item in enumerate(of.items):
        run = _run(of, item, number)
        rows += [{**run, **row} for row in _measured(item, of, random, machine)]
    return rows if change is None else [change(item_of(of, row), row) for row in rows]


@cache
def usual() -> Campaign:
    """Return the campaign of the unchanged settings."""
    return campaign()


def result(of: Campaign, rows: Sequence[Mapping[str, Any]]) -> Json:
    """Return the result as in ``result.json``."""
    found: Json = results.result(of, rows).model_dump(mode="json")
    return found


@cache
def told() -> Json:
    """Return the result of the unchanged campaign; do not modify it."""
    return result(usual(), archive(usual()))


def told_with(change: Callable[[Item, dict[str, Any]], dict[str, Any]]) -> Json:
    """Return the result after ``change`` altered the rows."""
    return result(usual(), archive(usual(), change))


def item_of(of: Campaign, row: Mapping[str, Any]) -> Item:
    """Return the item of a row."""
    return next(item for item in of.items if item.name == row["labels"]["item"])


def _run(of: Campaign, item: Item, number: int) -> dict[str, Any]:
    return {
        "run_id": f"run-{number:02}",
        "started_at": f"2026-11-21T{10 + number // 6:02}:{10 * (number % 6):02}:00+00:00",
        "scenario": item.scenario,
        "kafka_version": item.kafka,
        "jvm": "production",
        "host": "host-1",
        "verdict": "pass",
        "sentence": "Every acknowledged record survived.",
        "labels": {**item.labels, "campaign": of.campaign_id, "item": item.name},
    }


def row(metric: str, value: float, phase: str, *, censored: bool = False) -> dict[str, Any]:
    """Return one metric of one phase."""
    common = {"samples": 1000, "censored": censored, "trusted": True, "note": None}
    return {"metric": metric, "phase": phase, "value": value, **common}


def _measured(item: Item, of: Campaign, random: np.random.Generator, machine: Machine) -> Iterator[dict[str, Any]]:
    if item.labels["role"] == "partitions":
        return _partitions(int(item.labels["partitions"]), machine)
    measured = _catch_up if "down_s" in item.labels else _steps
    return measured(item, of, random, machine)


def _partitions(count: int, machine: Machine) -> Iterator[dict[str, Any]]:
    """Yield rows in which 1,000 replicas double CPU and p99 and add 10 s of recovery."""
    yield row("broker_cpu_s_per_gb", machine.cpu_s_per_gb / 1.3 * (1 + count / 1000), "steady")
    yield row("latency_p99_ms", 20 * (1 + count / 1000), "steady")
    yield row("catch_up_s", START_S + count / 100, "away and back")


def _steps(item: Item, of: Campaign, random: np.random.Generator, machine: Machine) -> Iterator[dict[str, Any]]:
    """Yield load steps: p99 is 200 ms at the knee and unbounded at 1.4 times the knee, where the load is missed."""
    role = item.labels["role"]
    slow = math.exp(random.normal(0, NOISE))
    for phase in item.changes["phases"][1:]:
        name = next(iter(phase))
        load = float(name.split()[0])
        use = load / (1.4 * KNEE[role] * machine.speed)
        p99 = 57.2 / (1 - use) * slow * math.exp(random.normal(0, NOISE)) if use < 1 else 9000.0
        yield row("offered_per_s", 1e6 * load / of.settings["question"]["record_bytes"], name)
        yield row("achieved_ratio", min(1.0, 1 / use), name)
        yield row("latency_p99_ms", p99, name)
        if role == "knee":
            yield row("broker_cpu_s_per_gb", machine.cpu_s_per_gb * math.exp(random.normal(0, NOISE)), name)
            yield row("network_out_mb_per_s", 1.05 * 3 * load, name)


def _catch_up(item: Item, of: Campaign, random: np.random.Generator, machine: Machine) -> Iterator[dict[str, Any]]:
    load, down_s = float(item.labels["write_mb_per_s"]), float(item.labels["down_s"])
    limit_s = of.settings["measurement"]["give_up_s"]
    took_s = catch_up_s(load, down_s, RATE * machine.speed, START_S) * math.exp(random.normal(0, NOISE))
    censored = took_s > limit_s
    yield row("catch_up_s", min(took_s, limit_s), "away and back", censored=censored)
    if not censored:
        yield row("rebalanced_s", took_s + LEADERSHIP_S * random.uniform(0.6, 1), "away and back")
