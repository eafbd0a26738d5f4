"""Brokers of others are disconnected by hooks, and what the cluster reports shows the effect."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.faults import hooked, phase
from clusters.faults.hooked import HookDisconnected
from history.errors import WaitTimeout
from tests.clusters.fakes import FakeWorld, scenario
from tests.clusters.faults.phases import LOAD, run


class Hooks:
    """Keeps what was run."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str, dict[str, object]]] = []

    def run_hook(self, name: str, node: Any, **values: object) -> None:
        self.ran.append((name, node.name, values))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three running brokers, on which effects show at once or never."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    foreign = SimpleNamespace(brokers={1: SimpleNamespace(settings={"replica.lag.time.max.ms": "0"})})
    monkeypatch.setattr(
        world, "plan", SimpleNamespace(foreign=foreign, attached=None, mode="kraft", scenario=world.scenario)
    )
    monkeypatch.setattr(hooked, "MARGIN_S", 0.0)
    return world


def fault(world: Any, *peers: Any) -> HookDisconnected:
    """Return broker 1 disconnected from these peers."""
    return HookDisconnected(world, Hooks(), world.servers.brokers[1], peers, "both")  # type: ignore[arg-type]  # a fake


def test_the_hook_runs_for_each_peer(world: Any) -> None:
    """A broker is named by its id and host, clients and controller by their word."""
    cut = fault(world, world.servers.brokers[2], "controller")
    cut.inject()
    cut.heal()
    assert cut.servers.ran == [  # type: ignore[attr-defined]  # a fake
        (hook, "broker-1", {"peer": peer, "peer_host": host, "direction": "both"})
        for hook in ("disconnect", "reconnect")
        for peer, host in ((2, "127.9.9.2"), ("controller", ""))
    ]


def test_a_replica_outside_the_isr_shows_the_cut(world: Any) -> None:
    """It or the peer; a third broker outside is no effect of this cut."""
    cut = fault(world, world.servers.brokers[2])
    world.reports.isr = [1, 2]
    with pytest.raises(WaitTimeout):
        cut.verify_injected()
    world.reports.isr = [1, 3]
    assert cut.verify_injected() == {"probe": "the ISR of orders-0 is [1, 3]"}
    with pytest.raises(WaitTimeout):
        cut.verify_cleared()
    world.reports.isr = [1, 2, 3]
    assert cut.verify_cleared() == {"probe": "no longer: the ISR of orders-0 is [1, 3]"}


def test_a_silent_broker_shows_a_cut_from_clients(world: Any) -> None:
    """A broker that answers is not cut from clients, whatever the hook returned."""
    cut = fault(world, "clients")
    with pytest.raises(WaitTimeout):
        cut.verify_injected()
    world.servers.runtime.states["broker-1"] = "paused"
    assert cut.verify_injected() == {"probe": "it does not answer"}


def test_a_runs_topics_are_checked_once_before_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others on the cluster are checked after the target is known; a step without a fault checks topics alone."""
    monkeypatch.setattr(phase, "capture_offsets", lambda *_: None)
    calls: list[str] = []
    world: Any = FakeWorld(tmp_path, scenario([{"kill": "A"}, {"hold": "1ms"}], load=LOAD))
    world.guard = SimpleNamespace(
        check_topics=lambda: calls.append("topics"),
        before_fault=lambda _brokers, is_first: calls.append(f"others {is_first}"),
        during=lambda faults: None,
    )
    run(tmp_path, {"kill": "A"}, {"hold": "1ms"}, world=world)
    assert calls == ["topics", "others True", "topics"]
