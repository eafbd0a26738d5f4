"""Send admin requests; a rejected one raises Refused.

KRaft brokers forward them; with ZooKeeper they go to the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)

from clusters.kafka.connection import Connection, by_topic, error_name
from clusters.kafka.views import id_of, metadata
from history.errors import NoController, Refused
from history.partition import TopicPartition

TIMEOUT_MS = 10_000
SOURCES = {1: "topic", 2: "dynamic_broker", 3: "dynamic_default", 4: "static", 5: "default"}
RESOURCES = {"topic": 2, "broker": 4, "group": 32}
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
HARMLESS = {"ELECTION_NOT_NEEDED"}
# Only these errors show that nothing changed.
NOT_ELECTED = {
    *("ELECTION_NOT_NEEDED", "ELIGIBLE_LEADERS_NOT_AVAILABLE", "PREFERRED_LEADER_NOT_AVAILABLE"),
    "UNKNOWN_TOPIC_OR_PARTITION",
}


def controller(connection: Connection) -> Connection:
    """Return a new connection to the controller, found through any broker.

    Raises:
        NoController: none is known at present.
    """
    view = metadata(connection, [])
    if view.controller_id not in view.brokers:
        raise NoController(f"{connection.host}:{connection.port} knows of no controller among {sorted(view.brokers)}.")
    return connection.to(*view.brokers[view.controller_id], max(connection.timeout_s, TIMEOUT_MS / 1000))


def create_topic(
    connection: Connection, name: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]
) -> None:
    """Create a topic from partition → broker ids, preferred leader first."""
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


def delete_topic(connection: Connection, name: str, topic_id: str) -> bool:
    """Delete the topic with this id, whatever has its name; False if delete.topic.enable forbids it."""
    topics = [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=id_of(topic_id))]
    (answer,) = to_controller(connection, DeleteTopicsRequest[6](topics=topics, timeout_ms=TIMEOUT_MS)).responses
    error = error_name(answer.error_code)
    if error not in ("TOPIC_DELETION_DISABLED", "UNKNOWN_TOPIC_ID"):  # the latter is deleted already
        check(f"delete topic {name}", answer)
    return error != "TOPIC_DELETION_DISABLED"


def alter_config(
    connection: Connection, resource: Literal["topic", "broker", "group"], name: str, config: Mapping[str, str | None]
) -> None:
    """Change dynamic settings; a broker's name is its id, None removes one."""
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
    # A ZooKeeper broker accepts its own settings only.
    reply = connection.send(request) if resource == "broker" else to_controller(connection, request)
    for answer in reply.responses:
        check(f"set {dict(config)} on {resource} {name}", answer)


def describe_config(
    connection: Connection, resource: Literal["topic", "broker"], name: str, settings: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return setting → {source: value}, the effective source first, without unknown settings.

    Sources: topic, dynamic_broker, dynamic_default, static, default (KIP-226).
    """
    (answer,) = connection.send(_describe_request(resource, [name], settings)).results
    check(f"describe {resource} {name}", answer)
    return {
        config.name: {SOURCES.get(said.source, str(said.source)): said.value for said in config.synonyms}
        for config in answer.configs
    }


def setting_of_topics(connection: Connection, topics: Sequence[str], setting: str) -> dict[str, str]:
    """Return a setting's effective value of each topic that may be described."""
    answers = connection.send(_describe_request("topic", topics, [setting])).results
    return {answer.resource_name: config.value for answer in answers for config in answer.configs or ()}


def _describe_request(resource: str, names: Sequence[str], settings: Sequence[str]) -> Any:
    resource_of = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest[1](
        resources=[
            resource_of(resource_type=RESOURCES[resource], resource_name=name, configuration_keys=list(settings))
            for name in names
        ],
        include_synonyms=True,
    )


def delete_records(connection: Connection, partition: TopicPartition, before: int) -> int:
    """Delete records before an offset (-1: high watermark); return the new log start."""
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
    """Elect the first replica of each assignment."""
    check_elected(_elect(connection, partitions, PREFERRED))


def elect_unclean(connection: Connection, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
    """Elect the first live replica where none is in sync, which may lose records.

    ``check_elected`` takes the answers.
    """
    return _elect(connection, partitions, UNCLEAN)


def check_elected(answers: Mapping[TopicPartition, Any]) -> None:
    """Raise an election's first error."""
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
    if reply.error_code:
        return dict.fromkeys(partitions, reply)
    return {
        TopicPartition(topic.topic, answer.partition_id): answer
        for topic in reply.replica_election_results
        for answer in topic.partition_result
    }


def reassign(connection: Connection, assignment: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Start to move or reorder replicas; data moves later."""
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
    """Send a request to the controller."""
    if connection.forwards_to_controller:  # KRaft reports any live broker as controller, even a disconnected one
        return connection.send(request)
    with controller(connection) as to:
        return to.send(request)


def check(what: str, answer: Any) -> None:
    """Raise an answer's error as Refused."""
    error = error_name(answer.error_code)
    if error and error not in HARMLESS:
        why = getattr(answer, "error_message", None) or "no details"
        raise Refused(f"Could not {what}: {error} ({why}).")
