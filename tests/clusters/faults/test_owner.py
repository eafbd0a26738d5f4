"""A cluster's owner upgrades its brokers, or a hook does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.faults import owner, phase
from clusters.runtimes.nodes import Node
from history.errors import WaitTimeout
from tests.clusters.fakes import FakeReports, FakeServers, FakeWorld, scenario
from tests.clusters.faults.phases import LOAD, run

ASK = {"await_upgrade": "1m"}


class OthersServers(FakeServers):
    """Brokers of others, on which hooks act."""

    def __init__(self, path: Path, told: Any) -> None:
        super().__init__(path, told)
        self.hooks: list[str] = []
        self.ran: list[tuple[str, str]] = []
        self.seen: set[str] = set()

    def has_hook(self, name: str) -> bool:
        return name in self.hooks

    def run_observed(self, hook: str, node: Node) -> None:
        self.ran.append((hook, node.name))
        self.seen.add(node.name)

    def was_silent(self, node: Node) -> bool:
        return node.name in self.seen

    def limit_s(self, _action: str) -> float:
        return 0.0

    @property
    def nodes(self) -> list[Node]:
        return list(self.brokers.values())


class OthersReports(FakeReports):
    """Reports in which brokers are ``away`` at each look, and then none."""

    away: Iterator[list[int]] = iter(())
    now: Sequence[int] = ()

    def views(self, _without: int | None = None) -> dict[int, Any]:
        self.now = next(self.away, [])
        listed = {1, 2, 3} - set(self.now)
        return {number: SimpleNamespace(brokers=listed) if number in listed else None for number in (1, 2, 3)}

    def registered(self, number: int) -> bool:
        return number not in self.now


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    """Three brokers of others; the step checks them without a pause."""
    told = scenario([ASK], load=LOAD)
    found = FakeWorld(tmp_path, told)
    monkeypatch.setattr(found, "servers", OthersServers(tmp_path, told))
    monkeypatch.setattr(found, "reports", OthersReports(found))
    monkeypatch.setattr(owner, "hooked", lambda servers: servers)
    monkeypatch.setattr(owner, "LOOK_S", 0.0)
    monkeypatch.setattr(phase, "capture_offsets", lambda *_: None)
    return found


def faults(world: FakeWorld) -> list[tuple[str, str]]:
    """Return what was recorded of each broker."""
    return [(event.kind, event.target) for event in world.seen("inject", "healed", "node_started")]


def test_the_run_goes_on_once_each_broker_was_away_and_is_back(world: Any, tmp_path: Path) -> None:
    """The run asks the owner once. Two brokers may be away together; each starts a new incarnation."""
    world.reports.away = iter([[], [2], [2], [], [1, 3], [3], []])
    run(tmp_path, ASK, world=world)

    (asked,) = world.seen("owner_asked")
    assert asked.detail["why"] == "upgrade the 3 brokers now, one after the other; this run waits 1 min"
    each = [("inject", "broker-1"), ("inject", "broker-3"), *_end("broker-1"), *_end("broker-3")]
    assert faults(world) == [("inject", "broker-2"), *_end("broker-2"), *each]
    assert world.incarnation(world.servers.brokers[3]) == 2


def _end(broker: str) -> list[tuple[str, str]]:
    return [("healed", broker), ("node_started", broker)]


def test_a_broker_that_answers_throughout_was_not_upgraded(world: Any, tmp_path: Path) -> None:
    """The run ends and names it."""
    world.reports.away = iter([[1], [], [3], []])
    with pytest.raises(WaitTimeout, match="broker-2 was never away"):
        run(tmp_path, {"await_upgrade": 0.2}, world=world)


@pytest.mark.parametrize(("listed", "away"), [({2, 3}, True), ({1, 2, 3}, False)])
def test_a_broker_that_only_this_host_cannot_reach_is_not_away(world: Any, listed: set[int], away: bool) -> None:
    """The others list it; and one that answers is not away, whatever they list."""
    broker = owner.Replaced(world.servers, world.reports, world.servers.brokers[1])
    views: dict[int, Any] = {1: None, 2: SimpleNamespace(brokers=listed), 3: None}

    assert broker.is_away(views) is away
    assert not broker.is_away(views | {1: SimpleNamespace(brokers={1})})
    assert not broker.is_away(dict.fromkeys((1, 2, 3)))


def test_the_hook_upgrades_one_broker_after_the_other(world: Any, tmp_path: Path) -> None:
    """The run does not ask the owner."""
    world.servers.hooks = ["upgrade"]
    run(tmp_path, ASK, world=world)

    assert world.servers.ran == [("upgrade", f"broker-{number}") for number in (1, 2, 3)]
    assert [kind for kind, _ in faults(world)] == ["inject", "healed", "node_started"] * 3
    assert world.seen("owner_asked") == []
