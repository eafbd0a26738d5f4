"""How long the harness waits for readers before it stops them, and what it records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from clusters.run import catch_up as module
from clusters.run.catch_up import catch_up
from history.errors import WaitTimeout
from tests.clusters.fakes import FakeWorld, scenario

GROUP = {"topic": "orders", "group": {"protocol": "classic", "members": 2, "session_timeout": "6s"}}
TOPICS = {"orders": {"partitions": 2, "replicas": ["A", "B", "C"]}}
READERS = ("consumer", "member-1", "member-2")
ENDS = {"orders-0": {"end_offset": 50, "complete": True}}


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """A group of two members and the live consumer, all running, after a final drain of 50 records."""
    found = FakeWorld(tmp_path / "a-run", scenario([{"hold": "1ms"}], load=GROUP, topics=TOPICS))
    found.folder.clients.mkdir()
    for name in READERS:
        found.runtime.states[name] = "running"
    report(found, "drain", partitions=ENDS)
    found.events.add("run_started")
    return found


def report(world: Any, name: str, **words: Any) -> None:
    """Write a client's summary."""
    folder, file = world.folder.work / name, world.folder.clients / f"{name}.json"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"summary": str(file)}))
    file.write_text(json.dumps({"client_id": name, **words}))


def at(world: Any, **positions: dict[str, int | None] | None) -> None:
    """Report each reader's position; None means that the reader is busy and reports none."""
    for name, own in positions.items():
        told = {"t_ns": 7, "polled": 1} | ({} if own is None else {"positions": own})
        report(world, name.replace("_", "-"), so_far=told)


def waited(world: Any, monkeypatch: pytest.MonkeyPatch, *looks: float) -> tuple[list[bool], Any]:
    """Return whether the wait was over at each of these seconds, and the event that it left."""
    now, over = [0.0], []

    def wait(condition: Any, *, limit_s: float, what: str, **_: Any) -> None:
        for now[0] in looks:
            over.append(condition())
            if over[-1]:
                return
        raise WaitTimeout(f"Waited {limit_s:g} s for {what}.")

    monkeypatch.setattr(module, "wait_until", wait)
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: int(now[0] * 1e9))
    catch_up(world)
    return over, next((event for event in world.seen("step", "wait_timed_out") if event.step == "catch_up"), None)


def test_readers_at_the_end_are_not_waited_for(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers at the end offset are not waited for; a member without partitions does not delay either."""
    at(world, consumer={"orders-0": 50}, member_1={"orders-0": 50}, member_2={})
    over, event = waited(world, monkeypatch, 0.0)

    assert (over, event.kind, event.detail["last_seen"]) == ([True], "step", None)
    rows = pq.read_table(world.folder.table("positions")).to_pylist()
    assert [(row["reader"], row["position"]) for row in rows] == [("consumer", 50), ("member-1", 50)]
    assert event.detail["told"] == dict.fromkeys(READERS, 7)


@pytest.mark.parametrize(
    ("positions", "seen"),
    [
        ({"consumer": {"orders-0": 20}}, "consumer at 20 of 50 in orders-0"),
        ({"consumer": {}}, "consumer at None of 50 in orders-0"),
        ({"member_1": {"orders-0": None}}, "member-1 at None of 50 in orders-0"),
        ({"member_1": {}}, "no member has orders-0"),
    ],
)
def test_a_reader_that_stands_still_is_waited_for_as_long_as_it_may(
    world: Any, monkeypatch: pytest.MonkeyPatch, positions: dict[str, Any], seen: str
) -> None:
    """A reader without progress is waited for two sessions and 32 s; the event has its position."""
    at(world, **({"consumer": {"orders-0": 50}, "member_1": {"orders-0": 50}, "member_2": {}} | positions))
    over, event = waited(world, monkeypatch, 1.0, 43.9, 44.1)

    assert over == [False, False, True]
    assert (event.kind, event.detail["last_seen"], event.detail["still_since_ns"]) == ("wait_timed_out", seen, 0)


def test_a_reader_that_moves_has_its_patience_anew(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that makes progress gets the full time again."""
    at(world, consumer={}, member_1={"orders-0": 50}, member_2={})
    looks = iter([{"orders-0": 20}, {"orders-0": 30}, {"orders-0": 30}])
    told = module._reports

    def moving(of: Any) -> Any:
        if found := next(looks, None):
            at(of, consumer=found)
        return told(of)

    monkeypatch.setattr(module, "_reports", moving)
    over, event = waited(world, monkeypatch, 10.0, 50.0)

    assert over == [False, False]
    assert event.detail["still_since_ns"] == 10 * 10**9


def test_a_busy_reader_is_not_still(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy reader that reports no position does not count as idle, and the event omits it."""
    at(world, consumer={"orders-0": 50}, member_1=None, member_2={})
    over, event = waited(world, monkeypatch, 10.0, 60.0)

    assert (over, event.detail["still_since_ns"]) == ([False, False], 60 * 10**9)
    assert set(event.detail["told"]) == {"consumer", "member-2"}


def test_without_a_drain_or_a_reader_nobody_is_waited_for(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a complete drain, or without running readers, there is no wait."""
    at(world, consumer={"orders-0": 20})
    report(world, "drain", partitions={"orders-0": {"end_offset": 50, "complete": False}})
    assert waited(world, monkeypatch) == ([], None)

    report(world, "drain", partitions=ENDS)
    for name in READERS:
        world.runtime.states[name] = "exited"
    assert waited(world, monkeypatch) == ([], None)
