"""From which Kafka version a rule holds: the one place where a check learns of versions."""

from __future__ import annotations

import re
from collections.abc import Iterable

GATES = {
    # KAFKA-15583, KIP-966: below min.insync.replicas the high watermark stands still.
    "strict_min_isr": (3, 7, 0),
}


def holds(gate: str, kafka_version: str) -> bool:
    """Whether a Kafka version has the behaviour behind a gate; a version that is no number is taken as newest."""
    numbers = version(kafka_version)
    return not numbers or numbers >= GATES[gate]


def always(gate: str, kafka_versions: Iterable[str]) -> bool:
    """Whether all versions of a run have the behaviour, so that it must be seen."""
    return all(holds(gate, version) for version in kafka_versions)


def sometimes(gate: str, kafka_versions: Iterable[str]) -> bool:
    """Whether some version of a run has the behaviour, so that it may be seen."""
    return any(holds(gate, version) for version in kafka_versions)


def version(text: str) -> tuple[int, ...]:
    """A version's numbers, three at the most; none for a version that is no number."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
