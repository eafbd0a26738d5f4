"""The registry of own topics, on a cluster that answers from memory."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.attached import registry as module
from clusters.attached.registry import Entry, Owner, Registry
from clusters.kafka.producing import record_batch
from clusters.kafka.views import id_of, id_text
from history.errors import BadInput, HarnessError, NoController, Refused, WaitTimeout

RUN = Owner(run="20261129-1-steady", host="laptop", boot_id="b00")
OTHER = Owner(run="20261129-2-steady", host="desktop", boot_id="b01")
NAME = "plimsoll-orders-5a3e"
ID, OTHER_ID = id_text(uuid.UUID(int=1)), id_text(uuid.UUID(int=2))


@dataclass
class FakeCluster:
    """A cluster whose topics are only names with ids, except for the registry's records."""

    topics: dict[str, uuid.UUID] = field(default_factory=dict)
    policy: str = "compact"
    ids: bool = True
    leader: int = 2
    controller: int = 3
    brokers: tuple[int, ...] = (1, 2, 3, 4)
    log: list[bytes] = field(default_factory=list)
    created: list[Any] = field(default_factory=list)
    errors: dict[str, list[int]] = field(default_factory=dict)  # request → codes of its next answers

    def connect(self, broker: int) -> Any:
        return FakeConnection(self, broker)

    def next_error(self, request: str) -> int:
        return self.errors[request].pop(0) if self.errors.get(request) else 0


@dataclass
class FakeConnection:
    """A connection to one of its brokers."""

    cluster: FakeCluster
    broker: int
    forwards_to_controller: bool = False

    def __enter__(self) -> FakeConnection:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def exchange(self, requests: list[Any]) -> list[Any]:
        return [self.send(request) for request in requests]

    def send(self, request: Any, decode: Any = None) -> Any:
        if decode:  # as a reader of metadata: the fake has no bytes
            return decode(SimpleNamespace(decode=lambda _: self.send(request)), memoryview(os.urandom(8)))
        return getattr(self, f"_{type(request).__name__}")(request)

    def _MetadataRequest(self, request: Any) -> Any:  # noqa: N802  # named after the request
        cluster = self.cluster
        names = cluster.topics if request.topics is None else [topic.name for topic in request.topics]
        partition = SimpleNamespace(
            partition_index=0, leader_id=cluster.leader, leader_epoch=0, replica_nodes=[], isr_nodes=[]
        )
        partition.offline_replicas = []
        topics = [
            SimpleNamespace(
                name=name,
                error_code=0 if name in cluster.topics else 3,
                topic_id=cluster.topics.get(name) if cluster.ids else None,
                partitions=[partition] if name in cluster.topics else [],
            )
            for name in names
        ]
        brokers = [SimpleNamespace(node_id=number, host="b", port=number) for number in cluster.brokers]
        return SimpleNamespace(cluster_id="", topics=topics, brokers=brokers, controller_id=cluster.controller)

    def _CreateTopicsRequest(self, request: Any) -> Any:  # noqa: N802  # named after the request
        (topic,) = request.topics
        self.cluster.created.append((self.broker, topic))
        self.cluster.topics[topic.name] = uuid.UUID(int=99)
        return SimpleNamespace(topics=[SimpleNamespace(error_code=0)])

    def _DescribeConfigsRequest(self, request: Any) -> Any:  # noqa: N802  # named after the request
        config = SimpleNamespace(name="cleanup.policy", synonyms=[SimpleNamespace(source=1, value=self.cluster.policy)])
        error = self.cluster.next_error("describe")
        return SimpleNamespace(results=[SimpleNamespace(error_code=error, error_message="no", configs=[config])])

    def _ListOffsetsRequest(self, request: Any) -> Any:  # noqa: N802  # named after the request
        answer = SimpleNamespace(
            partition_index=0, error_code=self.cluster.next_error("offsets"), offset=len(self.cluster.log)
        )
        answer.leader_epoch = 0
        return SimpleNamespace(topics=[SimpleNamespace(name=request.topics[0].name, partitions=[answer])])

    def _FetchRequest(self, request: Any) -> Any:  # noqa: N802  # named after the request
        assert self.broker == self.cluster.leader
        (topic,) = request.topics
        offset = topic.partitions[0].fetch_offset
        batches = [
            number.to_bytes(8, "big") + batch[8:]
            for number, batch in enumerate(self.cluster.log)
            if offset <= number < offset + 2  # two batches at most, so that reading continues
        ]
        answer = SimpleNamespace(partition_index=0, error_code=0, records=b"".join(batches))
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(topic=topic.topic, partitions=[answer])])

    def _ProduceRequest(self, request: Any) -> Any:  # noqa: N802  # named after the request
        assert (self.broker, request.acks) == (self.cluster.leader, -1)
        error = self.cluster.next_error("produce")
        if not error:
            self.cluster.log.append(bytes(request.topic_data[0].partition_data[0].records))
        answer = SimpleNamespace(error_code=error, base_offset=len(self.cluster.log) - 1)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answer])])


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster without topics."""
    return FakeCluster()


@pytest.fixture
def registry(cluster: FakeCluster) -> Registry:
    """Its registry, which exists."""
    made = Registry(cluster.connect, cluster.brokers, "plimsoll-")
    made.ensure()
    return made


def test_an_absent_registry_is_created_once(cluster: FakeCluster, registry: Registry) -> None:
    """It has one partition on three brokers, is compacted, and stays writable with a broker down."""
    registry.ensure()
    ((broker, topic),) = cluster.created

    assert (broker, topic.name) == (3, "plimsoll-registry")
    assert [list(each.broker_ids) for each in topic.assignments] == [[1, 2, 3]]
    assert {each.name: each.value for each in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "min.insync.replicas": "2",
    }


def test_one_broker_suffices() -> None:
    """Then the registry has one replica, of which one must be in sync."""
    cluster = FakeCluster(brokers=(2,), controller=2)
    Registry(cluster.connect, cluster.brokers, "plimsoll-").ensure()
    (_, topic) = cluster.created[0]

    assert [list(each.broker_ids) for each in topic.assignments] == [[2]]
    assert topic.configs[2].value == "1"


def test_a_topic_of_that_name_that_is_not_compacted_is_refused() -> None:
    """It belongs to somebody else, and is not changed."""
    cluster = FakeCluster({"plimsoll-registry": uuid.UUID(int=9)}, policy="delete")

    with pytest.raises(BadInput, match=r"cleanup.policy is delete, not compact; choose another topics.prefix"):
        Registry(cluster.connect, cluster.brokers, "plimsoll-").ensure()
    assert cluster.created == cluster.log == []


def test_a_policy_that_may_not_be_read_is_refused() -> None:
    """The sentence names the missing right."""
    cluster = FakeCluster({"plimsoll-registry": uuid.UUID(int=9)}, errors={"describe": [29]})

    with pytest.raises(BadInput, match=r"AUTHORIZATION_FAILED.*needs DescribeConfigs on plimsoll-registry"):
        Registry(cluster.connect, cluster.brokers, "plimsoll-").ensure()


@pytest.mark.parametrize(("topics", "stays"), [({"sales": uuid.UUID(int=9)}, ""), ({}, " The empty topic")])
def test_a_cluster_without_topic_ids_is_refused(topics: dict[str, uuid.UUID], stays: str) -> None:
    """One topic without an id shows it before anything is created."""
    cluster = FakeCluster(topics, ids=False)

    with pytest.raises(BadInput, match=rf"inter.broker.protocol.version to 2.8 or later.{stays}"):
        Registry(cluster.connect, cluster.brokers, "plimsoll-").ensure()
    assert bool(cluster.created) is bool(stays)


def test_without_a_controller_nothing_is_created() -> None:
    """The error names the brokers."""
    cluster = FakeCluster(controller=-1)

    with pytest.raises(NoController, match=r"The brokers \[1, 2, 3, 4\] know of no controller"):
        Registry(cluster.connect, cluster.brokers, "plimsoll-").ensure()


def test_a_topic_is_intended_created_registered_and_forgotten(cluster: FakeCluster, registry: Registry) -> None:
    """The latest record of a topic counts; a tombstone ends it."""
    registry.intend(NAME, RUN)
    (intent,) = registry.entries().values()
    assert (intent.topic, intent.topic_id, intent.run, intent.host) == (NAME, None, RUN.run, "laptop")
    registry.intend("plimsoll-other-5a3e", RUN)

    cluster.topics[NAME] = id_of(ID)
    registry.register(NAME, ID)
    registry.check([NAME])
    assert registry.entries()[NAME] == intent.model_copy(update={"topic_id": ID})

    registry.forget(NAME)
    assert registry.entries().keys() == {"plimsoll-other-5a3e"}
    with pytest.raises(HarnessError, match=f"{NAME} is not registered in plimsoll-registry, and is left alone"):
        registry.check([NAME])


@pytest.mark.parametrize("name", ["orders", "plimsoll-registry", "xplimsoll-orders"])
def test_names_of_others_are_refused(registry: Registry, cluster: FakeCluster, name: str) -> None:
    """The prefix is required, and the registry is no topic of a run."""
    with pytest.raises(BadInput, match="must have the prefix plimsoll-, and not be plimsoll-registry"):
        registry.intend(name, RUN)
    assert cluster.log == []


def test_a_topic_that_exists_is_refused(registry: Registry, cluster: FakeCluster) -> None:
    """Nothing shows that it is a run's own, despite its prefix."""
    cluster.topics[NAME] = id_of(ID)

    with pytest.raises(BadInput, match=f"The topic {NAME} exists already, and is left alone"):
        registry.intend(NAME, RUN)
    assert cluster.log == []


def test_a_name_of_another_run_is_refused(registry: Registry) -> None:
    """Also before that run has created it."""
    registry.intend(NAME, OTHER)

    with pytest.raises(BadInput, match="registered for run 20261129-2-steady of host desktop"):
        registry.intend(NAME, RUN)


def test_an_id_needs_an_intent(registry: Registry, cluster: FakeCluster) -> None:
    """An id is registered once; the same id again is harmless."""
    with pytest.raises(HarnessError, match="was not registered for creation"):
        registry.register(NAME, ID)
    registry.intend(NAME, RUN)
    registry.register(NAME, ID)
    registry.register(NAME, ID)
    with pytest.raises(HarnessError, match="was not registered for creation"):
        registry.register(NAME, OTHER_ID)


@pytest.mark.parametrize(
    ("registered", "now", "sentence"),
    [
        (ID, OTHER_ID, f"has id {OTHER_ID}, but {ID} is registered for run 20261129-1-steady of host laptop"),
        (None, ID, f"has id {ID}, but none is registered"),
        (ID, None, "of run 20261129-1-steady of host laptop does not exist"),
    ],
)
def test_only_the_registered_id_is_accepted(
    registry: Registry, cluster: FakeCluster, registered: str | None, now: str | None, sentence: str
) -> None:
    """A topic that somebody made anew, one whose creation was not registered, and one that is gone."""
    registry.intend(NAME, RUN)
    if registered:
        registry.register(NAME, registered)
    if now:
        cluster.topics[NAME] = id_of(now)

    with pytest.raises(HarnessError, match=sentence):
        registry.check([NAME])


def test_without_a_registry_there_are_no_entries(cluster: FakeCluster) -> None:
    """Reading creates nothing; writing is an error."""
    absent = Registry(cluster.connect, cluster.brokers, "plimsoll-")

    assert absent.entries() == {}
    with pytest.raises(HarnessError, match="plimsoll-registry does not exist"):
        absent.forget(NAME)
    assert cluster.created == []


def test_transient_errors_are_tried_again(registry: Registry, cluster: FakeCluster) -> None:
    """A new leader that does not know its end yet, and a write that found no leader."""
    cluster.errors = {"produce": [6, 6], "offsets": [78]}
    registry.intend(NAME, RUN)

    assert registry.entries().keys() == {NAME}
    assert len(cluster.log) == 1


def test_a_missing_right_to_write_is_not_tried_again(registry: Registry, cluster: FakeCluster) -> None:
    """The error is the cluster's."""
    cluster.errors = {"produce": [29]}

    with pytest.raises(Refused, match="Could not write to plimsoll-registry: TOPIC_AUTHORIZATION_FAILED"):
        registry.intend(NAME, RUN)


def test_a_registry_without_a_leader_is_an_error(
    registry: Registry, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never counts as an empty one."""
    monkeypatch.setattr(module, "LIMIT_S", 0.1)
    cluster.leader = -1

    with pytest.raises(WaitTimeout, match="the records of plimsoll-registry"):
        registry.entries()


def test_a_record_of_somebody_else_is_an_error(registry: Registry, cluster: FakeCluster) -> None:
    """What cannot be read might protect a topic."""
    cluster.log.append(record_batch([b"{}"], 0, b"sales"))

    with pytest.raises(HarnessError, match=r"a record that Plimsoll did not write: b'\{\}'"):
        registry.entries()


def test_an_entry_has_the_runs_fields() -> None:
    """The record is JSON that other tools can read."""
    entry = Entry(topic=NAME, topic_id=ID, at="2026-11-29T20:00:00+00:00", **RUN.model_dump())

    assert entry.model_dump(mode="json") == {
        "run": "20261129-1-steady",
        "host": "laptop",
        "boot_id": "b00",
        "topic": NAME,
        "topic_id": ID,
        "at": "2026-11-29T20:00:00+00:00",
    }
