"""One phase: targets, faults and waits, on a fake world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.faults import network, phase, processes
from clusters.faults.phase import PhaseRun
from clusters.kafka.views import PartitionView
from clusters.live import disk_space
from clusters.live.disk_space import DiskSpace
from clusters.runtimes.nodes import Node
from history.errors import HarnessError
from history.partition import TopicPartition
from tests.clusters.fakes import T0, FakeWorld, scenario
from tests.clusters.faults.phases import LEADER, LOAD, played, run


@pytest.fixture(autouse=True)
def captures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Limits of 0 s; lists the labels of captures instead of making them."""
    made: list[str] = []
    monkeypatch.setattr(phase, "capture_offsets", lambda _world, label: made.append(label))
    monkeypatch.setattr(processes, "LIMIT_S", 0.0)
    monkeypatch.setattr(phase, "LEADER_LIMIT_S", 0.0)
    return made


@pytest.mark.parametrize("by_itself", [True, False])
def test_a_server_that_ends_by_itself_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_itself: bool
) -> None:
    """A server that exits by itself during a step is recorded once; one that a fault ended is not."""
    world, look = FakeWorld(tmp_path, scenario([{"kill": "A"}, {"hold": "1ms"}], load=LOAD)), DiskSpace.check
    world.runtime.statuses["broker-2"] = 137

    def check(self: DiskSpace) -> None:
        look(self)
        if by_itself:
            world.runtime.states["broker-2"] = "exited"

    monkeypatch.setattr(DiskSpace, "check", check)
    monkeypatch.setattr(phase, "died", lambda _: [])
    run(tmp_path, {"kill": "A"}, {"hold": "1ms"}, world=world)

    found = [(e.target, e.detail["incarnation"], e.detail["exit_status"]) for e in world.seen("server_exited")]
    assert found == ([("broker-2", 1, 137)] if by_itself else [])


def test_a_target_is_bound_once_per_phase(tmp_path: Path) -> None:
    """A target is bound once per phase: ``start: leader`` means the broker that was killed as leader."""
    world = run(tmp_path, {"kill": LEADER}, {"wait": {"for": {"leader_changed": "orders"}}}, {"start": LEADER})

    assert [(e.kind, e.step, e.target) for e in world.seen("inject", "injected", "heal", "healed")] == [
        ("inject", "kill", "broker-1"),
        ("injected", "kill", "broker-1"),
        ("heal", "kill", "broker-1"),
        ("healed", "kill", "broker-1"),
    ]
    assert [event.detail["condition"] for event in world.seen("condition_met")] == ["leader changed: orders"]
    assert world.runtime.started == ["broker-1"]


@pytest.mark.parametrize("step", [{"hold": "60m"}, {"wait": {"for": {"isr_full": "orders"}, "limit": "60m"}}])
def test_a_full_disk_ends_the_phase_and_heals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any]
) -> None:
    """A full disk ends a step of any length and fails the phase; active faults are healed."""
    free = iter([1 << 40, 1 << 40, *[0] * 1000])
    monkeypatch.setattr(disk_space, "EVERY_S", 0.0)
    monkeypatch.setattr(phase, "EVERY_S", 0.0)
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    world = FakeWorld(tmp_path, scenario([{"kill": LEADER}, step], load=LOAD))

    with pytest.raises(HarnessError, match=r"The disk of .* is full: 0 MB are free.*free space on that disk"):
        run(tmp_path, {"kill": LEADER}, step, world=world)
    assert [event.step for event in world.seen("step")] == ["kill", *step]
    assert [event.step for event in world.seen("healed")] == ["kill"]


@pytest.mark.parametrize("steps", [[], [{"hold": "60m"}], [{"wait": {"for": {"isr_full": "orders"}, "limit": "60m"}}]])
def test_a_client_that_dies_ends_the_phase_and_heals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[dict[str, Any]]
) -> None:
    """A dead client ends a phase before or during a step; active faults are healed."""
    looks = iter([[], []] if steps else [[]])
    dead = Node("prober", "prober", "", tmp_path)
    monkeypatch.setattr(phase, "LOOKED_EVERY_S", 0.0)
    monkeypatch.setattr(phase, "EVERY_S", 0.0)
    monkeypatch.setattr(phase, "died", lambda _: next(looks, [dead]))
    told = [{"kill": LEADER}, *steps, {"start": LEADER}]
    world = FakeWorld(tmp_path, scenario(told, load=LOAD))

    with pytest.raises(HarnessError, match=r"A client died: prober is absent, its log ends: \(no log\)\.$"):
        run(tmp_path, *told, world=world)
    assert [event.step for event in world.seen("step")] == ["kill", *(step for each in steps for step in each)]
    assert [event.step for event in world.seen("healed")] == ["kill"]


def test_a_client_that_a_fault_ended_has_not_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that a fault killed does not count as dead until it is started again."""
    monkeypatch.setattr(phase, "LOOKED_EVERY_S", 0.0)
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    ended = [node for node in world.servers.nodes if node.name == "broker-1"]
    monkeypatch.setattr(phase, "died", lambda _: ended if world.runtime.state("broker-1") == "exited" else [])
    run(tmp_path, {"kill": "A"}, {"hold": "10ms"}, {"start": "A"}, {"hold": "10ms"}, world=world)

    assert [event.step for event in world.seen("step")] == ["kill", "hold", "start", "hold"]


@pytest.mark.parametrize(("fault", "carried"), [("kill", ["broker-1"]), ("stop", ["broker-1"]), ("pause", [])])
def test_what_an_ended_broker_used_is_read_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, carried: list[str]
) -> None:
    """Usage of a broker is read before a fault ends it; a paused broker keeps its process."""
    read: list[str] = []
    world = FakeWorld(tmp_path, scenario([{fault: LEADER}], load=LOAD))
    monkeypatch.setattr(phase, "carry_usage", lambda w, nodes: read.extend(n.name for n in nodes if not seen(w)))

    def seen(played: FakeWorld) -> bool:
        return played.folder.events.exists() and bool(played.seen("inject"))

    run(tmp_path, {fault: LEADER}, world=world)
    assert read == carried


def test_balanced_is_led_by_the_first_replica(tmp_path: Path) -> None:
    """``balanced`` holds if each partition's first replica leads, and times out while that broker is down."""
    balanced = {"wait": {"for": {"balanced": "orders"}, "limit": "1ms"}}
    world = run(tmp_path, balanced, {"kill": LEADER}, balanced)

    assert [event.kind for event in world.seen("condition_met", "wait_timed_out")] == [
        "condition_met",
        "wait_timed_out",
    ]


def test_the_next_phase_binds_anew(tmp_path: Path) -> None:
    """Each phase binds its targets anew."""
    played = scenario([{"kill": LEADER}, {"heal": "all"}], [{"kill": LEADER}])
    world: Any = FakeWorld(tmp_path, played)
    PhaseRun(world, played.phases[0]).run()
    world.runtime.states["broker-1"] = "exited"
    PhaseRun(world, played.phases[1]).run()

    assert [event.target for event in world.seen("inject")] == ["broker-1", "broker-2"]


@pytest.mark.parametrize(
    ("target", "bound"),
    [
        (LEADER, "broker-1"),
        ("follower of orders-0", "broker-3"),
        ("followers of orders-0", "broker-2, broker-3"),
        ("preferred leader of orders-0", "broker-2"),
        ("replicas of orders-0", "broker-2, broker-1, broker-3"),
        ("brokers", "broker-1, broker-2, broker-3"),
        ("C", "broker-3"),
        ("controller", "broker-3"),
    ],
)
def test_a_role_is_bound_to_its_brokers(tmp_path: Path, target: str, bound: str) -> None:
    """Roles: broker 1 leads, broker 2 is the first replica, and broker 3 is the ZooKeeper controller."""
    played = scenario([{"pause": target}], topics={"orders": {"replicas": ["B", "A", "C"]}})
    world: Any = FakeWorld(tmp_path, played, mode="zookeeper")
    PhaseRun(world, played.phases[0]).run()

    assert [event.target for event in world.seen("inject")] == [bound]


def test_a_random_broker_follows_from_the_seed(tmp_path: Path) -> None:
    """``random broker`` depends only on the seed and the phase."""
    chosen = set()
    for attempt in ("a", "b"):
        (tmp_path / attempt).mkdir()
        chosen.add(run(tmp_path / attempt, {"pause": "random broker"}).seen("inject")[0].target)

    assert len(chosen) == 1


def test_a_controller_is_awaited(tmp_path: Path) -> None:
    """A target ``controller`` waits for an active controller and fails after its limit."""
    played = scenario([{"kill": "controller"}])
    world: Any = FakeWorld(tmp_path, played, mode="zookeeper")
    world.reports.active_controller = lambda: None

    with pytest.raises(HarnessError, match="Waited 0 s for a controller that acts"):
        PhaseRun(world, played.phases[0]).run()


def test_what_is_active_is_healed_at_the_end(tmp_path: Path, captures: list[str]) -> None:
    """At the phase's end active faults are healed, last injected first; each was captured while active."""
    world = run(tmp_path, {"pause": "A"}, {"pause": "B"})

    assert [(event.step, event.target) for event in world.seen("healed")] == [
        ("pause", "broker-2"),
        ("pause", "broker-1"),
    ]
    assert set(world.runtime.states.values()) == {"running"}
    assert captures == ["phase 1: pause active", "phase 1: pause active"]


CUT = {"disconnect": {"node": "A", "from": "controller"}}


@pytest.mark.parametrize(
    ("told", "healed"),
    [
        ([CUT, {"kill": "A"}], ["disconnect", "kill"]),
        ([{"pause": "active controller"}, {"kill": LEADER}], ["pause", "kill"]),
        ([{"kill": "B"}, CUT, {"pause": "C"}], ["pause", "disconnect", "kill"]),
        ([{"pause": "A"}, {"kill": "A"}], ["kill", "pause"]),
        ([{"pause": "brokers"}, {"stop": "A"}], ["stop", "pause"]),
        ([CUT, {"pause": "A"}], ["pause", "disconnect"]),
    ],
)
def test_what_a_broker_needs_to_come_back_is_healed_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[dict[str, Any]], healed: list[str]
) -> None:
    """Network faults and other nodes' pauses are healed before a broker starts; otherwise last in, first out."""
    monkeypatch.setattr(network, "LIMIT_S", 0.0)
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    run(tmp_path, *told, world=world)

    assert [event.step for event in world.seen("heal")] == healed


def test_healed_faults_are_not_healed_again(tmp_path: Path) -> None:
    """A healed fault is not healed again, at the end or by ``heal: all``."""
    world = run(tmp_path, {"pause": "A"}, {"resume": "A"}, {"kill": "B"}, {"heal": "all"}, {"heal": "all"})

    assert [event.step for event in world.seen("healed")] == ["pause", "kill"]


def test_who_was_killed_while_paused_is_not_resumed(tmp_path: Path) -> None:
    """``resume`` skips a broker that was killed while paused; it recovers when it is started."""
    world = run(tmp_path, {"pause": "brokers"}, {"kill": "B"}, {"resume": "brokers"}, {"start": "B"})

    assert [(event.step, event.detail.get("ended")) for event in world.seen("healed")] == [
        ("pause", ["broker-2"]),
        ("kill", None),
    ]
    assert all(event.detail["recovery_verified"] for event in world.seen("healed"))


@pytest.mark.parametrize(
    ("fault", "end"),
    [({"kill": "followers of orders-0"}, {"start": "C"}), ({"pause": "brokers"}, {"resume": "B"})],
)
def test_one_of_several_is_not_ended_alone(tmp_path: Path, fault: dict[str, Any], end: dict[str, Any]) -> None:
    """A fault on several brokers cannot be ended for one of them; naming more brokers than it has is accepted."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    (key,) = fault
    with pytest.raises(HarnessError, match=f"The {key} of .*broker-2, broker-3 is one fault; name all of them"):
        run(tmp_path, fault, end, world=world)
    assert set(world.runtime.states.values()) == {"running"}

    (tmp_path / "all").mkdir()
    (ends,) = end
    assert len(run(tmp_path / "all", fault, {ends: "brokers"}).seen("healed")) == 1


def test_a_step_that_cannot_be_done_leaves_no_fault(tmp_path: Path) -> None:
    """A step that fails ends the phase, and active faults are healed."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    with pytest.raises(HarnessError, match="broker-2 has no pause active to end"):
        run(tmp_path, {"pause": "A"}, {"resume": "B"}, world=world)

    assert [event.target for event in world.seen("healed")] == ["broker-1"]
    assert set(world.runtime.states.values()) == {"running"}


def test_one_that_cannot_be_healed_does_not_keep_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one fault cannot be healed, the others are healed and its error is raised."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))

    def broken(_node: object) -> None:
        raise HarnessError("no disk")

    monkeypatch.setattr(world, "start", broken)
    with pytest.raises(HarnessError, match="no disk"):
        run(tmp_path, {"pause": "A"}, {"kill": "B"}, world=world)

    assert [event.target for event in world.seen("healed")] == ["broker-1"]


def test_a_fault_that_took_no_effect_is_recorded_and_healed(tmp_path: Path) -> None:
    """A fault without effect is recorded and healed, and the phase continues."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    world.runtime.stubborn.add("broker-1")
    run(tmp_path, {"pause": "A"}, {"pause": "B"}, world=world)

    first, second = world.seen("injected")
    assert first.detail["effect_verified"] is False
    assert "Waited 0 s for broker-1 to stop answering; last seen: broker-1 is running" in first.detail["why"]
    assert second.detail == {"effect_verified": True, "probe": "timeout"}
    assert sorted(event.target for event in world.seen("healed")) == ["broker-1", "broker-2"]


def test_a_wait_that_runs_out_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    """A wait that times out is recorded with the last observation, and the phase continues."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    world.reports.isr = [1, 2]
    told = {"for": {"isr_full": "orders"}, "limit": "1ms"}
    run(tmp_path, {"wait": told}, {"pause": "A"}, world=world)

    (ran_out,) = world.seen("wait_timed_out")
    assert ran_out.detail["condition"] == "isr full: orders"
    assert ran_out.detail["last_seen"] == "orders-0: leader 1 epoch 1 ISR [1, 2]"
    assert [event.target for event in world.seen("injected")] == ["broker-1"]


def test_a_condition_on_the_isr_holds_in_every_view_that_can_know_it(tmp_path: Path) -> None:
    """An ISR condition must hold in both views if the leader does not answer and its followers disagree."""
    for number, (other, kind) in enumerate((([1, 2], "wait_timed_out"), ([1, 2, 3], "condition_met"))):
        (tmp_path / str(number)).mkdir()
        world: Any = FakeWorld(tmp_path / str(number), scenario([{"hold": 1}]))
        full = PartitionView("orders", 0, 1, 5, [1, 2, 3], [1, 2, 3], [])
        views = [full, replace(full, isr=other)]
        world.reports.current_views = lambda _, views=views: views
        run(tmp_path, {"wait": {"for": {"isr_full": "orders"}, "limit": "1ms"}}, world=world)

        (waited,) = world.seen("condition_met", "wait_timed_out")
        assert (waited.kind, waited.detail["last_seen"]) == (kind, f"orders-0: leader 1 epoch 5 ISR {other}")


def test_a_load_is_steady_when_its_ledger_says_so(tmp_path: Path) -> None:
    """``steady_state`` is read from the ledger; without acknowledged records it does not hold."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}], load=LOAD))
    run(tmp_path, {"require": {"steady_state": True}}, world=world)

    (seen,) = world.seen("precondition")
    assert seen.detail["condition"] == "steady state"
    assert seen.detail["why"] == "does not hold: no acknowledged record has a due time yet"


def test_of_many_partitions_those_are_told_that_keep_a_condition_from_holding(tmp_path: Path) -> None:
    """Of many partitions, those that violate the condition are listed first, up to the length limit."""
    topics = {"orders": {"partitions": 500, "replicas": ["A", "B", "C"]}}
    world: Any = FakeWorld(tmp_path, scenario([{"hold": 1}], topics=topics))
    world.partitions = [TopicPartition("orders", number) for number in range(500)]
    full = PartitionView("orders", 0, 1, 5, [1, 2, 3], [1, 2, 3], [])
    world.reports.current_views = lambda at: [replace(full, partition=at[1], isr=[1, 2] if at[1] == 400 else [1, 2, 3])]
    run(tmp_path, {"wait": {"for": {"isr_full": "orders"}, "limit": "1ms"}}, world=world)

    (ran_out,) = world.seen("wait_timed_out")
    told = ran_out.detail["last_seen"].split("; ")
    assert told[0] == "orders-400: leader 1 epoch 5 ISR [1, 2]"
    assert told[-1] == "440 more"


@pytest.mark.parametrize(
    ("condition", "isr", "ends", "kind"),
    [
        ({"isr_full": "orders"}, [3, 2, 1], {}, "condition_met"),
        ({"isr_full": "orders"}, [1, 2], {}, "wait_timed_out"),
        ({"out_of_isr": "C"}, [1, 2], {}, "condition_met"),
        ({"out_of_isr": "C"}, [1, 2, 3], {}, "wait_timed_out"),
        ({"out_of_isr": "followers of orders-0"}, [1, 2], {}, "wait_timed_out"),
        ({"in_isr": "C"}, [3], {}, "condition_met"),
        ({"in_isr": "followers of orders-0"}, [1, 2], {}, "wait_timed_out"),
        ({"leads": "A of orders-0"}, None, {}, "condition_met"),
        ({"leads": "B"}, None, {}, "wait_timed_out"),
        ({"log_end_offset": {"node": "C", "at_least": 7, "at_most": 7}}, None, {3: 7}, "condition_met"),
        ({"log_end_offset": {"node": "C", "at_least": 7}}, None, {3: 6}, "wait_timed_out"),
        ({"log_end_offset": {"node": "followers of orders-0", "at_most": 7}}, None, {2: 8, 3: 7}, "wait_timed_out"),
        ({"log_end_offset": {"node": "C of orders-0", "at_most": 7}}, None, {3: None}, "wait_timed_out"),
        ({"high_watermark": {"node": "C", "at_most": 400}}, None, {}, "condition_met"),
        ({"high_watermark": {"node": "C", "at_most": 399}}, None, {}, "wait_timed_out"),
        ({"log_start_offset": {"node": "C", "at_most": 0}}, None, {}, "condition_met"),
        ({"log_start_offset": {"node": "followers of orders-0", "at_least": 1}}, None, {}, "wait_timed_out"),
        ({"leader_changed": "orders"}, None, {}, "wait_timed_out"),
        ({"leader_changed": "orders-0"}, None, {}, "wait_timed_out"),
        ({"isr_full": "orders-0"}, None, {}, "condition_met"),
        ({"isr_full": "orders-0"}, [1, 2], {}, "wait_timed_out"),
        ({"caught_up": "orders"}, None, {3: 400}, "condition_met"),
        ({"caught_up": "orders"}, None, {3: 399}, "wait_timed_out"),
        ({"caught_up": "orders"}, None, {3: None}, "wait_timed_out"),
    ],
)
def test_conditions_hold_or_not(
    tmp_path: Path, condition: dict[str, Any], isr: list[int] | None, ends: dict[int, int | None], kind: str
) -> None:
    """Each condition, with a near miss that times out."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    world.reports.isr, world.reports.ends = isr, ends
    run(tmp_path, {"wait": {"for": condition, "limit": "1ms"}}, world=world)

    assert [event.kind for event in world.seen("condition_met", "wait_timed_out")] == [kind]


@pytest.mark.parametrize(("others", "gone"), [(["A", "C"], True), (["C"], False)])
def test_only_a_broker_that_comes_back_alone_needs_no_witness(tmp_path: Path, others: list[str], gone: bool) -> None:
    """A restarted broker must be registered at another broker, unless it is the only one that runs."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    world.reports.registered = lambda _number: False  # type: ignore[method-assign]  # other brokers never list it
    run(tmp_path, *({"stop": name} for name in (*others, "B")), {"start": "B"}, world=world)

    assert [event.detail["recovery_verified"] for event in world.seen("healed") if event.target == "broker-2"] == [gone]


def test_a_window_is_looked_at_once_and_fails_nothing(tmp_path: Path) -> None:
    """``require`` checks once and records the result; an unknown offset of a paused broker fails any bound."""
    bound = {"node": "C", "at_most": 500}
    world = run(
        tmp_path, {"require": {"log_end_offset": bound}}, {"pause": "C"}, {"require": {"log_end_offset": bound}}
    )

    assert [event.detail for event in world.seen("precondition")] == [
        {
            "condition": "log end offset: C at most 500",
            "met": True,
            "why": "holds: orders-0 on broker-3: log end offset 500",
        },
        {
            "condition": "log end offset: C at most 500",
            "met": False,
            "why": "does not hold: orders-0 on broker-3: log end offset None",
        },
    ]


def test_a_partition_without_leader_does_not_end_the_run(tmp_path: Path) -> None:
    """A partition without a leader does not fail the run; any leader is then a change."""
    world: Any = FakeWorld(tmp_path, scenario([{"wait": {"for": {"leader_changed": "orders"}, "limit": "1ms"}}]))
    view = world.reports.partition_view(T0)
    answers = iter([None, None])
    world.reports.partition_view = lambda _: next(answers, view)
    PhaseRun(world, world.scenario.phases[0]).run()

    assert len(world.seen("condition_met")) == 1


def test_every_step_is_recorded_as_it_was_told(tmp_path: Path) -> None:
    """Every step is recorded with its settings."""
    (step,) = run(tmp_path, {"hold": "1ms"}).seen("step")

    assert (step.phase, step.step, step.detail) == ("phase 1", "hold", {"seconds": 0.001})


@pytest.mark.parametrize(("mode", "uninvolved"), [("kraft", "broker-3"), ("zookeeper", "broker-2")])
def test_an_uninvolved_broker_neither_leads_nor_is_the_controller(tmp_path: Path, mode: str, uninvolved: str) -> None:
    """An uninvolved broker neither leads the partition nor is the ZooKeeper controller."""
    told = scenario([{"pause": "uninvolved broker of orders-0"}])
    world = run(tmp_path, {"pause": "uninvolved broker of orders-0"}, world=FakeWorld(tmp_path, told, mode))

    assert world.seen("inject")[0].target == uninvolved


@pytest.mark.parametrize(("mode", "target"), [("kraft", "controller"), ("zookeeper", "broker-3")])
def test_the_active_controller_is_a_node_of_its_own_in_kraft(tmp_path: Path, mode: str, target: str) -> None:
    """In KRaft the active controller is a separate node, in ZooKeeper mode a broker."""
    step = {"pause": "active controller"}
    world = run(tmp_path, step, world=played(tmp_path, step, mode=mode))

    assert [event.target for event in world.seen("healed")] == [target]


def test_another_controller_is_waited_for(tmp_path: Path) -> None:
    """``controller_changed`` waits for a controller other than at the phase's start."""
    step = {"wait": {"for": {"controller_changed": True}, "limit": "1s"}}
    world = played(tmp_path, step)
    acting = iter([100, 100, None, 101])
    world.reports.active_controller = lambda: next(acting)
    run(tmp_path, step, world=world)

    assert [event.detail["last_seen"] for event in world.seen("condition_met")] == ["controller 101, 100 before"]


def test_work_beside_the_steps_is_awaited_though_other_work_failed(tmp_path: Path) -> None:
    """If background work fails, the phase still waits for other background work before it raises the error."""
    played = scenario([{"hold": "1ms"}], load=LOAD)
    world: Any = FakeWorld(tmp_path, played)
    phase = PhaseRun(world, played.phases[0])
    told, ended = Event(), Event()

    def fail() -> None:
        raise HarnessError("No reader.")

    def work() -> None:
        told.wait(10)
        Event().wait(0.3)  # as long as it takes to write the last of it
        ended.set()

    phase.in_background(fail, end=lambda: None)
    phase.in_background(work, end=told.set)
    with pytest.raises(HarnessError, match=r"No reader\."):
        phase.run()
    assert ended.is_set()
