"""A phase of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.faults.phase import PhaseRun
from tests.clusters.fakes import FakeWorld, scenario

LEADER = "leader of orders-0"
LOAD = {"topic": "orders"}


def run(path: Path, *told: dict[str, Any], world: FakeWorld | None = None) -> FakeWorld:
    """Run one phase of these steps; return the world."""
    drawn = scenario(list(told), load=LOAD)
    played: Any = world or FakeWorld(path, drawn)
    PhaseRun(played, drawn.phases[0]).run()
    return played  # type: ignore[no-any-return]  # it plays a World


def played(path: Path, *steps: dict[str, Any], mode: str = "kraft") -> Any:
    """Return a world in this mode that will run these steps."""
    return FakeWorld(path, scenario(list(steps), load=LOAD), mode)
