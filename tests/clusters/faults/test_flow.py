"""Steps without faults, on a fake world."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from clusters.faults import flow, phase
from clusters.faults.phase import PhaseRun
from clusters.scenario.steps.catalog import STEPS
from clusters.scenario.steps.flow import Hold, Write
from clusters.waiting import wait_until
from history.errors import WaitTimeout
from tests.clusters.fakes import FakeWorld, scenario


@pytest.fixture(autouse=True)
def no_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets are not captured."""
    monkeypatch.setattr(phase, "capture_offsets", lambda *_: None)


def run(path: Path, *told: dict[str, Any], world: FakeWorld | None = None) -> FakeWorld:
    """Run one phase of these steps; return the world."""
    played: Any = world or FakeWorld(path, scenario(list(told), load={"topic": "orders"}))
    PhaseRun(played, played.scenario.phases[0]).run()
    return played  # type: ignore[no-any-return]  # it plays a World


def test_every_step_is_performed() -> None:
    """Each step of the scenario language has an action."""
    assert phase.actions().keys() == set(STEPS.values())


def test_an_offer_is_recorded_with_the_moment_it_holds_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event of a rate change has the time that the producer reported."""
    monkeypatch.setattr(flow, "set_rate", lambda _world, _load, rate: {"rate_per_s": rate, "from_ns": 77})
    world = run(tmp_path, {"set_rate": "3000/s"})

    assert [(event.step, event.target, event.detail) for event in world.seen("rate_set")] == [
        ("set_rate", "producer", {"rate_per_s": 3000.0, "from_ns": 77})
    ]


def test_what_left_the_page_cache_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``drop_cache`` drops the data of all three brokers and is recorded as one event."""
    dropped: list[Path] = []
    monkeypatch.setattr(flow.page_cache, "drop", lambda folders: dropped.extend(folders) or {"after_bytes": 0})

    world = run(tmp_path, {"drop_cache": "all"})

    assert dropped == [node.folder / "data" for node in world.servers.brokers.values()]
    assert [event.detail for event in world.seen("cache_dropped")] == [{"after_bytes": 0}]


def test_a_write_in_the_background_does_not_hold_up_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A background write does not delay the next steps; the phase waits for it at its end."""
    begun, may_end, order = threading.Event(), threading.Event(), []

    def write(*_: object) -> None:
        begun.set()
        assert may_end.wait(10)
        order.append("written")

    def hold(*_: object) -> None:
        assert begun.wait(10)
        order.append("held")
        may_end.set()

    monkeypatch.setattr(flow, "write_directly", write)
    monkeypatch.setitem(phase.ACTIONS, Hold, hold)
    told = {"to": "A", "topic": "orders", "records": 1, "background": True}
    run(tmp_path, {"write": told}, {"hold": "1ms"})

    assert order == ["held", "written"]


def test_what_fails_in_the_background_fails_the_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in background work fails the phase after faults are healed and the reader has stopped."""

    def write(*_: object) -> None:
        raise WaitTimeout("no broker")

    class Reader:
        """Reads nothing, and runs until its stop event is set."""

        def __init__(self, *_: object) -> None:
            self.stop = threading.Event()

        def run(self) -> None:
            stopped.append(self.stop.wait(10))

    stopped: list[bool] = []
    monkeypatch.setattr(flow, "write_directly", write)
    monkeypatch.setattr(flow, "ReplicaReader", Reader)
    told = {"to": "A", "topic": "orders", "records": 1, "background": True}
    world = FakeWorld(tmp_path, scenario([{"write": told}, {"read": {"from": "C of orders-0"}}, {"pause": "B"}]))

    with pytest.raises(WaitTimeout, match="no broker"):
        run(tmp_path, world=world)
    wait_until(lambda: stopped == [True], limit_s=5, what="the reader to end, too")
    assert [(e.step, e.target) for e in world.seen("healed")] == [("pause", "broker-2")]


def test_a_reader_reads_until_its_phase_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader reads until its phase ends, from the replica chosen when the step began."""

    class Reader:
        """Reads nothing."""

        def __init__(self, _world: object, node: Any, step: Any) -> None:
            self.stop = threading.Event()
            seen.append((node.name, step.offset))

        def run(self) -> None:
            seen.append(self.stop.wait(10))

    seen: list[Any] = []
    monkeypatch.setattr(flow, "ReplicaReader", Reader)
    run(tmp_path, {"read": {"from": "follower of orders-0", "offset": 20}}, {"hold": "1ms"})

    assert seen == [("broker-3", 20), True]


def test_a_write_in_the_background_ends_with_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A background write is stopped at its limit, even after its phase's other steps."""
    went_on: list[bool] = []

    def write(_world: object, _node: object, _step: object, _phase: str, go_on: Any) -> None:
        went_on.append(go_on())
        wait_until(lambda: not go_on(), limit_s=10, what="the limit")

    monkeypatch.setattr(flow, "write_directly", write)
    monkeypatch.setattr(Write, "limit_s", 0.01)
    told = {"to": "A", "topic": "orders", "records": 1, "background": True}
    run(tmp_path, {"write": told}, {"hold": "1ms"})

    assert went_on == [True]


@pytest.mark.parametrize(("limit_s", "goes_on"), [(5.0, True), (0.0, False)])
def test_a_write_is_given_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float, goes_on: bool
) -> None:
    """A write stops when its limit has passed."""
    asked: list[bool] = []
    monkeypatch.setattr(Write, "limit_s", limit_s)
    monkeypatch.setattr(flow, "write_directly", lambda *told: asked.append(told[-1]()))
    run(tmp_path, {"write": {"to": "A", "topic": "orders", "records": 1}})

    assert asked == [goes_on]
