"""A follower that trails its leader."""

from __future__ import annotations

from typing import Any

from clusters.faults.lagging import (
    LagFault,
    Observation,
)
from tests.clusters.fakes import T0


def fault(world: Any, records: int | None = 2000) -> LagFault:
    """Return a lag of broker 3."""
    return LagFault(world, world.servers.brokers[3], T0, records, "lag" if records else "slow")


def seen(lag: int, *, in_isr: bool = True, held: bool = True) -> Observation:
    """Return an observation as the probes would make it during a lag."""
    return Observation(0, lag, leader_hw=0 if held else lag, leader_leo=lag, follower_leo=0, in_isr=in_isr)
