"""Read a broker's view of the cluster, and KRaft's quorum (Metadata v7, DescribeQuorum v0)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from clusters.kafka.connection import Connection


@dataclass(frozen=True)
class PartitionView:
    """A broker's metadata of a partition; ``leader`` -1: none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]

    def __str__(self) -> str:
        offline = f" offline {self.offline}" if self.offline else ""
        return f"{self.topic}-{self.partition}: leader {self.leader} epoch {self.leader_epoch} ISR {self.isr}{offline}"


@dataclass(frozen=True)
class ClusterView:
    """A broker's metadata of the cluster."""

    sent_ns: int
    received_ns: int
    controller_id: int
    brokers: dict[int, tuple[str, int]]
    partitions: list[PartitionView]


def metadata(connection: Connection, topics: Iterable[str] | None) -> ClusterView:
    """Return a broker's metadata cache (Metadata v7), without unknown topics; None: all."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest[7](topics=wanted, allow_auto_topic_creation=False)
    sent_ns = time.monotonic_ns()
    reply = connection.send(request)
    received_ns = time.monotonic_ns()
    views = [
        PartitionView(
            topic.name,
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            list(part.replica_nodes),
            list(part.isr_nodes),
            list(part.offline_replicas),
        )
        for topic in reply.topics
        for part in topic.partitions
    ]
    brokers = {broker.node_id: (broker.host, broker.port) for broker in reply.brokers}
    return ClusterView(sent_ns, received_ns, reply.controller_id, brokers, views)


@dataclass(frozen=True)
class QuorumView:
    """The metadata quorum; ``voters`` → log end offset, -1 if unknown."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]


def describe_quorum(connection: Connection) -> QuorumView | None:
    """Return KRaft's quorum (DescribeQuorum v0), or None if this controller does not lead."""
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    request = DescribeQuorumRequest[0](topics=[topic(topic_name="__cluster_metadata", partitions=[partition])])
    reply = connection.send(request)
    answers = [answer for topic in reply.topics or () for answer in topic.partitions]
    if reply.error_code or not answers or answers[0].error_code:
        return None
    answer = answers[0]
    voters = {voter.replica_id: voter.log_end_offset for voter in answer.current_voters}
    return QuorumView(answer.leader_id, answer.leader_epoch, answer.high_watermark, voters)
