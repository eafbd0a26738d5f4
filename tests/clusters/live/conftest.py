"""A prepared run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.live.servers import PREFIX
from clusters.live.world import World
from tests.clusters.fakes import FakeRuntime, plan_of, scenario, write_plan


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The world of a prepared run with three brokers, with reserved addresses and a fake runtime."""
    told = scenario([{"hold": 1}], topics={"orders": {"partitions": 2, "replicas": ["B", "A", "C"]}})
    write_plan(tmp_path, plan_of(told))
    (tmp_path / "work" / PREFIX).write_text("127.30.7")
    opened = World(tmp_path)
    runtime: Any = FakeRuntime(["controller", "broker-1", "broker-2", "broker-3"])
    opened.__dict__["runtime"] = runtime  # in the place of the cached one
    return opened
