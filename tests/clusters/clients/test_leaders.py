"""Metadata that keeps the newest leader epoch of a partition, on top of kafka-python's updates."""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.errors import NodeNotReadyError
from kafka.protocol.metadata import MetadataResponse

from clusters.clients.leaders import NO_LEADER, UNKNOWN, Brokers, Leaders, NewestLeaders
from clusters.kafka.offsets import EARLIEST, ListedOffset
from history.partition import TopicPartition

T0 = TopicPartition("t", 0)


def told(leader: int, epoch: int, brokers: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    """Return a broker's metadata response."""
    broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
    part = topic.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
        offline_replicas=[],
    )
    of_topic = topic(error_code=0, name="t", topic_id=uuid.UUID(int=7), is_internal=False, partitions=[part])
    named = [broker(node_id=number, host="b", port=9092, rack=None) for number in brokers]
    answer = MetadataResponse[12](throttle_time_ms=0, brokers=named, cluster_id="c", controller_id=1, topics=[of_topic])
    return MetadataResponse[12].decode(bytes(answer.encode()))


@pytest.fixture
def leaders() -> NewestLeaders:
    """Metadata in which broker 2 leads in epoch 1."""
    found = NewestLeaders(bootstrap_servers="b:9092")
    found.update_metadata(told(2, 1))
    return found


def seen(leaders: NewestLeaders) -> tuple[int, int]:
    """Return the leader and epoch that kafka-python uses."""
    return leaders.leader_for_partition(T0), leaders.leader_epoch_for_partition(T0)


@pytest.mark.parametrize(
    ("leader", "epoch", "then"),
    [(1, 0, (2, 1)), (1, 1, (1, 1)), (1, 2, (1, 2)), (NO_LEADER, 2, (NO_LEADER, 2)), (NO_LEADER, -1, (2, 1))],
)
def test_an_older_epoch_changes_nothing(leaders: NewestLeaders, leader: int, epoch: int, then: tuple[int, int]) -> None:
    """Metadata with an older epoch change nothing; the same epoch and newer ones do."""
    leaders.update_metadata(told(leader, epoch))

    assert seen(leaders) == leaders.newest(T0) == then


def test_an_error_does_not_end_the_refreshing(leaders: NewestLeaders, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error does not end the refresh loop; in kafka-python it does, and the producer learns of no new leader."""
    begun: list[int] = []

    async def once(own: ClusterMetadata) -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise NodeNotReadyError("the leader was killed")
        own.closed = True

    monkeypatch.setattr(ClusterMetadata, "_refresh_loop", once)
    with suppress(StopIteration):
        leaders._refresh_loop().send(None)

    assert begun == [0, 1, 2]


def test_a_leader_that_is_not_listed_is_asked_for(leaders: NewestLeaders) -> None:
    """A leader that a stale response does not list is unknown to kafka-python, but its epoch is kept."""
    leaders.update_metadata(told(1, 0, brokers=(1, 3)))

    assert seen(leaders) == (NO_LEADER, 1)
    assert leaders.newest(T0) == (2, 1)
    leaders.update_metadata(told(1, 0))
    assert seen(leaders) == (2, 1)


def test_what_a_broker_says_in_passing_is_kept(leaders: NewestLeaders) -> None:
    """A newer leader from another response (KIP-951) replaces older metadata; an older one does not."""
    assert leaders.update_partition_leader(T0, 1, 2)
    assert not leaders.update_partition_leader(T0, 2, 1)
    leaders.update_metadata(told(2, 1))

    assert seen(leaders) == leaders.newest(T0) == (1, 2)


def test_who_was_told_before_any_metadata_counts() -> None:
    """A leader learned before the first metadata response is kept if that response has an older epoch."""
    leaders = NewestLeaders(bootstrap_servers="b:9092")
    assert leaders.newest(T0) == UNKNOWN
    leaders.update_partition_leader(T0, 2, 1)
    leaders.update_metadata(told(1, 0))

    assert seen(leaders) == (2, 1)


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ((1, 0), (2, 1)),  # older
        ((1, 1), (2, 1)),  # an epoch has one leader
        ((NO_LEADER, 1), (2, 1)),  # a broker that has not heard of it yet
        ((NO_LEADER, 2), (NO_LEADER, 2)),
        ((3, 2), (3, 2)),
    ],
)
def test_the_newest_leader_is_kept(said: tuple[int, int], then: tuple[int, int]) -> None:
    """The leader of the newest epoch is kept, whatever the source and the order of the updates."""
    leaders = Leaders()
    assert leaders.newest(T0) == UNKNOWN

    leaders.update(T0, NO_LEADER, 1)
    leaders.update(T0, 2, 1)
    leaders.update(T0, *said)
    assert leaders.newest(T0) == then


def test_two_threads_do_not_give_up_a_newer_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that report leaders at the same time leave the newer epoch in place."""
    leaders, look = Leaders(), Leaders.newest
    other = threading.Thread(target=leaders.update, args=(T0, 3, 9))

    def newest(self: Leaders, partition: TopicPartition) -> tuple[int, int]:
        found = look(self, partition)
        if threading.current_thread() is not other:
            other.start()
            other.join(0.5)  # it ends, or waits for this thread
        return found

    monkeypatch.setattr(Leaders, "newest", newest)
    leaders.update(T0, 1, 2)
    other.join()

    assert look(leaders, T0) == (3, 9)


def test_offsets_are_asked_of_each_leader_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leader gets one ListOffsets request for all its partitions; offsets of a silent leader are unknown."""
    asked: dict[str, dict[int, int]] = {}

    def list_offsets(broker: Any, partitions: Any, *_: Any, leader_epochs: Any) -> dict[TopicPartition, ListedOffset]:
        assert broker.host not in asked
        asked[broker.host] = {where.partition: leader_epochs[where] for where in partitions}
        if broker.host == "c":
            raise TimeoutError
        return {where: ListedOffset(10 + where.partition, 0, None) for where in partitions}

    monkeypatch.setattr("clusters.clients.leaders.list_offsets", list_offsets)
    leaders = Leaders()
    leaders.addresses = {1: ("b", 9092), 2: ("c", 9092)}
    partitions = [TopicPartition("t", number) for number in range(5)]
    for number, (leader, epoch) in enumerate([(1, 3), (1, 4), (2, 3), (2, 3), (NO_LEADER, 5)]):
        leaders.update(partitions[number], leader, epoch)

    found = Brokers(["b:9092", "c:9092"], "x", 1.0).offsets(partitions, leaders, EARLIEST, "read_uncommitted")

    assert asked == {"b": {0: 3, 1: 4}, "c": {2: 3, 3: 3}}
    assert list(found.values()) == [10, 11, None, None, None]
