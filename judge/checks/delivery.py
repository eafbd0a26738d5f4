"""Deleted and lost records of each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from history.events import Event
from history.manifest import Manifest
from history.partition import TopicPartition
from history.tables import JUDGED


def deleted(events: Iterable[Event]) -> dict[TopicPartition, int]:
    """Return partition → the offset below which steps deleted records."""
    furthest: dict[TopicPartition, int] = {}
    for event in events:
        if event.kind == "injected" and "deleted_before" in event.detail:
            where = TopicPartition.parse(event.detail["partition"])
            furthest[where] = max(furthest.get(where, 0), int(event.detail["deleted_before"]))
    return furthest


def unproven(manifest: Manifest, events: Iterable[Event]) -> set[TopicPartition]:
    """Return the partitions whose deletions are unproven."""
    asked = Counter(step["partition"] for key, step in manifest.steps if key == "delete_records")
    proven = Counter(event.detail["partition"] for event in events if "deleted_before" in event.detail)
    return {TopicPartition.parse(partition) for partition in asked - proven}


def gone(delivery: Mapping[str, int]) -> int:
    """Return how many acknowledged records no reader will return."""
    return delivery["lost"] + delivery["truncated_ack"] + delivery["unknown_offset_ack"]


def total(partitions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the sums of the delivery table."""
    rows = list(partitions)
    names = [field.name for field in JUDGED["delivery"] if field.type == pa.int64()]
    return {name: sum(row[name] for row in rows) for name in names}
