"""Discover what a cluster consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from clusters.attached.cluster_file import ClusterFile
from clusters.attached.queries import AnyBroker, NoBroker, why_not
from clusters.kafka import admin
from clusters.kafka.access import Access
from clusters.kafka.connection import NOT_AUTHORIZED, Connection, error_name
from clusters.kafka.features import mode_of
from clusters.kafka.probe import probe_all
from clusters.kafka.views import UNKNOWN_TOPIC, metadata_request
from clusters.runtimes.ports import Endpoint
from history.errors import BadInput, Refused
from history.kafka_versions import Mode
from history.partition import TopicPartition

WATCH = "watch"
ANSWER_LIMIT_S = 10.0
SETTINGS = (
    *("cleanup.policy", "delete.retention.ms", "message.timestamp.type", "min.insync.replicas"),
    *("retention.bytes", "retention.ms", "unclean.leader.election.enable"),
)
BROKER_SETTINGS = (
    *("inter.broker.protocol.version", "replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    "unclean.leader.election.enable",
)


@dataclass(frozen=True)
class Broker:
    """A broker at the address that clients use."""

    broker_id: int
    address: Endpoint | None  # None: it is down
    rack: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Topic:
    """A topic; ``assignment`` maps a partition to broker ids.

    ``settings`` is None if they may not be read, ``topic_id`` if the cluster has no ids (KIP-516).
    """

    name: str
    assignment: dict[int, list[int]]
    settings: Mapping[str, str] | None = None
    topic_id: str | None = None


@dataclass(frozen=True)
class Discovered:
    """What a cluster reports about itself.

    ``unreadable`` are topics whose replicas the user may not read; ``unreachable`` says why brokers do not answer.
    """

    cluster_id: str
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    unreadable: frozenset[str] = frozenset()
    unreachable: Sequence[str] = ()
    mode: Mode = "kraft"

    @property
    def replicas(self) -> list[tuple[TopicPartition, list[int]]]:
        return _replicas(self.topics)


def discover(file: ClusterFile, access: Access | None, topics: Sequence[str]) -> Discovered:
    """Return a cluster's brokers and some of its topics.

    Settings need DESCRIBE_CONFIGS and are left out without it.

    Raises:
        BadInput: no bootstrap address answers, a topic is unknown, or its partitions may not be described.
    """
    connect = partial(open_connection, file, access)
    try:
        bootstrap = AnyBroker(connect, file.bootstrap).connection()
    except NoBroker as error:
        raise BadInput(str(error)) from error
    with bootstrap as connection:
        reply = connection.send(metadata_request(topics))
        for topic in reply.topics:
            _check(topic.name, error_name(topic.error_code), file, access)
        found = {topic.name: _topic(connection, topic) for topic in reply.topics}
        mode = mode_of(connection)
    brokers = _brokers(reply, _replicas(found), file.addresses)
    with ThreadPoolExecutor(len(brokers)) as pool:
        visits = list(pool.map(partial(_visit, connect, _replicas(found)), brokers))
    return Discovered(
        reply.cluster_id or "",
        {visit.broker.broker_id: visit.broker for visit in visits},
        {name: found[name] for name in topics},
        frozenset().union(*(visit.unreadable for visit in visits)),
        [visit.why_not for visit in visits if visit.why_not],
        mode,
    )


def _replicas(topics: Mapping[str, Topic]) -> list[tuple[TopicPartition, list[int]]]:
    return [
        (TopicPartition(topic.name, partition), brokers)
        for topic in topics.values()
        for partition, brokers in topic.assignment.items()
    ]


def _brokers(
    reply: Any, replicas: Iterable[tuple[TopicPartition, list[int]]], addresses: dict[int, Endpoint]
) -> list[Broker]:
    live = {broker.node_id: broker for broker in reply.brokers}
    known = {number: Endpoint(broker.host, broker.port) for number, broker in live.items()} | addresses
    return [
        Broker(number, known.get(number), live[number].rack if number in live else None)
        for number in sorted(live.keys() | {broker for _, brokers in replicas for broker in brokers})
    ]


def open_connection(file: ClusterFile, access: Access | None, address: Endpoint) -> Connection:
    """Return a connection to one broker, opened at the first request."""
    return Connection(*address, ANSWER_LIMIT_S, file.client_id(WATCH), access=access)


def _check(topic: str, error: str | None, file: ClusterFile, access: Access | None) -> None:
    if error == UNKNOWN_TOPIC:
        raise BadInput(
            f"The cluster has no topic {topic!r}, or the user may not describe it: {grant(topic, file, access)}"
        )
    if error == NOT_AUTHORIZED:
        raise BadInput(f"The user may not describe the topic {topic!r}: {grant(topic, file, access)}")
    if error not in (None, "LEADER_NOT_AVAILABLE"):
        raise BadInput(f"The cluster does not describe the topic {topic!r}: {error}.")


def grant(topic: str, file: ClusterFile, access: Access | None) -> str:
    """Return the command that grants the right to read a topic."""
    return _grant(file, access, ("Read",), f"--topic {topic}")


def grant_own(file: ClusterFile, access: Access | None, operations: Sequence[str]) -> str:
    """Return the command that grants rights on all topics of runs."""
    return _grant(file, access, operations, f"--resource-pattern-type prefixed --topic {file.topics.prefix}")


def _grant(file: ClusterFile, access: Access | None, operations: Sequence[str], of: str) -> str:
    user = access.user if access else "ANONYMOUS"
    named = " ".join(f"--operation {operation}" for operation in operations)
    return f"kafka-acls.sh --bootstrap-server {file.bootstrap[0]} --add --allow-principal User:{user} {named} {of}"


def _topic(connection: Connection, topic: Any) -> Topic:
    assignment = {part.partition_index: list(part.replica_nodes) for part in topic.partitions}
    return Topic(
        topic.name,
        dict(sorted(assignment.items())),
        _settings(connection, "topic", topic.name, SETTINGS),
        str(topic.topic_id) if topic.topic_id else None,
    )


class _Visit(NamedTuple):
    """A broker, topics that the user may not read there, and why it does not answer."""

    broker: Broker
    unreadable: set[str]
    why_not: str | None = None


def _visit(
    connect: Callable[[Endpoint], Connection], replicas: Sequence[tuple[TopicPartition, list[int]]], broker: Broker
) -> _Visit:
    if broker.address is None:
        return _Visit(broker, set(), f"broker {broker.broker_id} is down: it is watched once the cluster lists it")
    own = [where for where, brokers in replicas if broker.broker_id in brokers]
    with connect(broker.address) as connection:
        try:
            settings = _settings(connection, "broker", str(broker.broker_id), BROKER_SETTINGS)
            samples = probe_all(connection, own) if own else []
        except OSError as error:  # a broker that is down is watched, too
            return _Visit(broker, set(), f"broker {broker.broker_id}: {why_not(connection, error)}")
    unreadable = {sample.topic for sample in samples if sample.error == NOT_AUTHORIZED}
    return _Visit(replace(broker, settings=settings or {}), unreadable)


def _settings(connection: Connection, kind: str, name: str, settings: Sequence[str]) -> dict[str, str] | None:
    try:
        found = admin.describe_config(connection, kind, name, settings)  # type: ignore[arg-type]
    except Refused:
        return None
    return {setting: next(iter(by_source.values())) for setting, by_source in found.items() if by_source}
