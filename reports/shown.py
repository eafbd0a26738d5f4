"""Choose the partitions that a run's page shows one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from history.partition import TopicPartition

Row = Mapping[str, Any]

MOST_SHOWN = 24  # more would make the page too large
COMPARED = ("high_watermark", "log_end_offset", "leader_epoch", "log_start_offset")


def partitions_of(tables: Mapping[str, Sequence[Row]]) -> frozenset[TopicPartition]:
    """Return the partitions of the delivery, offsets or ISR tables."""
    rows = (row for name in ("delivery", "offsets", "timeline_isr") for row in tables.get(name, ()))
    return frozenset(map(TopicPartition.of, rows))


def shown_of(tables: Mapping[str, Sequence[Row]]) -> frozenset[TopicPartition]:
    """Return ``MOST_SHOWN`` partitions: most cases, disagreeing replicas, most changes, name."""
    return frozenset(_telling(tables)[:MOST_SHOWN])


def first_topic(tables: Mapping[str, Sequence[Row]]) -> str:
    """Return the first partition's topic, or ""."""
    return next((where.topic for where in _telling(tables)), "")


def _telling(tables: Mapping[str, Sequence[Row]]) -> list[TopicPartition]:
    cases = Counter(TopicPartition.of(row) for row in tables.get("anomalies", ()) if row["topic"] is not None)
    changes = Counter(map(TopicPartition.of, tables.get("timeline_isr", ())))
    apart = disagreements(tables.get("offsets", ()))
    return sorted(
        partitions_of(tables) | set(cases),
        key=lambda where: (-cases[where], not apart.get(where), -changes[where], where),
    )


def disagreements(offsets: Iterable[Row]) -> dict[TopicPartition, list[str]]:
    """Return the values on which replicas disagree in the capture ``after``."""
    values: dict[TopicPartition, dict[str, set[int]]] = {}
    for row in offsets:
        if row["capture"] == "after":
            own = values.setdefault(TopicPartition.of(row), {name: set() for name in COMPARED})
            for name in COMPARED:
                if row[name] is not None:
                    own[name].add(row[name])
    return {where: [name for name in COMPARED if len(own[name]) > 1] for where, own in values.items()}
