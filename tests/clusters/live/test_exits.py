"""Servers that ended by themselves, on a world that is played."""

from __future__ import annotations

from pathlib import Path

from clusters.live.exits import end, record_exits
from clusters.live.plan import AttachedCluster
from tests.clusters.fakes import FakeWorld, scenario

STEADY = scenario([{"hold": 1}], cluster={"brokers": 3})


def test_a_servers_own_end_is_recorded_once(tmp_path: Path) -> None:
    """Broker 2 ended by itself; broker 1 was ended by the harness."""
    world = FakeWorld(tmp_path, STEADY)
    end(world, world.servers.brokers[1], "SIGKILL")
    world.runtime.states["broker-2"], world.runtime.statuses["broker-2"] = "exited", 137

    assert [node.name for node in record_exits(world)] == ["broker-2"]
    assert record_exits(world) == []
    assert [(e.target, e.detail["exit_status"]) for e in world.seen("server_exited")] == [("broker-2", 137)]


def test_exits_of_others_servers_are_not_recorded(tmp_path: Path) -> None:
    """A server that somebody else runs may be down for reasons that this host cannot see."""
    world = FakeWorld(tmp_path, STEADY)
    attached = AttachedCluster.model_construct(cluster_id="c", mode="kraft", brokers={})
    world.replan(cluster=attached)
    world.runtime.states["broker-2"] = "exited"

    assert record_exits(world) == []
    assert not world.folder.events.exists()
