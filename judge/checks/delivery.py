"""What became of every send, and the delivery of each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from history.events import Event
from history.manifest import Manifest
from history.partition import TopicPartition


def deleted(events: Iterable[Event]) -> dict[TopicPartition, int]:
    """Partition → up to where steps deleted its records, as the leaders answered."""
    furthest: dict[TopicPartition, int] = {}
    for event in events:
        if event.kind == "injected" and "deleted_before" in event.detail:
            where = TopicPartition.parse(event.detail["partition"])
            furthest[where] = max(furthest.get(where, 0), int(event.detail["deleted_before"]))
    return furthest


def unproven(manifest: Manifest, events: Iterable[Event]) -> set[TopicPartition]:
    """The partitions of which a step deletes records without a proof of how many: it may have deleted some."""
    asked = Counter(told["partition"] for key, told in manifest.steps if key == "delete_records")
    proven = Counter(event.detail["partition"] for event in events if "deleted_before" in event.detail)
    return {TopicPartition.parse(partition) for partition in asked - proven}


def gone(delivery: Mapping[str, int]) -> int:
    """Acknowledged records of which it is certain that no reader will ever see them."""
    return delivery["lost"] + delivery["truncated_ack"] + delivery["unknown_offset_ack"]
