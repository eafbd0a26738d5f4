"""Describe a topic at one moment: partitions, effective settings, and look-ups in its logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusters.kafka.admin import describe_config
from clusters.kafka.fetching import read_batches
from clusters.kafka.offsets import EARLIEST, list_offset
from clusters.live.world import World
from history.errors import HarnessError
from history.partition import TopicPartition
from kafka_files.batches import headers

OF_BROKER = (
    "auto.leader.rebalance.enable",
    "default.replication.factor",
    "log.segment.bytes",
    "min.insync.replicas",
    "replica.fetch.wait.max.ms",
    "replica.lag.time.max.ms",
    "unclean.leader.election.enable",
)
OF_TOPIC = ("min.insync.replicas", "retention.ms", "segment.bytes", "segment.ms", "unclean.leader.election.enable")
LOOK_UPS = 12  # of each kind, evenly over the log


def describe(world: World, topic: str) -> dict[str, Any]:
    """Return the detail of an event ``described``.

    Raises:
        HarnessError: no broker responds.
        OSError: a leader or the queried broker does not respond in time.
    """
    views = ((number, world.reports.view_of(number)) for number in world.servers.brokers)
    answering, view = next(((number, view) for number, view in views if view), (None, None))
    if answering is None or view is None:
        raise HarnessError(f"No broker answers that could be asked about topic {topic}.")
    partitions = [part for part in view.partitions if part.topic == topic]
    with world.reports.connect(world.servers.brokers[answering], "PROBE") as to:
        settings = {
            "broker": describe_config(to, "broker", str(answering), OF_BROKER),
            "topic": describe_config(to, "topic", topic, OF_TOPIC),
        }
    return {
        "broker": answering,
        "partitions": [vars(part) for part in partitions],
        "settings": settings,
        "look_ups": [
            {"partition": part.partition, "broker": part.leader, **found}
            for part in partitions
            if part.leader >= 0
            for found in _look_ups(world, part.leader, TopicPartition(topic, part.partition))
        ],
    }


def _look_ups(world: World, leader: int, replica: TopicPartition) -> Iterator[dict[str, int | None]]:
    """Yield what the leader returns for offsets and for their timestamps.

    ``batch`` is the base offset of the batch returned for ``offset``, ``timestamp_ms`` its largest timestamp, and
    ``at_timestamp`` the first offset of that time or later.
    """
    with world.reports.connect(world.servers.brokers[leader], "PROBE") as to:
        start = list_offset(to, *replica, timestamp=EARLIEST).offset or 0
        end = list_offset(to, *replica).offset or 0
        for offset in sorted({start + (end - 1 - start) * step // (LOOK_UPS - 1) for step in range(LOOK_UPS)}):
            data = read_batches(to, replica, offset) if offset < end else b""
            for batch in headers(data, most=1, verify=False):
                largest_ms = int(batch["max_timestamp"])
                yield {
                    "offset": offset,
                    "batch": int(batch["base_offset"]),
                    "timestamp_ms": largest_ms,
                    "at_timestamp": list_offset(to, *replica, timestamp=largest_ms).offset,
                }
