"""Find out what a cluster is made of, by asking it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafka.protocol.metadata import MetadataRequest

from clusters.attached.cluster_file import Address, ClusterFile
from clusters.kafka import admin
from clusters.kafka.client_access import ClientAccess
from clusters.kafka.connection import Connection, error_name
from history.errors import BadInput, Refused
from history.partition import TopicPartition

CLIENT_ID = "plimsoll-watch"
ANSWER_LIMIT_S = 10.0
UNKNOWN_TOPIC, NOT_AUTHORIZED = "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED"
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
    """A topic; ``assignment`` maps a partition to broker ids, ``settings`` is None if they may not be read."""

    name: str
    assignment: dict[int, list[int]]
    settings: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Discovered:
    """What a cluster reports about itself."""

    cluster_id: str
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]

    @property
    def replicas(self) -> list[tuple[TopicPartition, list[int]]]:
        """Return each partition with its broker ids."""
        return [
            (TopicPartition(topic.name, partition), brokers)
            for topic in self.topics.values()
            for partition, brokers in topic.assignment.items()
        ]


def discover(file: ClusterFile, access: ClientAccess | None, topics: Sequence[str]) -> Discovered:
    """Return a cluster's brokers and some of its topics.

    Settings need DESCRIBE_CONFIGS and are left out without it.

    Raises:
        BadInput: no bootstrap address answers, a topic is unknown, or its partitions may not be described.
    """
    with _first_that_answers(file.bootstrap, access) as connection:
        reply = connection.send(_request(topics))
        for topic in reply.topics:
            _check(topic.name, error_name(topic.error_code), file, access)
        found = {topic.name: _topic(connection, topic) for topic in reply.topics}
        brokers = {
            broker.node_id: Broker(
                broker.node_id,
                file.addresses.get(broker.node_id) or Address(host=broker.host, port=broker.port),
                broker.rack,
            )
            for broker in reply.brokers
        }
    settled = {number: _with_settings(broker, access) for number, broker in sorted(brokers.items())}
    return Discovered(reply.cluster_id or "", settled, {name: found[name] for name in topics})


def open_connection(address: Address, access: ClientAccess | None, limit_s: float = ANSWER_LIMIT_S) -> Connection:
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


def _first_that_answers(addresses: Iterable[Address], access: ClientAccess | None) -> Connection:
    reasons = []
    for address in addresses:
        connection = open_connection(address, access)
        try:
            connection.send(_request(()))
        except OSError as error:
            connection.close()
            reasons.append(why_not(address, error))
        else:
            return connection
    raise BadInput(f"The cluster cannot be reached. {'; '.join(reasons)}.")


def _request(topics: Sequence[str]) -> MetadataRequest:
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest[7](topics=wanted, allow_auto_topic_creation=False)


def _check(topic: str, error: str | None, file: ClusterFile, access: ClientAccess | None) -> None:
    if error == UNKNOWN_TOPIC:
        raise BadInput(
            f"The cluster has no topic {topic!r}, or the user may not describe it: {grant(topic, file, access)}"
        )
    if error == NOT_AUTHORIZED:
        raise BadInput(f"The user may not describe the topic {topic!r}: {grant(topic, file, access)}")
    if error not in (None, "LEADER_NOT_AVAILABLE"):
        raise BadInput(f"The cluster does not describe the topic {topic!r}: {error}.")


def grant(topic: str, file: ClusterFile, access: ClientAccess | None, operation: str = "Read") -> str:
    """Return the command that grants a right on a topic."""
    user = access.user if access else "ANONYMOUS"
    return (
        f"kafka-acls.sh --bootstrap-server {file.bootstrap[0]} --add --allow-principal User:{user} "
        f"--operation {operation} --topic {topic}"
    )


def _topic(connection: Connection, topic: object) -> Topic:
    assignment = {part.partition_index: list(part.replica_nodes) for part in topic.partitions}  # type: ignore[attr-defined]  # kafka-python has no types
    name = topic.name  # type: ignore[attr-defined]  # kafka-python has no types
    return Topic(name, dict(sorted(assignment.items())), _settings(connection, "topic", name, SETTINGS))


def _with_settings(broker: Broker, access: ClientAccess | None) -> Broker:
    with open_connection(broker.address, access) as connection:
        try:
            found = _settings(connection, "broker", str(broker.broker_id), BROKER_SETTINGS)
        except OSError:
            found = None  # a broker that is down is watched, too
    return Broker(broker.broker_id, broker.address, broker.rack, found or {})


def _settings(connection: Connection, kind: str, name: str, settings: Sequence[str]) -> dict[str, str] | None:
    try:
        found = admin.describe_config(connection, kind, name, settings)  # type: ignore[arg-type]
    except Refused:
        return None
    return {setting: next(iter(by_source.values())) for setting, by_source in found.items() if by_source}


def unreachable(found: Discovered, access: ClientAccess | None) -> Iterator[str]:
    """Yield why each broker that cannot be asked cannot be."""
    for broker in found.brokers.values():
        with open_connection(broker.address, access) as connection:
            try:
                connection.send(_request(()))
            except OSError as error:
                yield f"broker {broker.broker_id}: {why_not(broker.address, error)}"
