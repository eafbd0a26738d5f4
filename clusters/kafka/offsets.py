"""List offsets (ListOffsets v5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from clusters.kafka.connection import Connection, about, by_topic, error_name, known
from history.partition import TopicPartition

DEBUGGING_CONSUMER = -2  # ListOffsets: any replica answers, up to its log end offset
CONSUMER = -1  # only the leader answers, up to the high watermark
LATEST, EARLIEST = -1, -2


class ListedOffset(NamedTuple):
    """An answer to ListOffsets; offset and epoch are None if ``error`` is set."""

    offset: int | None
    leader_epoch: int | None
    error: str | None


def list_offsets(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    timestamp: int = LATEST,
    replica_id: int = DEBUGGING_CONSUMER,
    isolation_level: int = 0,
    *,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, ListedOffset]:
    """List one broker's offset per partition (ListOffsets v5).

    For the debugging consumer any replica answers, and ``LATEST`` is its log end offset. For a ``CONSUMER`` only the
    leader answers with the high watermark, or the last stable offset at isolation level 1.
    """
    topic_of, partition_of = (
        ListOffsetsRequest.ListOffsetsTopic,
        ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
    )
    topics = [
        topic_of(
            name=topic,
            partitions=[
                partition_of(
                    partition_index=replica.partition,
                    current_leader_epoch=(leader_epochs or {}).get(replica, -1),
                    timestamp=timestamp,
                )
                for replica in replicas
            ],
        )
        for topic, replicas in by_topic(partitions)
    ]
    request = ListOffsetsRequest[5](replica_id=replica_id, isolation_level=isolation_level, topics=topics)
    return {
        TopicPartition(topic.name, answer.partition_index): ListedOffset(None, None, error_name(answer.error_code))
        if answer.error_code
        else ListedOffset(answer.offset, known(answer.leader_epoch), None)
        for topic in connection.send(request).topics
        for answer in topic.partitions
    }


def list_offset(
    connection: Connection, topic: str, partition: int, timestamp: int = LATEST, replica_id: int = DEBUGGING_CONSUMER
) -> ListedOffset:
    """Call ``list_offsets`` for one partition."""
    replica = TopicPartition(topic, partition)
    return about(list_offsets(connection, [replica], timestamp, replica_id), replica)
