"""Steps for the network, leadership and background work, on a fake world."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from clusters.faults import network
from clusters.kafka import admin
from clusters.run import actions, phase
from clusters.run.actions import perform
from clusters.run.phase import PhaseRun
from clusters.scenario.steps.flow import Hold
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from history.partition import TopicPartition
from tests.clusters.fakes import T0, FakeWorld, scenario


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of 0 s, and no captures."""
    monkeypatch.setattr(phase, "capture_offsets", lambda *_: None)
    monkeypatch.setattr(network, "LIMIT_S", 0.0)
    monkeypatch.setattr(actions, "LEAD_LIMIT_S", 0.0)
    monkeypatch.setattr(FakeWorld, "connection", lambda _self, number: number, raising=False)


def run(path: Path, *told: dict[str, Any], world: FakeWorld | None = None) -> FakeWorld:
    """Run one phase of these steps, with a kernel that always drops and passes packets; return the world."""
    played: Any = world or FakeWorld(path, scenario(list(told)))
    played.runtime.network.drops = 5
    played.runtime.network.passed = dict.fromkeys(played.runtime.states, 7)
    PhaseRun(played, played.scenario.phases[0]).run(perform)
    return played  # type: ignore[no-any-return]  # it plays a World


def kinds(world: FakeWorld) -> list[tuple[str, str, str]]:
    """Return the injected and healed events, in order."""
    return [(e.kind, e.step, e.target) for e in world.seen("injected", "healed")]


# --- cut and join ------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["both", "in", "answers"])
def test_a_join_ends_the_cut_from_the_same_others(tmp_path: Path, direction: str) -> None:
    """``reconnect`` ends the cut from the same peers in any direction; another cut stays until the phase ends."""
    world = run(
        tmp_path,
        {"disconnect": {"node": "A", "from": ["B", "C"], "direction": direction}},
        {"disconnect": {"node": "A", "from": "clients"}},
        {"reconnect": {"node": "A", "from": ["B", "C"]}},
        {"hold": "1ms"},
    )

    events = [(e.kind, e.step) for e in world.seen("inject", "heal", "step")]
    assert events[-4:] == [("step", "reconnect"), ("heal", "disconnect"), ("step", "hold"), ("heal", "disconnect")]
    assert [e.detail["packets"] for e in world.seen("healed")] == [5, 5]
    assert world.runtime.network.rules == {}


@pytest.mark.parametrize("others", ["C", ["B", "C"], "clients"])
def test_a_join_with_others_ends_nothing(tmp_path: Path, others: object) -> None:
    """``reconnect`` with other peers than the cut's is an error."""
    with pytest.raises(HarnessError, match="broker-1 has no disconnect active to end"):
        run(tmp_path, {"disconnect": {"node": "A", "from": "B"}}, {"reconnect": {"node": "A", "from": others}})


def test_others_may_be_roles(tmp_path: Path) -> None:
    """Roles can be peers; each is every broker that has the role."""
    world = FakeWorld(
        tmp_path, scenario([{"disconnect": {"node": "leader of orders-0", "from": "followers of orders-0"}}])
    )
    asked: list[str] = []
    kernel: Any = world.runtime.network
    drop = kernel.drop_packets
    kernel.drop_packets = lambda node, rule, matches: (asked.extend(matches), drop(node, rule, matches))
    run(tmp_path, world=world)

    assert [match.split()[1] for match in asked if "-d 127.9.9.1 " in match] == ["127.9.9.2"] * 2 + ["127.9.9.3"] * 2


def test_several_are_cut_as_one(tmp_path: Path) -> None:
    """Several brokers are cut as one fault: each of one side from each of the other, and no broker from itself."""
    halves = {"node": "followers of orders-0", "from": ["A", "C"]}
    world = run(
        tmp_path,
        {"disconnect": halves},
        {"reconnect": halves},
        {"disconnect": {"node": "brokers", "from": "C"}},
        {"hold": "1ms"},
    )

    assert [(e.kind, e.target, e.detail["packets"]) for e in world.seen("injected", "healed")] == [
        ("injected", "broker-2, broker-3", 10),
        ("healed", "broker-2, broker-3", 10),
        ("injected", "broker-1, broker-2", 10),
        ("healed", "broker-1, broker-2", 10),
    ]
    assert world.runtime.network.rules == {}


# --- shape and lose ----------------------------------------------------------------------------


def test_traffic_is_limited_until_it_is_not(tmp_path: Path) -> None:
    """Without senders, ``limit_bandwidth`` limits all other brokers until ``restore_bandwidth``."""
    world = run(
        tmp_path, {"limit_bandwidth": {"into": "A", "rate": "1MB/s"}}, {"restore_bandwidth": "A"}, {"hold": "1ms"}
    )

    assert [e.detail for e in world.seen("injected")] == [{"effect_verified": True, "passed_bytes": 14}]
    assert [e.kind for e in world.seen("heal", "step")][-2:] == ["heal", "step"]
    assert world.runtime.network.limits_into == {"broker-1": None}


def test_a_limit_is_not_put_on_a_limit(tmp_path: Path) -> None:
    """A second limit or delay on traffic into the same broker is an error: the kernel has one class for both."""
    with pytest.raises(HarnessError, match="The traffic into broker-1 is limited or delayed already"):
        run(
            tmp_path,
            {"limit_bandwidth": {"into": "A", "rate": "1MB/s"}},
            {"limit_bandwidth": {"into": "A", "from": "B", "rate": "2MB/s"}},
        )


def test_a_delay_ends_with_its_phase(tmp_path: Path) -> None:
    """A delay affects the named senders only and ends with its phase."""
    world = run(tmp_path, {"delay": {"into": "A", "from": "B", "by": "100ms"}})

    assert kinds(world) == [("injected", "delay", "broker-1"), ("healed", "delay", "broker-1")]
    assert world.runtime.network.delays == {("broker-1", "broker-2"): 0.1}


def test_packets_overtake_until_the_phase_ends(tmp_path: Path) -> None:
    """Reordering holds back a share of packets until the phase ends; it excludes a delay into the same broker."""
    world = run(tmp_path, {"reorder": {"into": "A", "from": "B", "percent": 25}})

    assert kinds(world) == [("injected", "reorder", "broker-1"), ("healed", "reorder", "broker-1")]
    assert (world.runtime.network.delays, world.runtime.network.overtaking) == ({("broker-1", "broker-2"): 0.01}, 25)
    (tmp_path / "both").mkdir()
    with pytest.raises(HarnessError, match="The traffic into broker-1 is limited or delayed already"):
        run(tmp_path / "both", {"delay": {"into": "A", "by": "1ms"}}, {"reorder": {"into": "A", "percent": 25}})


def test_a_loss_ends_with_its_phase(tmp_path: Path) -> None:
    """Packet loss ends with its phase."""
    world = run(tmp_path, {"lose": {"into": "A", "from": "B", "percent": 5}})

    assert kinds(world) == [("injected", "lose", "broker-1"), ("healed", "lose", "broker-1")]


# --- lead --------------------------------------------------------------------------------------


def leads(world: FakeWorld, monkeypatch: pytest.MonkeyPatch, elected: bool = True) -> list[Any]:
    """Let the brokers apply reassignments and elections; return the requests."""
    asked: list[Any] = []
    order, leader = [1, 2, 3], 1
    view = world.partition_view(T0)
    assert view is not None

    def reassign(_connection: object, assignment: Mapping[TopicPartition, Sequence[int]]) -> None:
        nonlocal order
        asked.append(dict(assignment))
        order = list(assignment[T0])

    def elect(_connection: object, partitions: Sequence[TopicPartition]) -> None:
        nonlocal leader
        asked.append(list(partitions))
        leader = order[0] if elected else leader

    monkeypatch.setattr(admin, "reassign", reassign)
    monkeypatch.setattr(admin, "elect_preferred", elect)
    monkeypatch.setattr(
        world, "partition_view", lambda _: type(view)(**{**vars(view), "leader": leader, "replicas": order})
    )
    monkeypatch.setattr(actions, "LEAD_LIMIT_S", 5.0 if elected else 0.0)
    return asked


def test_a_replica_is_put_first_and_then_elected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``transfer_leadership`` puts the replica first, keeps the order of the others, and runs a preferred election."""
    world = FakeWorld(tmp_path, scenario([{"transfer_leadership": "C of orders-0"}]))
    asked = leads(world, monkeypatch)
    run(tmp_path, world=world)

    assert asked == [{T0: [3, 1, 2]}, [T0]]
    led = {"before": {"orders-0": [1, 1]}, "after": {"orders-0": [3, 1]}}
    assert [(e.step, e.target, e.detail) for e in world.seen("elected")] == [
        ("transfer_leadership", "C of orders-0", {"refused": None, "led": led})
    ]


def test_one_that_is_not_elected_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the replica is not elected, the event has the reason and the phase continues."""
    world = FakeWorld(tmp_path, scenario([{"transfer_leadership": "C of orders-0"}, {"hold": "1ms"}]))
    leads(world, monkeypatch, elected=False)
    run(tmp_path, world=world)

    (event,) = world.seen("elected")
    assert "Waited 0 s for broker 3 to lead orders-0" in event.detail["refused"]
    assert [e.step for e in world.seen("step")] == ["transfer_leadership", "hold"]


def test_who_has_no_replica_cannot_lead(tmp_path: Path) -> None:
    """``transfer_leadership`` to a broker without a replica is an error: a reassignment would be another experiment."""
    told = scenario([{"transfer_leadership": "D of orders-0"}], cluster={"brokers": 4})

    with pytest.raises(HarnessError, match="Broker 4 has no known replica of orders-0 that could lead"):
        run(tmp_path, world=FakeWorld(tmp_path, told))


# --- in the background -------------------------------------------------------------------------


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

    monkeypatch.setattr(actions, "write_directly", write)
    monkeypatch.setitem(actions.ACTIONS, Hold, hold)
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
    monkeypatch.setattr(actions, "write_directly", write)
    monkeypatch.setattr(actions, "ReplicaReader", Reader)
    told = {"to": "A", "topic": "orders", "records": 1, "background": True}
    world = FakeWorld(tmp_path, scenario([{"write": told}, {"read": {"from": "C of orders-0"}}, {"pause": "B"}]))

    with pytest.raises(WaitTimeout, match="no broker"):
        run(tmp_path, world=world)
    wait_until(lambda: stopped == [True], limit_s=5, what="the reader to end, too")
    assert kinds(world)[-1] == ("healed", "pause", "broker-2")


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
    monkeypatch.setattr(actions, "ReplicaReader", Reader)
    run(tmp_path, {"read": {"from": "follower of orders-0", "offset": 20}}, {"hold": "1ms"})

    assert seen == [("broker-3", 20), True]


def test_a_write_in_the_background_ends_with_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A background write is stopped at its limit, even after its phase's other steps."""
    went_on: list[bool] = []

    def write(_world: object, _node: object, _step: object, _phase: str, go_on: Any) -> None:
        went_on.append(go_on())
        wait_until(lambda: not go_on(), limit_s=10, what="the limit")

    monkeypatch.setattr(actions, "write_directly", write)
    monkeypatch.setattr(actions, "write_limit_s", lambda _: 0.01)
    told = {"to": "A", "topic": "orders", "records": 1, "background": True}
    run(tmp_path, {"write": told}, {"hold": "1ms"})

    assert went_on == [True]


@pytest.mark.parametrize(("limit_s", "goes_on"), [(5.0, True), (0.0, False)])
def test_a_write_is_given_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float, goes_on: bool
) -> None:
    """A write stops when its limit has passed."""
    asked: list[bool] = []
    monkeypatch.setattr(actions, "write_limit_s", lambda _: limit_s)
    monkeypatch.setattr(actions, "write_directly", lambda *told: asked.append(told[-1]()))
    run(tmp_path, {"write": {"to": "A", "topic": "orders", "records": 1}})

    assert asked == [goes_on]
