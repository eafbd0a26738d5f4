"""Killing the copier, on a fake world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusters.faults import copier
from clusters.faults.copier import KilledCopier
from clusters.runtimes.nodes import Node
from history.errors import WaitTimeout
from tests.clusters.fakes import FakeWorld, scenario


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A running copier that has copied; waits time out at once."""
    monkeypatch.setattr(copier, "LIMIT_S", 0.0)
    monkeypatch.setattr(copier, "client_node", lambda _, name: Node(name, name, "127.9.9.9", tmp_path, "python", ()))
    found = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    found.runtime.states["copier"] = "running"
    told = found.folder.work / "copier" / "config.json"
    for folder in (found.folder.clients, told.parent):
        folder.mkdir(parents=True, exist_ok=True)
    told.write_text(json.dumps({"summary": str(found.folder.clients / "copier.json")}))
    _says(found, 7)
    return found


def _says(world: Any, ready_ns: int | None) -> None:
    (world.folder.clients / "copier.json").write_text(json.dumps({"ready_ns": ready_ns}))


def test_a_killed_copier_has_ended_and_copies_again(world: Any) -> None:
    """A killed copier has ended, and has recovered only when the new process writes its own summary."""
    fault = KilledCopier(world)

    fault.inject()
    assert fault.verify_injected() == {"process": "ended"}
    fault.heal()
    assert world.runtime.started == ["copier"]
    with pytest.raises(WaitTimeout):
        fault.verify_cleared()
    _says(world, 9)
    assert fault.verify_cleared() == {"copies": True}


def test_a_copier_that_lives_on_was_not_killed(world: Any) -> None:
    """If the copier survives the kill, the fault's effect is not verified."""
    world.runtime.stubborn.add("copier")
    fault = KilledCopier(world)
    fault.inject()

    with pytest.raises(WaitTimeout, match="the copier to end"):
        fault.verify_injected()
