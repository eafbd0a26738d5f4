"""Remove registered topics from a cluster that somebody else runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clusters.attached.registry import Entry, Registry
from clusters.kafka.admin import delete_topic
from clusters.kafka.connection import Connection
from clusters.kafka.views import topic_ids


class Removed(NamedTuple):
    """Topics that were deleted, that the cluster keeps, and that are not the registered ones and were left alone."""

    deleted: list[str]
    remaining: list[str]
    foreign: list[str]


def remove(registry: Registry, connection: Connection, entries: Iterable[Entry]) -> Removed:
    """Delete topics by their ids, and remove their entries; ``connection`` is to any broker.

    A topic whose creation was registered but not its id was created by that run: its name did not exist before.
    """
    removed = Removed([], [], [])
    for entry in entries:
        topic_id = topic_ids(connection, [entry.topic]).get(entry.topic)
        if topic_id is not None and entry.topic_id not in (None, topic_id):
            removed.foreign.append(entry.topic)
        elif topic_id is not None and not delete_topic(connection, entry.topic, topic_id):
            removed.remaining.append(entry.topic)
            continue
        elif topic_id is not None:
            removed.deleted.append(entry.topic)
        registry.forget(entry.topic)
    return removed
