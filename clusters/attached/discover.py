"""Find out what a cluster is made of, by asking it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from clusters.attached.cluster_file import Address, ClusterFile
from clusters.kafka import admin
from clusters.kafka.access import Access
from clusters.kafka.connection import NOT_AUTHORIZED, Connection, error_name
from clusters.kafka.features import mode_of
from clusters.kafka.probe import probe_all
from clusters.kafka.views import UNKNOWN_TOPIC, metadata_request
from history.errors import BadInput, Refused
from history.kafka_versions import Mode
from history.partition import TopicPartition

CLIENT_ID = "plimsoll-watch"
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
    address: Address
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
        """Return each partition with its broker ids."""
        return _replicas(self.topics)


def discover(file: ClusterFile, access: Access | None, topics: Sequence[str]) -> Discovered:
    """Return a cluster's brokers and some of its topics.

    Settings need DESCRIBE_CONFIGS and are left out without it.

    Raises:
        BadInput: no bootstrap address answers, a topic is unknown, or its partitions may not be described.
    """
    with first_that_answers(file.bootstrap, access) as connection:
        reply = connection.send(metadata_request(topics))
        for topic in reply.topics:
            _check(topic.name, error_name(topic.error_code), file, access)
        found = {topic.name: _topic(connection, topic) for topic in reply.topics}
        mode = mode_of(connection)
        brokers = [
            Broker(
                broker.node_id,
                file.addresses.get(broker.node_id) or Address(host=broker.host, port=broker.port),
                broker.rack,
            )
            for broker in sorted(reply.brokers, key=lambda each: each.node_id)
        ]
    with ThreadPoolExecutor(len(brokers)) as pool:
        visits = list(pool.map(partial(_visit, access, _replicas(found)), brokers))
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


def open_connection(address: Address, access: Access | None, limit_s: float = ANSWER_LIMIT_S) -> Connection:
    """Return a connection to one broker, opened at the first request."""
    return Connection(address.host, address.port, limit_s, CLIENT_ID, access=access)


def why_not(address: Address, error: OSError) -> str:
    """Return why a broker could not be asked, as a sentence without its full stop."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{address} presents a certificate that is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"{address} does not accept TLS ({error.reason}); check security.protocol"
    if isinstance(error, socket.gaierror):
        return f"{address}: the host name cannot be resolved"
    if isinstance(error, TimeoutError):
        return f"{address} did not answer within {ANSWER_LIMIT_S:g} s; check the address and security.protocol"
    why = error.strerror or str(error).removeprefix(f"{address} ")
    hint = "; check security.protocol" if "closed the connection" in why else ""
    return f"{address}: {why}{hint}"


def first_that_answers(addresses: Iterable[Address], access: Access | None) -> Connection:
    """Return an open connection to the first broker that answers.

    Raises:
        BadInput: none does.
    """
    reasons = []
    for address in addresses:
        connection = open_connection(address, access)
        try:
            connection.send(metadata_request(()))
        except OSError as error:
            connection.close()
            reasons.append(why_not(address, error))
        else:
            return connection
    raise BadInput(f"The cluster cannot be reached. {'; '.join(reasons)}.")


def _check(topic: str, error: str | None, file: ClusterFile, access: Access | None) -> None:
    if error == UNKNOWN_TOPIC:
        raise BadInput(
            f"The cluster has no topic {topic!r}, or the user may not describe it: {grant(topic, file, access)}"
        )
    if error == NOT_AUTHORIZED:
        raise BadInput(f"The user may not describe the topic {topic!r}: {grant(topic, file, access)}")
    if error not in (None, "LEADER_NOT_AVAILABLE"):
        raise BadInput(f"The cluster does not describe the topic {topic!r}: {error}.")


def grant(topic: str, file: ClusterFile, access: Access | None, operations: Sequence[str] = ("Read",)) -> str:
    """Return the command that grants rights on a topic."""
    return _grant(file, access, operations, f"--topic {topic}")


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
    """A broker with its settings, topics that the user may not read there, and why it does not answer."""

    broker: Broker
    unreadable: set[str]
    why_not: str | None = None


def _visit(access: Access | None, replicas: Sequence[tuple[TopicPartition, list[int]]], broker: Broker) -> _Visit:
    own = [where for where, brokers in replicas if broker.broker_id in brokers]
    with open_connection(broker.address, access) as connection:
        try:
            settings = _settings(connection, "broker", str(broker.broker_id), BROKER_SETTINGS)
            samples = probe_all(connection, own) if own else []
        except OSError as error:  # a broker that is down is watched, too
            return _Visit(broker, set(), f"broker {broker.broker_id}: {why_not(broker.address, error)}")
    unreadable = {sample.topic for sample in samples if sample.error == NOT_AUTHORIZED}
    return _Visit(replace(broker, settings=settings or {}), unreadable)


def _settings(connection: Connection, kind: str, name: str, settings: Sequence[str]) -> dict[str, str] | None:
    try:
        found = admin.describe_config(connection, kind, name, settings)  # type: ignore[arg-type]
    except Refused:
        return None
    return {setting: next(iter(by_source.values())) for setting, by_source in found.items() if by_source}
