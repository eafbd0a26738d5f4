"""A broker with little CPU time or a slow disk, on a fake world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.faults import phase, resources
from clusters.faults.phase import PhaseRun
from tests.clusters.fakes import FakeWorld, scenario

FLUSHED = {"orders": {"replicas": ["A", "B", "C"], "config": {"flush.messages": 1}}}
SLOW_DISK = {"slow_disk": {"node": "B", "rate": "200kB/s"}}
STARVE = {"limit_cpu": {"node": "B", "cpus": 0.1}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait limits of 0 s; captures are skipped."""
    monkeypatch.setattr(resources, "LIMIT_S", 0.0)
    monkeypatch.setattr(phase, "capture_offsets", lambda _world, _label: None)
    monkeypatch.setattr(phase, "LEADER_LIMIT_S", 0.0)


def starved(world: Any, monkeypatch: pytest.MonkeyPatch, held_back: int) -> None:
    """Run the step; with a quota, the kernel counts this many more throttled periods."""
    counted = world.runtime.usage

    def usage(name: str) -> dict[str, float]:
        periods = 100 + (held_back if world.runtime.resource_limits.quotas.get(name) == "2000" else 0)
        return {**counted(name), "cpu_throttled_periods": periods}

    monkeypatch.setattr(world.runtime, "usage", usage)
    PhaseRun(world, scenario([STARVE], **world.changes).phases[0]).run()


@pytest.mark.parametrize(("resource_limits", "quota"), [(None, "max"), ({"cpus": 0.5}, "10000")])
def test_the_kernel_shows_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resource_limits: object, quota: str
) -> None:
    """Starving is proven by throttled periods, and its end by the original quota."""
    world: Any = FakeWorld(tmp_path, scenario([STARVE], cluster={"brokers": 3, "resource_limits": resource_limits}))
    world.changes = {"cluster": world.scenario.cluster.model_dump()}
    world.runtime.resource_limits.quotas = {"broker-2": quota}
    starved(world, monkeypatch, held_back=25)

    assert world.seen("injected")[0].detail == {"effect_verified": True, "throttled_periods": [25]}
    assert world.seen("healed")[0].detail == {"recovery_verified": True, "cpu_quota": [quota], "probe": "answers"}
    assert world.runtime.resource_limits.quotas == {"broker-2": quota}


def test_a_broker_that_asks_for_less_is_not_held_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota without enough throttled periods does not prove starving."""
    world: Any = FakeWorld(tmp_path, scenario([STARVE]))
    world.changes = {}
    starved(world, monkeypatch, held_back=24)

    assert world.seen("injected")[0].detail["effect_verified"] is False
    assert "the kernel to hold broker-2 to 0.1 CPUs; last seen: 2000" in world.seen("injected")[0].detail["why"]


def test_a_broker_that_is_started_again_is_starved_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted broker gets the starving quota again, since its container is new; the end restores the original."""
    world: Any = FakeWorld(tmp_path, scenario([STARVE]))
    asked: list[tuple[str, float | None]] = []
    monkeypatch.setattr(world.runtime.resource_limits, "limit_cpu", lambda name, cpus, _set: asked.append((name, cpus)))
    PhaseRun(world, scenario([STARVE, {"restart": "B"}, {"restart": "A"}]).phases[0]).run()

    assert asked == [("broker-2", 0.1)] * 3 + [("broker-2", None)]


def slowed(world: Any, *more: dict[str, Any]) -> None:
    """Run ``slow_disk`` and these steps in one phase."""
    PhaseRun(world, scenario([SLOW_DISK, *more], topics=FLUSHED).phases[0]).run()


def test_a_flushed_write_shows_a_slow_disk(tmp_path: Path) -> None:
    """A slow disk is proven by a flushed write of one second's bytes that takes 1 s; recovery, by the lifted limit."""
    world: Any = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    slowed(world)

    assert world.seen("injected")[0].detail == {
        "effect_verified": True,
        "write_bytes": 200_000,
        "before_s": [0.0],
        "write_s": [1.0],
    }
    assert world.seen("healed")[0].detail == {"recovery_verified": True, "disk_write": [""], "probe": "answers"}
    assert world.runtime.resource_limits.disk_rates == {}


@pytest.mark.parametrize(("disk_rate", "verified"), [(410_000, True), (390_000, False)])
def test_a_disk_that_was_as_slow_before_shows_nothing(tmp_path: Path, disk_rate: float, verified: bool) -> None:
    """A slow disk is not proven unless the flushed write takes twice as long as without the limit."""
    world: Any = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    world.runtime.resource_limits.disk_rate = disk_rate
    slowed(world)

    assert world.seen("injected")[0].detail["effect_verified"] is verified


def test_a_limit_that_holds_nothing_back_is_no_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk is not proven if the flushed write is fast, even if the kernel lists the limit."""
    world: Any = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    monkeypatch.setattr(world.runtime.resource_limits, "time_write", lambda _node, _size: 0.01)
    slowed(world)

    told = world.seen("injected")[0].detail
    assert told["effect_verified"] is False
    assert "a flushed write of 200000 bytes to the disk of broker-2 to take 1.0 s, not 0.01 s" in told["why"]
    assert told["why"].endswith("last seen: 254:0 200000.")


def test_the_disk_of_a_broker_that_is_started_again_stays_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk limit is set again when the broker restarts, since its container is new."""
    world: Any = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    asked: list[float | None] = []
    monkeypatch.setattr(world.runtime.resource_limits, "limit_disk", lambda _node, rate: asked.append(rate))
    slowed(world, {"restart": "B"})

    assert asked == [200_000, 200_000, None]
