"""Partitions of others during a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.attached import neighbours as module
from clusters.attached.neighbours import Neighbours, below_min_isr, under_replicated
from clusters.kafka.connection import Connection
from clusters.kafka.offsets import CONSUMER, ListedOffset
from clusters.kafka.views import ClusterView, PartitionView
from history.partition import TopicPartition

REPLICAS = st.lists(st.integers(1, 5), min_size=1, unique=True)


def view(isr: list[int], leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3), topic: str = "sales") -> PartitionView:
    """Return a partition's metadata."""
    return PartitionView(topic, 0, leader, 5, list(replicas), isr, [])


@pytest.mark.parametrize(
    ("partition", "found"),
    [
        (view([1, 2, 3]), False),
        (view([3, 1, 2]), False),
        (view([1, 2]), True),
        (view([1], leader=-1, replicas=(1,)), True),
        (view([1], replicas=(1,)), False),
    ],
)
def test_under_replicated(partition: PartitionView, found: bool) -> None:
    """A replica outside of the ISR, or no leader."""
    assert under_replicated([partition]) == ([TopicPartition("sales", 0)] if found else [])


@pytest.mark.parametrize(
    ("partition", "min_isr", "below"),
    [
        (view([1, 2]), 2, False),
        (view([1]), 2, True),
        (view([1]), 1, False),
        (view([1], leader=-1), 1, True),
        (view([1], replicas=(1,)), 2, False),  # at most the replication factor
        (view([1, 2]), None, False),
        (view([1]), None, True),
        (view([1], replicas=(1,)), None, False),
    ],
)
def test_below_min_isr(partition: PartitionView, min_isr: int | None, below: bool) -> None:
    """Without a leader no write is possible; an unknown minimum is the replication factor minus 1."""
    known = {} if min_isr is None else {"sales": min_isr}

    assert bool(below_min_isr([partition], known)) is below
    assert below_min_isr([partition], known, {"sales"}) == []


def test_an_election_that_is_due_is_no_loss() -> None:
    """Without a leader the live members of the ISR count: a kill of the leader must not end a run."""
    between = view([2, 3], leader=-1)

    assert below_min_isr([between], {"sales": 2}, alive={2, 3}) == []
    assert below_min_isr([between], {"sales": 2}, alive={2})
    assert below_min_isr([between], {"sales": 2}, without={3}, alive={2, 3})


def test_a_partition_is_named_with_isr_and_minimum() -> None:
    """The text goes into the reason of an abort."""
    assert below_min_isr([view([3], leader=3)], {"sales": 2}) == ["sales-0: leader 3, ISR [3], min.insync.replicas 2"]


@given(REPLICAS, st.data(), st.integers(1, 6) | st.none())
def test_a_fully_replicated_partition_is_never_below(replicas: list[int], data: Any, min_isr: int | None) -> None:
    """What is below its minimum is under-replicated, and a member fewer never helps."""
    isr = data.draw(st.lists(st.sampled_from(replicas), unique=True))
    known = {} if min_isr is None else {"sales": min_isr}
    partition = view(isr, leader=isr[0] if isr else -1, replicas=tuple(replicas))
    smaller = view(isr[:-1], leader=isr[0] if len(isr) > 1 else -1, replicas=tuple(replicas))

    if below_min_isr([partition], known):
        assert under_replicated([partition])
        assert below_min_isr([smaller], known)


def test_settings_are_read_once_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only new topics are described; one warning names the first missing right; own topics count never."""
    partitions = [view([1], topic=topic) for topic in ("a", "b", "c", "own")]
    monkeypatch.setattr(module, "metadata", lambda connection, topics: ClusterView(0, 0, 1, {}, list(partitions)))
    described: list[list[str]] = []

    def setting_of_topics(connection: Connection, topics: list[str], setting: str) -> dict[str, str]:
        described.append(list(topics))
        return {topic: "1" for topic in topics if topic != "b"}

    monkeypatch.setattr(module, "setting_of_topics", setting_of_topics)
    monkeypatch.setattr(module, "TOPICS_OF_REQUEST", 2)
    warnings: list[str] = []
    neighbours = Neighbours(lambda broker: Connection("b", broker, 1.0), [1], warnings.append)
    own = frozenset({"own"})
    first = neighbours.below_min_isr(own)
    partitions.append(view([1], topic="d"))
    second = neighbours.below_min_isr(own)

    assert first == second == ["b-0: leader 1, ISR [1], min.insync.replicas 2"]
    assert described == [["a", "b"], ["c"], ["d"]]
    assert [each[:64] for each in warnings] == ["min.insync.replicas of 1 topics, such as b, cannot be read witho"]
    assert len(neighbours.under_replicated()) == 5


@pytest.mark.parametrize(
    ("partition", "without", "below"),
    [
        (view([1, 2, 3]), {1}, False),
        (view([1, 2, 3]), {1, 2}, True),
        (view([1, 2]), {2}, True),
        (view([1, 2]), {3}, False),  # outside of the ISR already
        (view([1], replicas=(1,)), {1}, True),
        (view([1], replicas=(1,)), {2}, False),
        (view([1]), {4}, False),  # below already, but not because of broker 4
    ],
)
def test_brokers_that_are_about_to_end(partition: PartitionView, without: set[int], below: bool) -> None:
    """Partitions with a replica there must do without them; others do not count."""
    assert bool(below_min_isr([partition], {"sales": 2}, without=without)) is below


@pytest.mark.parametrize(
    ("leader", "errors", "written"),
    [
        (2, {}, {"partitions": 3, "records": 30}),
        (-1, {}, {}),  # no leader answers for it
        (2, {"c": "NOT_LEADER_OR_FOLLOWER"}, {}),
    ],
)
def test_what_others_wrote_is_known_whole_or_not_at_all(
    leader: int, errors: dict[str, str], written: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each leader is asked for its partitions, without those of the run and of Kafka itself."""
    partitions = [view([1], topic=topic) for topic in ("a", "b", "own", "__consumer_offsets")]
    partitions.append(view([1], topic="c", leader=leader))
    monkeypatch.setattr(module, "metadata", lambda connection, topics: ClusterView(0, 0, 1, {}, partitions))
    asked: list[list[str]] = []

    def list_offsets(_: Connection, parts: list[TopicPartition], replica_id: int) -> dict[TopicPartition, ListedOffset]:
        assert replica_id == CONSUMER
        asked.append([part.topic for part in parts])
        return {part: ListedOffset(None if part.topic in errors else 10, 0, errors.get(part.topic)) for part in parts}

    monkeypatch.setattr(module, "list_offsets", list_offsets)
    monkeypatch.setattr(module, "PARTITIONS_OF_REQUEST", 1)
    neighbours = Neighbours(lambda broker: Connection("b", broker, 1.0), [1, 2], lambda _: None)

    assert neighbours.written(frozenset({"own"})) == written
    assert neighbours.written(frozenset({"own", "a", "b", "c"})) == {}  # none that the user may describe
    assert asked == ([] if leader < 0 else [["a"], ["b"], ["c"]])
