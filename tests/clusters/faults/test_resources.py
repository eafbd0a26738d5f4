"""A broker that is starved of CPU time, on a world that is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.faults import resources
from clusters.run import phase
from clusters.run.actions import perform
from clusters.run.phase import PhaseRun
from tests.clusters.fakes import FakeWorld, scenario

STARVE = {"limit_cpu": {"node": "B", "cpus": 0.1}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits, no captures."""
    monkeypatch.setattr(resources, "LIMIT_S", 0.0)
    monkeypatch.setattr(phase, "capture_offsets", lambda _world, _label: None)
    monkeypatch.setattr(phase, "LEADER_LIMIT_S", 0.0)


def starved(world: Any, monkeypatch: pytest.MonkeyPatch, held_back: int) -> None:
    """Run the step; the kernel counts so many periods more once there is a quota."""
    counted = world.runtime.usage

    def usage(name: str) -> dict[str, float]:
        periods = 100 + (held_back if world.runtime.resource_limits.quotas.get(name) == "2000" else 0)
        return {**counted(name), "cpu_throttled_periods": periods}

    monkeypatch.setattr(world.runtime, "usage", usage)
    PhaseRun(world, scenario([STARVE], **world.changes).phases[0]).run(perform)


@pytest.mark.parametrize(("allowance", "quota"), [(None, "max"), ({"cpus": 0.5}, "10000")])
def test_the_kernel_shows_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowance: object, quota: str
) -> None:
    """It holds the broker back; then the quota is what the scenario allows."""
    world: Any = FakeWorld(tmp_path, scenario([STARVE], cluster={"brokers": 3, "allowance": allowance}))
    world.changes = {"cluster": world.scenario.cluster.model_dump()}
    world.runtime.resource_limits.quotas = {"broker-2": quota}
    starved(world, monkeypatch, held_back=25)

    assert world.seen("injected")[0].detail == {"effect_verified": True, "throttled_periods": [25]}
    assert world.seen("healed")[0].detail == {"recovery_verified": True, "cpu_quota": [quota], "probe": "answers"}
    assert world.runtime.resource_limits.quotas == {"broker-2": quota}


def test_a_broker_that_asks_for_less_is_not_held_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota alone is no proof."""
    world: Any = FakeWorld(tmp_path, scenario([STARVE]))
    world.changes = {}
    starved(world, monkeypatch, held_back=24)

    assert world.seen("injected")[0].detail["effect_verified"] is False
    assert "the kernel to hold broker-2 to 0.1 CPUs; last seen: 2000" in world.seen("injected")[0].detail["why"]


def test_a_broker_that_is_started_again_is_starved_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its quota went with its container; what the allowance gives comes back in the end."""
    world: Any = FakeWorld(tmp_path, scenario([STARVE]))
    asked: list[tuple[str, float | None]] = []
    monkeypatch.setattr(world.runtime.resource_limits, "limit_cpu", lambda name, cpus, _set: asked.append((name, cpus)))
    PhaseRun(world, scenario([STARVE, {"restart": "B"}, {"restart": "A"}]).phases[0]).run(perform)

    assert asked == [("broker-2", 0.1)] * 3 + [("broker-2", None)]
