"""Fit a scenario to a cluster that somebody else runs: its brokers, own topic names, and the limits of mine.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusters.attached.cluster_file import Caps
from clusters.scenario.durations import expected_bytes, longest_phase_s, peak_bytes_per_s
from clusters.scenario.scenario import Cluster, Scenario
from history.words import counted

MOST_BROKERS = 26  # each has a letter
APPLIED = ("brokers", "ids", "mode", "allow_unknown", "config")  # of a cluster; config is compared setting by setting


def fitted(scenario: Scenario, brokers: Mapping[int, str | None], names: Mapping[str, str]) -> Scenario:
    """Return the scenario with brokers A, B, … as these broker ids (→ rack), and topics by other names.

    Settings of ``cluster`` are left out: nobody but its owner sets them.

    Raises:
        ValidationError: it needs more brokers.
    """
    numbers = sorted(brokers)[:MOST_BROKERS]
    cluster = Cluster(brokers=len(numbers), ids=numbers, mode=scenario.cluster.mode)
    racks = {letter: brokers[number] for letter, number in cluster.broker_ids.items()}
    document = scenario.model_dump()
    document["topics"] = {names[name]: topic for name, topic in document["topics"].items()}
    for load in [document["load"], *document.get("loads", {}).values()]:
        if load:
            load["topic"] = names[load["topic"]]
    if document.get("copier"):
        document["copier"]["to"] = names[document["copier"]["to"]]
    document["phases"] = _renamed(document["phases"], _pattern(names), names)
    document["cluster"] = cluster.model_dump() | ({"racks": racks} if all(racks.values()) else {})
    return Scenario.model_validate(document)


def _pattern(names: Mapping[str, str]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, longest_first))})(?=(?:-\d+)?(?![\w.-]))")


def _renamed(value: Any, pattern: re.Pattern[str], names: Mapping[str, str]) -> Any:
    """Rename topics and partitions in the texts of steps; keys are names of phases, steps and fields."""
    if isinstance(value, str):
        return pattern.sub(lambda found: names[found[1]], value)
    if isinstance(value, Mapping):
        return {key: _renamed(each, pattern, names) for key, each in value.items()}
    return [_renamed(each, pattern, names) for each in value] if isinstance(value, list | tuple) else value


def not_applied(scenario: Scenario, settings: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """Yield the scenario's settings of brokers that the cluster does not have; ``settings``: broker id → its own."""
    defaults = Cluster(brokers=scenario.cluster.brokers)
    for name in Cluster.model_fields:
        if name not in APPLIED and getattr(scenario.cluster, name) != getattr(defaults, name):
            yield f"cluster.{name} is not applied"
    for name, wanted in scenario.cluster.config.items():
        values = {own.get(name, "unknown") for own in settings.values()}
        if values != {wanted}:
            yield f"cluster.config.{name}={wanted} is not applied; the brokers have {', '.join(sorted(values))}"


def over_caps(scenario: Scenario, caps: Caps) -> Iterator[str]:
    """Yield each limit of mine.yaml that the scenario would exceed."""
    partitions = sum(topic.partitions for topic in scenario.topics.values())
    longest_s = sum(map(longest_phase_s, scenario.phases))
    if peak_bytes_per_s(scenario) > caps.rate:
        yield f"its load of {_mb(peak_bytes_per_s(scenario))}/s is above caps.rate of {_mb(caps.rate)}/s"
    if partitions > caps.partitions:
        yield f"its {counted(partitions, 'partition')} are above caps.partitions of {caps.partitions}"
    if expected_bytes(scenario) > caps.bytes:
        yield f"its {_mb(expected_bytes(scenario))} in all replicas are above caps.bytes of {_mb(caps.bytes)}"
    if longest_s > caps.duration:
        yield f"its phases may take {longest_s:.0f} s, above caps.duration of {caps.duration:.0f} s"


def _mb(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def own_names(topics: Sequence[str], prefix: str, token: str) -> dict[str, str]:
    """Return topic → its name on the cluster, such as plimsoll-orders-5a3e."""
    return {topic: f"{prefix}{topic}-{token}" for topic in topics}
