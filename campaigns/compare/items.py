"""A comparison's runs: each side's scenario, in pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from campaigns.campaign import Item
from campaigns.compare import rate
from campaigns.compare.question import Settings, Side
from clusters.kafka.builds import reported_version
from clusters.kafka.jars import version_of
from clusters.kafka.servers import check_storage, choose_mode
from clusters.scenario.scenario import Scenario, load_scenario
from history.kafka_settings import unknown_setting
from history.kafka_versions import Mode

BENCHMARK = {"jvm": "production", "metrics": True}
LONGER_WAITS_S = 60.0
# Kafka's defaults of shortened timers (clusters/kafka/servers.py)
_SHIPPED = {
    "auto.leader.rebalance.enable": "true",
    "controlled.shutdown.retry.backoff.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
}
_SHIPPED_OF_MODE: dict[str, dict[str, Any]] = {
    "kraft": {"session_timeout": "9s", "config": {"broker.heartbeat.interval.ms": "2000"}},
    "zookeeper": {"session_timeout": "18s"},  # since 2.5 (KIP-537)
}


def knee_items(question: Settings, seed: int) -> Iterator[Item]:
    """Yield the runs with rising rates."""
    (scenario,) = question.scenarios
    for arm in rate.arms(question.pairs):
        loaded = scenario_of(question, arm, scenario)
        yield Item(
            name=f"{loaded.name}-{rate.PART}-{arm}",
            scenario=scenario,
            **(question.head if arm == "head" else question.base).place,
            changes=combined(_changes(question, arm, scenario), rate.steps(loaded)),
            seed=seed,
            labels={"part": rate.PART, "role": arm},
        )


def all_pairs(question: Settings, seed: int) -> list[Item]:
    """Return base against itself, then base and head."""
    rng = random.Random(seed)
    return [
        *_pairs("calibration", ("base", "base2"), question.aa_pairs, question, rng),
        *_pairs("comparison", ("base", "head"), question.pairs, question, rng),
    ]


def _pairs(part: str, roles: tuple[str, str], pairs: int, question: Settings, rng: random.Random) -> Iterator[Item]:
    """Order the pairs AB BA AB BA …, or BA AB …, so that drift favours neither side."""
    first = rng.randrange(2)
    names = {name: scenario_of(question, "base", name).name for name in question.scenarios}
    for pair in range(1, pairs + 1):
        in_order = roles if (pair + first) % 2 else roles[::-1]
        for scenario, called in names.items():
            seed = rng.randrange(2**31)  # equal, so that faults hit the same targets on both sides
            for order, role in enumerate(in_order, 1):
                side = question.head if role == "head" else question.base
                yield Item(
                    name=f"{called}-{part}-{pair:02}-{order}-{role}",
                    scenario=scenario,
                    **side.place,
                    changes=_changes(question, role, scenario),
                    seed=seed,
                    labels={"part": part, "role": role, "pair": str(pair), "order": str(order)},
                )


def scenario_of(question: Settings, role: str, scenario: str) -> Scenario:
    """Return this side's scenario; raise BadInput if it cannot run, such as without the version's metadata mode."""
    loaded = load_scenario(scenario, _changes(question, role, scenario))
    side = question.head if role == "head" else question.base
    if side.kafka:
        check_storage(reported_version(side.kafka), _mode(side, loaded), loaded.cluster)
    return loaded


def _changes(question: Settings, role: str, scenario: str) -> dict[str, Any]:
    side = question.head if role == "head" else question.base
    injected = question.injected_slowdown.changes if question.injected_slowdown and role == "head" else {}
    limits = {"cluster": {**BENCHMARK, "resource_limits": question.resource_limits}}
    made: dict[str, Any] = {} if question.on_clusters else limits
    for patch in (_view(question, role, scenario), question.changes, side.changes, injected):
        made = combined(made, patch)
    return made


def combined(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two merge patches; nulls stay, since they delete keys."""
    both = dict(first)
    for key, value in then.items():
        below = both.get(key)
        both[key] = combined(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return both


def _view(question: Settings, role: str, scenario: str) -> dict[str, Any]:
    side = question.head if role == "head" else question.base
    if question.view == "unfinalised" and role == "head":
        base = version_of(reported_version(question.base.kafka))
        return {"cluster": {"metadata_version": base.minor_release}}
    if question.view != "default_settings":
        return {}
    loaded = load_scenario(scenario)
    own = load_scenario(scenario, combined(question.changes, side.changes))
    timers = {name: None for name in loaded.cluster.config if name.endswith(".ms")}
    of_mode, version = _SHIPPED_OF_MODE[_mode(side, own)], version_of(reported_version(side.kafka))
    shipped = {name: value for name, value in _SHIPPED.items() if not unknown_setting("broker", name, [version])}
    phases = [_patient(phase) for phase in loaded.model_dump()["phases"]]
    config = {**timers, **shipped, **of_mode.get("config", {})}
    return {"cluster": {"session_timeout": of_mode["session_timeout"], "config": config}, "phases": phases}


def _mode(side: Side, loaded: Scenario) -> Mode:
    return choose_mode(reported_version(side.kafka), loaded.cluster.mode)


def _patient(phase: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Lengthen waits for default timers."""
    return {
        name: [
            {
                key: {**value, "limit": value["limit"] + LONGER_WAITS_S} if "limit" in value else value
                for key, value in step.items()
            }
            for step in steps
        ]
        for name, steps in phase.items()
    }


def name_of(side: Side) -> str:
    """Name a version, a build or a cluster of others."""
    if side.cluster:
        return Path(side.cluster).stem
    kafka, version = side.kafka, reported_version(side.kafka)
    return f"Kafka {version}" if version == kafka else f"Kafka {version} ({Path(kafka).name})"
