"""Read a broker's view of the cluster, and KRaft's quorum (Metadata v10, DescribeQuorum v0)."""

from __future__ import annotations

import time
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from clusters.kafka.connection import Connection, decode, error_name
from history.errors import Refused

UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
_OPERATIONS = {  # codes of AclOperation
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    10: "DescribeConfigs",
    11: "AlterConfigs",
}


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
    """A broker's metadata of the cluster; ``topic_ids`` lacks topics of clusters without ids (KIP-516)."""

    sent_ns: int
    received_ns: int
    controller_id: int
    brokers: dict[int, tuple[str, int]]
    partitions: list[PartitionView]
    topic_ids: Mapping[str, str] = field(default_factory=dict)


def metadata(connection: Connection, topics: Iterable[str] | None) -> ClusterView:
    """Return a broker's metadata cache, without unknown topics; None: all."""
    return MetadataReader(connection, topics).read()


def metadata_request(topics: Iterable[str] | None) -> Any:
    """Build a Metadata v10, the first with topic ids."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest[10](topics=wanted, allow_auto_topic_creation=False)


class MetadataReader:
    """Read a broker's metadata again and again; while nothing changes, ``partitions`` is the same list."""

    def __init__(self, connection: Connection, topics: Iterable[str] | None) -> None:
        self._connection, self._request = connection, metadata_request(topics)
        self._reply, self._view = None, ClusterView(0, 0, -1, {}, [])
        self._controller_at, self._rest = 0, (0, b"")

    def read(self) -> ClusterView:
        sent_ns = time.monotonic_ns()
        self._connection.send(self._request, self._decode)
        return replace(self._view, sent_ns=sent_ns, received_ns=time.monotonic_ns())

    def _decode(self, kind: Any, data: memoryview) -> Any:
        """Decode a response that differs in more than the controller, which KRaft brokers draw at random."""
        received, at = bytes(data), self._controller_at
        if self._reply is None or _without(received, at) != self._rest:
            self._reply = decode(kind, data)
            self._view = _view(self._reply)
            at = self._controller_at = _controller_at(received, self._reply)
            self._rest = _without(received, at)
        elif at < len(received):
            self._view = replace(self._view, controller_id=_int32(received, at))
        return self._reply


def _without(received: bytes, at: int) -> tuple[int, bytes]:
    """Return the length, and all bytes except the integer."""
    return len(received), received[:at] + received[at + 4 :]


def _controller_at(received: bytes, reply: Any) -> int:
    """Return where the controller's id is: after the cluster's; or the end if that is not certain."""
    cluster_id = (reply.cluster_id or "").encode()
    at = received.find(cluster_id) + len(cluster_id)
    return at if cluster_id and _int32(received, at) == reply.controller_id else len(received)


def _int32(received: bytes, at: int) -> int:
    return int.from_bytes(received[at : at + 4], "big", signed=True)


def _view(reply: Any) -> ClusterView:
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
    ids = {topic.name: str(topic.topic_id) for topic in reply.topics if topic.topic_id and topic.partitions}
    return ClusterView(0, 0, reply.controller_id, brokers, views, ids)


def topic_ids(connection: Connection, topics: Iterable[str] | None) -> dict[str, str | None]:
    """Return the ids of existing topics (Metadata v10) as Kafka prints them; None: all.

    An id is None before inter.broker.protocol.version 2.8 (KIP-516).

    Raises:
        Refused: a topic may not be described.
    """
    ids: dict[str, str | None] = {}
    for topic in connection.send(metadata_request(topics)).topics:
        error = error_name(topic.error_code)
        if error is None:
            ids[topic.name] = id_text(topic.topic_id) if topic.topic_id else None  # kafka-python's for zero
        elif error != "UNKNOWN_TOPIC_OR_PARTITION":
            raise Refused(f"Could not describe topic {topic.name}: {error}.")
    return ids


def authorized_operations(connection: Connection, topic: str) -> set[str]:
    """Return the operations that the user may perform on a topic, such as ``Read`` (Metadata v8, KIP-430)."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
    (answer,) = connection.send(
        MetadataRequest[8](
            topics=wanted,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )
    ).topics
    if error := error_name(answer.error_code):
        raise Refused(f"Could not describe topic {topic}: {error}.")
    return {name for code, name in _OPERATIONS.items() if code in (answer.authorized_operations or ())}


def id_text(topic_id: uuid.UUID) -> str:
    """Return a topic id as Kafka prints it."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def id_of(text: str) -> uuid.UUID:
    """Return a printed topic id's number."""
    return uuid.UUID(bytes=urlsafe_b64decode(f"{text}=="))


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
