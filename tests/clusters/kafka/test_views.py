"""A broker's view of the cluster."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.kafka.views import PartitionView, QuorumView, describe_quorum, id_of, topic_ids
from history.errors import Refused


@pytest.mark.parametrize(("offline", "told"), [([], ""), ([1], " offline [1]")])
def test_a_view_is_told_in_words(offline: list[int], told: str) -> None:
    """A partition view is printed with leader, epoch, ISR and offline replicas, for time-out messages."""
    assert str(PartitionView("t", 0, 2, 5, [2, 1], [2], offline)) == f"t-0: leader 2 epoch 5 ISR [2]{told}"


def quorum_answer(leader: int = 101, error: int = 0, whole_error: int = 0) -> Any:
    """Return a controller's DescribeQuorum response."""
    voters = [SimpleNamespace(replica_id=100, log_end_offset=-1), SimpleNamespace(replica_id=101, log_end_offset=9)]
    partition = SimpleNamespace(
        error_code=error, leader_id=leader, leader_epoch=4, high_watermark=8, current_voters=voters
    )
    return SimpleNamespace(error_code=whole_error, topics=[SimpleNamespace(partitions=[partition])])


@pytest.mark.parametrize(
    ("answer", "view"),
    [
        (quorum_answer(), QuorumView(101, 4, 8, {100: -1, 101: 9})),
        (quorum_answer(error=6), None),
        (quorum_answer(whole_error=41), None),
        (SimpleNamespace(error_code=0, topics=None), None),
    ],
)
def test_only_the_quorums_leader_tells_of_it(answer: Any, view: QuorumView | None) -> None:
    """Only the quorum leader's response yields a view; other controllers answer with an error."""
    connection: Any = SimpleNamespace(send=lambda _: answer)

    assert describe_quorum(connection) == view


def ids_reply(*topics: tuple[str, int, str | None]) -> Any:
    """Return a connection whose Metadata has name, error and id of each topic."""
    answers = [
        SimpleNamespace(name=name, error_code=error, topic_id=text and uuid.UUID(text)) for name, error, text in topics
    ]
    return SimpleNamespace(send=lambda _: SimpleNamespace(topics=answers))


def test_topic_ids_are_printed_as_kafka_prints_them() -> None:
    """Unknown topics are left out; a topic of a cluster without ids has none."""
    made = "0a350581-5a4c-4287-84ae-495b5d064b80"
    connection = ids_reply(("a", 0, made), ("missing", 3, None), ("old", 0, None))

    assert topic_ids(connection, ["a", "missing", "old"]) == {"a": "CjUFgVpMQoeErklbXQZLgA", "old": None}
    assert id_of("CjUFgVpMQoeErklbXQZLgA") == uuid.UUID(made)


def test_a_topic_that_may_not_be_described_is_not_taken_for_a_missing_one() -> None:
    """The name may be in use."""
    with pytest.raises(Refused, match="Could not describe topic a: TOPIC_AUTHORIZATION_FAILED"):
        topic_ids(ids_reply(("a", 29, None)), ["a"])
