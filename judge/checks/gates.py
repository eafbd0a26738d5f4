"""From which Kafka version a rule holds: the one place where a check learns of ``history.kafka_versions``."""

from __future__ import annotations

from collections.abc import Iterable

from history.kafka_versions import has


def always(feature: str, kafka_versions: Iterable[str]) -> bool:
    """Whether all versions of a run have the behaviour, so that it must be seen."""
    return all(has(feature, version) for version in kafka_versions)


def sometimes(feature: str, kafka_versions: Iterable[str]) -> bool:
    """Whether some version of a run has the behaviour, so that it may be seen."""
    return any(has(feature, version) for version in kafka_versions)
