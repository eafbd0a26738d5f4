"""A run: incarnations of nodes, and where partitions are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.live.world import TORN_DOWN, World
from history.errors import HarnessError
from history.events import read_events
from history.partition import TopicPartition
from tests.clusters.fakes import T0


def test_partitions_and_their_brokers_follow_from_the_scenario(world: World) -> None:
    """Replicas follow the scenario: B is broker 2, and the second partition starts with the next broker."""
    assert world.partitions == [T0, TopicPartition("orders", 1)]
    assert [world.replicas(partition) for partition in world.partitions] == [[2, 1, 3], [1, 3, 2]]


@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_started_in_a_run_that_was_torn_down(world: World, before: bool) -> None:
    """In a run that was torn down no node starts; one that was starting meanwhile is removed."""
    removed: list[str] = []
    runtime: Any = world.runtime
    runtime.remove_all = lambda: removed.append("all")
    runtime.start = lambda _: (world.folder.work / TORN_DOWN).touch()
    if before:
        (world.folder.work / TORN_DOWN).touch()
        runtime.start = None

    with pytest.raises(HarnessError, match="was torn down meanwhile"):
        world.start(world.servers.brokers[1])
    assert removed == ["all"]
    assert not world.folder.events.exists()


def test_every_start_is_another_incarnation(world: World, tmp_path: Path) -> None:
    """Each start of a broker is a new incarnation, counted per broker across the tasks of a run."""
    world.start(world.servers.brokers[1])
    again = World(tmp_path)
    again.__dict__["runtime"] = world.runtime
    again.start(again.servers.brokers[1])
    again.start(again.servers.brokers[2])

    assert [world.incarnation(node) for node in world.servers.brokers.values()] == [2, 1, 0]
    starts = [(event.target, event.detail["incarnation"]) for event in read_events(world.folder.events)]
    assert starts == [("broker-1", 1), ("broker-1", 2), ("broker-2", 1)]


def test_a_partition_that_was_moved_is_where_it_was_moved_to(world: World) -> None:
    """After a reassignment the partition has its new replicas; the scenario gives the others."""
    world.moved[T0] = [3, 1]

    assert (world.replicas(T0), world.replicas(TopicPartition("orders", 1))) == ([3, 1], [1, 3, 2])
