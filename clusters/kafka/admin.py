"""What an operator asks of a cluster: topics, settings, elections, reassignments; over ``clusters.kafka.wire``.

Everything goes to the controller where there is one among the brokers (ZooKeeper); in KRaft the brokers pass it on.
Pinned versions: CreateTopics v4, IncrementalAlterConfigs v0, DescribeConfigs v1, DeleteRecords v1, ElectLeaders v1,
AlterPartitionReassignments v0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)

from clusters.kafka.wire import Connection, by_topic, error_name, metadata
from history.errors import NoController, Refused
from history.partition import TopicPartition

TIMEOUT_MS = 10_000
SOURCES = {1: "topic", 2: "dynamic_broker", 3: "dynamic_default", 4: "static", 5: "default"}
RESOURCES = {"topic": 2, "broker": 4, "group": 32}
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
HARMLESS = {"ELECTION_NOT_NEEDED"}  # it leads already
# Answers to an election after which nothing was done for certain; of any other error it may have been.
NOT_ELECTED = {
    *("ELECTION_NOT_NEEDED", "ELIGIBLE_LEADERS_NOT_AVAILABLE", "PREFERRED_LEADER_NOT_AVAILABLE"),
    "UNKNOWN_TOPIC_OR_PARTITION",
}


def controller(connection: Connection) -> Connection:
    """A new connection to the broker that takes these requests, found by asking any broker.

    Raises:
        NoController: the brokers know of none now.
        OSError: the broker did not answer.
    """
    view = metadata(connection, [])
    if view.controller_id not in view.brokers:
        raise NoController(f"{connection.host}:{connection.port} knows of no controller among {sorted(view.brokers)}.")
    return connection.to(*view.brokers[view.controller_id], max(connection.timeout_s, TIMEOUT_MS / 1000))


def create_topic(
    connection: Connection, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]
) -> None:
    """Create a topic with a fixed assignment: partition → broker ids, preferred leader first.

    Raises:
        HarnessError: the cluster refused.
    """
    topic = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest[4](
        topics=[
            topic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
                    for partition, brokers in assignment.items()
                ],
                configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
            )
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=False,
    )
    for answer in to_controller(connection, request).topics:
        check(f"create topic {name}", answer)


def alter_config(
    connection: Connection, resource: Literal["topic", "broker", "group"], name: str, config: Mapping[str, str | None]
) -> None:
    """Set dynamic settings of a topic, a group, or a broker (its id as text); None takes a setting back.

    Raises:
        HarnessError: the cluster refused.
    """
    alter = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest[0](
        resources=[
            alter(
                resource_type=RESOURCES[resource],
                resource_name=name,
                configs=[
                    alter.AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
                    for key, value in config.items()
                ],
            )
        ],
        validate_only=False,
    )
    # A ZooKeeper broker takes its own dynamic settings only.
    send = connection.send if resource == "broker" else lambda request: to_controller(connection, request)
    for answer in send(request).responses:
        check(f"set {dict(config)} on {resource} {name}", answer)


def describe_config(
    connection: Connection, resource: Literal["topic", "broker"], name: str, settings: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Settings in effect, each with where it comes from: setting → {source: value}, the one in effect first.

    Sources: topic, dynamic_broker, dynamic_default, static and default (KIP-226). A setting that this version does not
    have is left out.

    Raises:
        HarnessError: the broker refused.
        OSError: it did not answer.
    """
    request = DescribeConfigsRequest[1](
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=RESOURCES[resource], resource_name=name, configuration_keys=list(settings)
            )
        ],
        include_synonyms=True,
    )
    (answer,) = connection.send(request).results
    check(f"describe {resource} {name}", answer)
    return {
        config.name: {SOURCES.get(said.source, str(said.source)): said.value for said in config.synonyms}
        for config in answer.configs
    }


def delete_records(connection: Connection, partition: TopicPartition, before: int) -> int:
    """Ask a partition's leader to move its log start to an offset (-1: its high watermark); the log start since then.

    Raises:
        HarnessError: the leader refused, as above its high watermark.
        OSError: it did not answer.
    """
    of_topic = DeleteRecordsRequest.DeleteRecordsTopic
    request = DeleteRecordsRequest[1](
        topics=[
            of_topic(
                name=partition.topic,
                partitions=[of_topic.DeleteRecordsPartition(partition_index=partition.partition, offset=before)],
            )
        ],
        timeout_ms=TIMEOUT_MS,
    )
    answer = connection.send(request).topics[0].partitions[0]
    check(f"delete the records of {partition} before {before}", answer)
    return int(answer.low_watermark)


def elect_preferred(connection: Connection, partitions: Sequence[TopicPartition]) -> None:
    """Give leadership back to the first replica of each assignment.

    Raises:
        Refused: the cluster refused.
    """
    check_elected(_elect(connection, partitions, PREFERRED))


def elect_unclean(connection: Connection, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
    """Let the first live replica lead where no replica in sync is left; this may lose records.

    Returns the answer for each partition, for ``check_elected``: some may be elected while others are refused.
    """
    return _elect(connection, partitions, UNCLEAN)


def check_elected(answers: Mapping[TopicPartition, Any]) -> None:
    """Refuse answers to an election of which one carries an error.

    Raises:
        Refused: with the first error's name and message.
    """
    for partition, answer in answers.items():
        check(f"elect a leader of {partition}", answer)


def _elect(connection: Connection, partitions: Sequence[TopicPartition], kind: int) -> dict[TopicPartition, Any]:
    request = ElectLeadersRequest[1](
        election_type=kind,
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[replica.partition for replica in replicas])
            for topic, replicas in by_topic(partitions)
        ],
        timeout_ms=TIMEOUT_MS,
    )
    reply = to_controller(connection, request)
    if reply.error_code:  # of the request as a whole
        return dict.fromkeys(partitions, reply)
    return {
        TopicPartition(topic.topic, answer.partition_id): answer
        for topic in reply.replica_election_results
        for answer in topic.partition_result
    }


def reassign(connection: Connection, assignment: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Start to move partitions to other replicas, or only change their order; returns before the data has moved.

    Raises:
        HarnessError: the cluster refused.
    """
    topic_of = AlterPartitionReassignmentsRequest.ReassignableTopic
    request = AlterPartitionReassignmentsRequest[0](
        timeout_ms=TIMEOUT_MS,
        topics=[
            topic_of(
                name=topic,
                partitions=[
                    topic_of.ReassignablePartition(
                        partition_index=replica.partition, replicas=list(assignment[replica])
                    )
                    for replica in replicas
                ],
            )
            for topic, replicas in by_topic(assignment)
        ],
    )
    reply = to_controller(connection, request)
    check("reassign", reply)
    for topic in reply.responses:
        for answer in topic.partitions:
            check(f"reassign {topic.name}-{answer.partition_index}", answer)


def to_controller(connection: Connection, request: Any) -> Any:
    """Send a request to the broker that takes such requests; errors as ``controller``."""
    if connection.forwards_to_controller:  # KRaft names any live broker as the controller, one that is cut off, too
        return connection.send(request)
    with controller(connection) as to:
        return to.send(request)


def check(what: str, answer: Any) -> None:
    """Refuse an answer that carries an error.

    Raises:
        Refused: with the error's name and message.
    """
    error = error_name(answer.error_code)
    if error and error not in HARMLESS:
        why = getattr(answer, "error_message", None) or "no more is said"
        raise Refused(f"Could not {what}: {error} ({why}).")
