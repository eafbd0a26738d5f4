"""Faults of members of a consumer group, on a world that is played."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.clients.nodes import last_poll
from clusters.faults import members, processes
from clusters.faults.members import KilledMember, PausedMember, StoppedMember
from clusters.runtimes.nodes import Node
from history.errors import WaitTimeout
from tests.clusters.fakes import FakeWorld, scenario


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A member that polls; nothing is waited for."""
    monkeypatch.setattr(processes, "LIMIT_S", 0.0)
    found = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    monkeypatch.setattr(found, "describe_node", lambda node: node.name)
    return found


@pytest.fixture
def polls(world: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether the member polls, has ended and is ready, as files and process show; a look takes over a second."""
    seen = {"polls": True, "ended": False, "ready": True}
    alive = world.folder.work / "member-1" / "alive"
    alive.parent.mkdir()
    alive.touch()
    now_s = 0.0

    def look(of: Any, name: str) -> int:
        nonlocal now_s
        now_s += members.SILENT_S + 0.1
        if seen["polls"]:
            os.utime(alive, ns=(0, alive.stat().st_mtime_ns + 10**8))
        return last_poll(of, name)

    monkeypatch.setattr(members, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(members, "last_poll", look)
    monkeypatch.setattr(members, "has_ended", lambda _world, _name: seen["ended"])
    monkeypatch.setattr(members, "is_ready", lambda _world, _name: seen["ready"])
    return seen


NODE = Node("member-1", "member", "127.0.0.9", Path(), "python", ())


@pytest.mark.parametrize("fault", [KilledMember, StoppedMember])
def test_the_end_of_a_member_is_proven_by_its_silence(world: Any, polls: dict[str, bool], fault: Any) -> None:
    """It is back when it polls and was given partitions."""
    ended = fault(world, [NODE])
    polls |= {"ended": True}
    with pytest.raises(WaitTimeout, match="member-1 to poll no more"):
        ended.verify_injected()

    polls |= {"polls": False}
    assert ended.verify_injected() == {"member": "polls no more"}
    with pytest.raises(WaitTimeout, match="member-1 to poll and get partitions"):
        ended.verify_cleared()

    polls |= {"polls": True}
    assert ended.verify_cleared() == {"member": "polls", "assigned": True}


def test_a_paused_member_polls_no_more(world: Any, polls: dict[str, bool]) -> None:
    """And again once it is resumed."""
    paused = PausedMember(world, [NODE])
    with pytest.raises(WaitTimeout):
        paused.verify_injected()
    assert paused.verify_cleared() == {"member": "polls"}

    polls |= {"polls": False}
    assert paused.verify_injected() == {"member": "polls no more"}
    with pytest.raises(WaitTimeout):
        paused.verify_cleared()


@pytest.mark.parametrize("set_by_s", [3600, -3600])
def test_the_hosts_clock_may_be_set(world: Any, polls: dict[str, bool], set_by_s: int) -> None:
    """By an hour since a member's last poll: whether it polls is not seen by how far that is from now."""
    alive = world.folder.work / "member-1" / "alive"
    os.utime(alive, (time.time() + set_by_s,) * 2)
    paused = PausedMember(world, [NODE])
    assert paused.verify_cleared() == {"member": "polls"}
    with pytest.raises(WaitTimeout, match="member-1 to poll no more"):
        paused.verify_injected()

    polls |= {"polls": False}
    assert paused.verify_injected() == {"member": "polls no more"}
    with pytest.raises(WaitTimeout, match="member-1 to poll again"):
        paused.verify_cleared()
