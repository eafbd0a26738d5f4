"""A partition's states as its controller decided them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from history.errors import EvidenceError
from history.partition import TopicPartition


class State(NamedTuple):
    """A partition's state."""

    topic: str
    partition: int
    source: str  # metadata_log | znode
    position: int  # or zxid
    t_ns: int | None  # None: no clock pairs. In snapshots an upper bound, 0 for initial states
    leader: int  # -1: none
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]  # preferred leader first
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False  # after an unclean election


class History(NamedTuple):
    """All partitions' states; ``problem``: why reading stopped early."""

    states: list[State]
    problem: str | None = None


def up_to_damage(states: Iterable[State]) -> History:
    """Collect states until reading them raises EvidenceError."""
    found: list[State] = []
    try:
        found.extend(states)
    except EvidenceError as error:
        return History(found, str(error))
    return History(found)


def by_partition(states: list[State]) -> dict[TopicPartition, list[State]]:
    """Group states by partition, in order."""
    found: dict[TopicPartition, list[State]] = {}
    for state in sorted(states, key=lambda state: state.position):
        found.setdefault(TopicPartition(state.topic, state.partition), []).append(state)
    return found
