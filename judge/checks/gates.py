"""The Kafka versions in which a rule holds."""

from __future__ import annotations

from collections.abc import Iterable

from history.kafka_versions import has


def always(feature: str, kafka_versions: Iterable[str]) -> bool:
    """Return whether all versions have the behaviour."""
    return all(has(feature, version) for version in kafka_versions)


def sometimes(feature: str, kafka_versions: Iterable[str]) -> bool:
    """Return whether some version has the behaviour."""
    return any(has(feature, version) for version in kafka_versions)
