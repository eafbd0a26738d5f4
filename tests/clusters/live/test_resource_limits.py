"""Resource limits, on a fake world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.live.resource_limits import end_cpu_limits, limit_brokers, limit_clients, limit_cluster
from tests.clusters.fakes import FakeWorld, scenario

ALLOWANCE = {"cpus": 0.3, "cpu_set": "0", "clients_cpu_set": "1", "network": "20MB/s"}


def world(path: Path, resource_limits: dict[str, Any] | None) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return a world with these resource limits, and the calls that its runtime gets."""
    topics = {"orders": {"replicas": ["A", "B"]}}
    told = scenario([{"hold": "1s"}], cluster={"brokers": 2, "resource_limits": resource_limits}, topics=topics)
    played: Any = FakeWorld(path, told)
    calls: list[tuple[Any, ...]] = []
    played.runtime.resource_limits.limit_cpu = lambda *asked: calls.append(asked)
    played.runtime.resource_limits.limit_egress = lambda node, rate: calls.append((node.name, rate))
    played.runtime.resource_limits.in_effect = lambda node: {"cpu_quota": f"of {node.name}"}
    return played, calls


def test_brokers_and_the_others_get_what_is_theirs(tmp_path: Path) -> None:
    """Brokers and other nodes get their limits; events have the requested limits and those that the kernel reports."""
    played, calls = world(tmp_path, ALLOWANCE)
    limit_cluster(played)

    assert sorted(calls[:2]) == [("broker-1", 20e6), ("broker-2", 20e6)]
    assert calls[2:] == [("broker-1", 0.3, "0"), ("broker-2", 0.3, "0"), ("controller", None, "1")]
    events = played.seen("resource_limits")
    assert [(event.target, event.detail["kernel"]["cpu_quota"]) for event in events] == [
        ("broker-1", "of broker-1"),
        ("broker-2", "of broker-2"),
    ]
    assert events[0].detail["asked"] == {**ALLOWANCE, "network": 20e6}


def test_without_resource_limits_nothing_is_limited(tmp_path: Path) -> None:
    """Without resource limits, nothing is limited or recorded."""
    played, calls = world(tmp_path, None)
    limit_cluster(played)
    limit_brokers(played, list(played.servers.brokers.values()))
    limit_clients(played, played.servers.metadata_nodes)
    end_cpu_limits(played)

    assert calls == []
    assert not played.folder.events.exists()


def test_a_broker_that_came_back_gets_its_cpu_time_anew(tmp_path: Path) -> None:
    """A restarted broker gets its CPU limit again; its network limit belongs to its address and stays."""
    played, calls = world(tmp_path, ALLOWANCE)
    limit_brokers(played, [played.servers.brokers[2]])

    assert calls == [("broker-2", 0.3, "0")]


def test_cpu_limits_end_with_the_load(tmp_path: Path) -> None:
    """CPU limits end with the load, after the kernel's counters are recorded; a broker that is down has none."""
    played, calls = world(tmp_path, ALLOWANCE)
    played.runtime.kill("broker-1", "SIGKILL")
    end_cpu_limits(played)

    assert calls == [("broker-2", None, "0")]
    assert [(event.target, event.detail["when"]) for event in played.seen("resource_limits")] == [
        ("broker-2", "at the end of the load")
    ]


@pytest.mark.parametrize("resource_limits", [{"cpus": 0.3}, {"cpu_set": "0"}])
def test_clients_without_cpus_of_their_own_run_anywhere(tmp_path: Path, resource_limits: dict[str, Any]) -> None:
    """Without ``cpus`` of their own, clients and controllers are not limited."""
    played, calls = world(tmp_path, resource_limits)
    limit_cluster(played)

    assert [asked[0] for asked in calls] == ["broker-1", "broker-2"]
