"""A world to inject faults into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clusters.fakes import FakeWorld, scenario


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """Three brokers under 1,000 records a second, as local processes; replica.lag.time.max.ms is 3 s."""
    cluster = {"brokers": 3, "session_timeout": "9s", "config": {"replica.lag.time.max.ms": 3000}}
    told = scenario([{"hold": 1}], cluster=cluster, load={"topic": "orders", "rate": "1000/s"})
    played: Any = FakeWorld(tmp_path, told)
    played.runtime.network = None
    return played
