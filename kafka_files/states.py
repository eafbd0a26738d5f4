"""A partition's states as its controller decided them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from history.partition import TopicPartition

_INT_LIST = pa.list_(pa.int32())

# source: metadata_log | znode
STATES = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),  # or zxid
        # Null: no clock pairs. 0: an initial state in a snapshot.
        pa.field("t_ns", pa.int64()),
        pa.field("leader", pa.int32(), nullable=False),  # -1: none
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("partition_epoch", pa.int32(), nullable=False),
        pa.field("replicas", _INT_LIST, nullable=False),  # preferred leader first
        pa.field("isr", _INT_LIST, nullable=False),
        pa.field("elr", _INT_LIST, nullable=False),
        pa.field("last_known_elr", _INT_LIST, nullable=False),
        pa.field("adding", _INT_LIST, nullable=False),
        pa.field("removing", _INT_LIST, nullable=False),
        pa.field("recovering", pa.bool_(), nullable=False),  # after an unclean election
    ]
)


class State(NamedTuple):
    """A row of ``STATES``."""

    topic: str
    partition: int
    source: str
    position: int
    t_ns: int | None
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False


class History(NamedTuple):
    """All partitions' states; ``problem``: why reading stopped early."""

    states: list[State]
    problem: str | None = None


def by_partition(states: list[State]) -> dict[TopicPartition, list[State]]:
    """Group states by partition, in order."""
    found: dict[TopicPartition, list[State]] = {}
    for state in sorted(states, key=lambda state: state.position):
        found.setdefault(TopicPartition(state.topic, state.partition), []).append(state)
    return found
