"""The Kafka version from which a rule holds; the only place where checks use ``history.kafka_versions``."""

from __future__ import annotations

from collections.abc import Iterable

from history.kafka_versions import has


def always(feature: str, kafka_versions: Iterable[str]) -> bool:
    """Return whether all versions of a run have the behaviour, so that it must occur."""
    return all(has(feature, version) for version in kafka_versions)


def sometimes(feature: str, kafka_versions: Iterable[str]) -> bool:
    """Return whether some version of a run has the behaviour, so that it may occur."""
    return any(has(feature, version) for version in kafka_versions)
