"""Nodes that are restarted, replaced or upgraded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.faults import phase, processes
from clusters.kafka.views import PartitionView
from tests.clusters.faults.phases import LEADER, played, run


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases without captures and time limits."""
    monkeypatch.setattr(phase, "capture_offsets", lambda _world, _label: None)
    monkeypatch.setattr(processes, "LIMIT_S", 0.0)
    monkeypatch.setattr(phase, "LEADER_LIMIT_S", 0.0)


def test_a_restart_is_a_stop_and_a_start_with_other_settings(tmp_path: Path) -> None:
    """``restart`` is a stop and a start, both verified; new settings are written before the start."""
    world: Any = run(tmp_path, {"restart": {"node": "B", "with": {"num.io.threads": 2}}})

    kinds = ("inject", "injected", "heal", "healed")
    assert [(event.kind, event.step, event.target) for event in world.seen(*kinds)] == [
        (kind, "stop", "broker-2") for kind in kinds
    ]
    assert (world.runtime.started, world.servers.settings) == (["broker-2"], {"broker-2": {"num.io.threads": "2"}})


def test_a_bounce_chases_its_role(tmp_path: Path) -> None:
    """``bounce`` looks up its role before each round, so the next leader is bounced."""
    step = {"bounce": {"node": LEADER, "times": 2, "by": "kill"}}
    world = played(tmp_path, step)
    leaders = iter([1, 1, 2])
    world.reports.partition_view = lambda partition: PartitionView(
        *partition, next(leaders), 1, [1, 2, 3], [1, 2, 3], []
    )
    run(tmp_path, step, world=world)

    assert [(event.target, event.step) for event in world.seen("inject")] == [
        ("broker-1", "kill"),
        ("broker-2", "kill"),
    ]


def test_a_crash_loop_stays_with_its_broker(tmp_path: Path) -> None:
    """``crash_loop`` kills and starts the same broker each time."""
    world = run(tmp_path, {"crash_loop": {"node": LEADER, "times": 3, "after": "10ms"}})

    assert [event.target for event in world.seen("inject")] == ["broker-1"] * 3
    assert world.runtime.started == ["broker-1"] * 3


def test_an_upgrade_can_be_taken_back(tmp_path: Path) -> None:
    """``upgrade`` replaces one node's Kafka at a time while it is down; ``rollback`` restores the run's version."""
    world: Any = run(tmp_path, {"upgrade": {"node": "followers of orders-0", "kafka": "3.9.1"}})
    assert world.servers.binaries == {"broker-2": "3.9.1", "broker-3": "3.9.1"}
    assert [event.target for event in world.seen("healed")] == ["broker-2", "broker-3"]

    waits = world.seen("condition_met", "injected")
    assert [event.kind for event in waits] == ["injected", "condition_met", "injected"]

    back: Any = run(tmp_path / "back", {"rollback": "A"})
    assert back.servers.binaries == {"broker-1": None}
