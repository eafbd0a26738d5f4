"""Faults of the network between nodes, with a fake kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clusters.faults import network, phase
from clusters.faults.network import Delayed, Dropping, LimitedBandwidth, cut, lose
from clusters.faults.phase import PhaseRun
from clusters.runtimes.ports import endpoints_of
from clusters.runtimes.runtime import Flow
from clusters.scenario.steps.network import Direction
from history.errors import HarnessError, WaitTimeout
from tests.clusters.fakes import FakeWorld, scenario

A, B, COORDINATOR = "127.9.9.1", "127.9.9.2", "127.9.9.100"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits time out at once; offsets are not captured."""
    monkeypatch.setattr(network, "LIMIT_S", 0.0)
    monkeypatch.setattr(phase, "capture_offsets", lambda *_: None)


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """Three running brokers."""
    return FakeWorld(tmp_path, scenario([{"hold": 1}]))


# --- which packets -----------------------------------------------------------------------------

REQUESTED = [Flow(B, A, 9091, "destination"), Flow(A, B, 9091, "source")]  # with its responses
REQUESTS = [Flow(B, A, 9091, "source"), Flow(A, B, 9091, "destination")]
ENDS = Flow(B, A, 9091, "source", response_ends=True)


@pytest.mark.parametrize(
    ("direction", "flows"),
    [("both", REQUESTED + REQUESTS), ("in", REQUESTED), ("out", REQUESTS), ("answers", [ENDS])],
)
def test_brokers_are_cut_where_they_replicate(world: Any, direction: Any, flows: list[Flow]) -> None:
    """Brokers are cut on the replication port: requests of one side with their responses, or only the responses."""
    assert (
        cut(world, world.runtime.network, world.servers.brokers[1], [world.servers.brokers[2]], direction).flows
        == flows
    )


def test_clients_are_cut_wherever_they_are(world: Any) -> None:
    """Clients are cut by the broker's client port."""
    assert cut(world, world.runtime.network, world.servers.brokers[1], ["clients"], "both").flows == [
        Flow(None, A, 9092, "destination"),
        Flow(A, None, 9092, "source"),
    ]


@pytest.mark.parametrize(("role", "port"), [("controller", 9094), ("zookeeper", 2181)])
def test_the_controller_is_cut_where_brokers_ask_it(world: Any, role: str, port: int) -> None:
    """Brokers are cut from a KRaft controller or ZooKeeper by that node's port, since brokers open the connection."""
    (node,) = world.servers.metadata_nodes
    world.servers.metadata_nodes = [replace(node, role=role, endpoints=endpoints_of(role, node.address))]
    requests = [Flow(COORDINATOR, A, port, "source"), Flow(A, COORDINATOR, port, "destination")]

    cut_from = partial(cut, world, world.runtime.network, world.servers.brokers[1])
    assert cut_from(["controller"], "out").flows == requests
    assert cut_from(["controller"], "answers").flows == [requests[0]._replace(response_ends=True)]
    assert cut_from(world.servers.metadata_nodes, "both").flows == requests


@pytest.mark.parametrize(("direction", "ways"), [("both", 3), ("in", 2), ("out", 1)])
def test_a_controller_is_cut_from_brokers_and_its_like(world: Any, direction: Any, ways: int) -> None:
    """A controller is cut from brokers and from other controllers, in both directions of requests; not from itself."""
    active = world.servers.metadata_nodes[0]
    other = replace(active, name="controller-2", address="127.9.9.99")
    requested = [Flow(B, COORDINATOR, 9094, "destination"), Flow(COORDINATOR, B, 9094, "source")]

    flows = cut(world, world.runtime.network, active, [active, other, world.servers.brokers[2]], direction).flows

    assert len(flows) == 2 * ways
    assert set(requested) <= set(flows) or direction == "out"
    assert {flow.port for flow in flows} == {9094}


def test_no_rule_names_the_probes_port(world: Any) -> None:
    """No rule covers the probe port, so a broker that is cut off can still be observed."""
    everybody = [world.servers.brokers[2], world.servers.brokers[3], "clients", "controller"]
    rules = cut(world, world.runtime.network, world.servers.brokers[1], everybody, "both").flows
    lossy = lose(world, world.runtime.network, world.servers.brokers[1], [world.servers.brokers[2]], 5).flows

    assert 9093 not in {flow.port for flow in [*rules, *lossy]}


def test_packets_are_lost_by_chance_as_they_arrive(world: Any) -> None:
    """Packets are dropped at random on arrival; packets that the node sends are not."""
    assert lose(world, world.runtime.network, world.servers.brokers[1], [world.servers.brokers[2]], 5).flows == [
        REQUESTED[0]._replace(share=0.05),
        REQUESTS[0]._replace(share=0.05),
    ]


# --- dropped -----------------------------------------------------------------------------------


def off(world: Any) -> Dropping:
    """Return the cut of broker 1 from broker 2."""
    return cut(world, world.runtime.network, world.servers.brokers[1], [world.servers.brokers[2]], "both")


def test_a_cut_is_proven_by_the_kernels_counters(world: Any) -> None:
    """A cut is proven by dropped packets; the events have the count at the proof and at the end."""
    world.runtime.network.drops = 3
    fault = off(world)

    fault.inject()
    assert fault.verify_injected() == {"packets": 3}
    world.runtime.network.drops = 70
    fault.heal()
    assert fault.verify_cleared() == {"packets": 70, "rules": 0}
    assert world.runtime.network.rules == {}


def test_a_cut_that_drops_nothing_has_no_proof(world: Any) -> None:
    """A cut is not proven before the kernel dropped a packet."""
    fault = off(world)
    fault.inject()

    with pytest.raises(WaitTimeout, match="for the kernel to drop a packet of broker-1"):
        fault.verify_injected()


def test_of_a_paused_broker_the_rules_are_the_proof(world: Any) -> None:
    """A paused broker sends nothing, so its cut is proven by the kernel's list of rules."""
    world.runtime.pause("broker-1")
    fault = off(world)
    with pytest.raises(WaitTimeout, match=r"The kernel lists no rule disconnect-\w+ at broker-1"):
        fault.verify_injected()

    fault.inject()
    assert fault.verify_injected() == {"packets": 0, "rules": 4}


def test_a_broker_that_has_ended_proves_no_cut_by_its_silence(world: Any) -> None:
    """The cut of a broker that has exited needs a dropped packet: other brokers still send to it."""
    world.runtime.kill("broker-1", "SIGKILL")
    fault = off(world)
    fault.inject()

    with pytest.raises(WaitTimeout, match="for the kernel to drop a packet of broker-1"):
        fault.verify_injected()
    world.runtime.network.drops = 2
    assert fault.verify_injected() == {"packets": 2}


def test_rules_that_are_listed_again_are_not_gone(world: Any) -> None:
    """Rules that are listed again after healing fail the recovery; each check lists them anew."""
    fault = off(world)
    fault.inject()
    fault.heal()
    fault.inject()

    with pytest.raises(WaitTimeout, match=r"The kernel still lists the rule disconnect-\w+ at broker-1"):
        fault.verify_cleared()


def test_rules_that_the_kernel_still_lists_are_not_gone(world: Any) -> None:
    """Rules that the kernel still lists are not healed, even if the removal command succeeded."""
    fault = off(world)
    fault.inject()
    world.runtime.network.stubborn.add("broker-1")
    fault.heal()

    with pytest.raises(WaitTimeout, match=r"The kernel still lists the rule disconnect-\w+ at broker-1"):
        fault.verify_cleared()


def test_other_rules_have_another_name(world: Any) -> None:
    """Cuts with different peers or directions have different rule names of at most 28 characters."""
    ways: list[Direction] = ["both", "in", "out", "out"]
    names = {
        cut(world, world.runtime.network, world.servers.brokers[1], [world.servers.brokers[2]], way).rule
        for way in ways
    }

    assert len(names) == 3
    assert max(map(len, names)) <= 28


# --- shaped ------------------------------------------------------------------------------------


def shaped(world: Any) -> LimitedBandwidth:
    """Return a limit of 1 MB/s from each other broker to broker 1."""
    return LimitedBandwidth(
        world,
        world.runtime.network,
        world.servers.brokers[1],
        [world.servers.brokers[2], world.servers.brokers[3]],
        1e6,
    )


def test_a_limit_is_proven_by_what_passed_through_it(world: Any) -> None:
    """A limit is proven by a class at every sender and bytes through at least one; healing removes the classes."""
    world.runtime.network.passed = {"broker-2": 0, "broker-3": 900}
    fault = shaped(world)

    fault.inject()
    assert world.runtime.network.limits_into == {"broker-1": 1e6}
    assert fault.verify_injected() == {"passed_bytes": 900}
    world.runtime.network.held_back = 7
    fault.heal()
    world.runtime.network.passed = {}
    fault.heal()  # once more, as after one that failed
    assert fault.verify_cleared() == {"classes": 0, "passed_bytes": 900, "held_back": 14}
    assert world.runtime.network.limits_into == {"broker-1": None}


@pytest.mark.parametrize("held_back", [7, 0])
def test_what_a_limit_held_back_counts_whenever_it_was_looked_at(world: Any, held_back: int) -> None:
    """The count of held-back packets includes those seen at the proof, even if no class is left at the end."""
    world.runtime.network.passed, world.runtime.network.held_back = {"broker-2": 0, "broker-3": 900}, held_back
    fault = shaped(world)

    fault.verify_injected()
    world.runtime.network.passed = {}
    fault.heal()
    assert fault.verify_cleared() == {"classes": 0, "passed_bytes": 900, "held_back": 2 * held_back}


@pytest.mark.parametrize(("passed", "paused"), [({"broker-2": 0, "broker-3": 0}, False), ({"broker-3": 9}, True)])
def test_a_limit_without_traffic_or_without_a_class_has_no_proof(
    world: Any, passed: dict[str, int], paused: bool
) -> None:
    """A limit is not proven without traffic to a running node, nor if a sender lacks the class."""
    world.runtime.network.passed = passed
    if paused:
        world.runtime.pause("broker-1")

    with pytest.raises(WaitTimeout, match="for traffic to broker-1 in the limit"):
        shaped(world).verify_injected()


def test_to_a_paused_broker_nothing_need_flow(world: Any) -> None:
    """To a paused broker no traffic is needed; the classes prove the limit."""
    world.runtime.network.passed = {"broker-2": 0, "broker-3": 0}
    world.runtime.pause("broker-1")

    assert shaped(world).verify_injected() == {"passed_bytes": 0}


def test_a_delay_is_proven_by_what_passed_it_at_every_sender(world: Any) -> None:
    """A delay is proven by bytes through it at every sender; it limits nothing, and ends like a limit."""
    fault = Delayed(
        world,
        world.runtime.network,
        world.servers.brokers[1],
        [world.servers.brokers[2], world.servers.brokers[3]],
        0.1,
    )

    fault.inject()
    assert world.runtime.network.delays == {("broker-1", "broker-2"): 0.1, ("broker-1", "broker-3"): 0.1}
    assert world.runtime.network.limits_into == {}
    world.runtime.network.passed = {"broker-2": 4, "broker-3": 5}
    before, now = {"broker-2": 1.0, "broker-3": 1.0}, {"broker-2": 101.0, "broker-3": 101.0}
    assert fault.verify_injected() == {"passed_bytes": 9, "round_trip_ms": {"before": before, "now": now}}
    del world.runtime.network.passed["broker-3"]
    with pytest.raises(WaitTimeout, match="for traffic to broker-1 in the limit"):
        fault.verify_injected()
    fault.heal()
    world.runtime.network.passed = {}
    assert fault.verify_cleared() == {"classes": 0, "round_trip_ms": {"now": before}}
    assert world.runtime.network.limits_into == {"broker-1": None}


@pytest.mark.parametrize(
    ("asked_s", "share", "overtaking", "proven"),
    [
        (0.1, 1.0, 0.0, True),
        (0.1, 0.0, 0.0, False),  # the kernel counts bytes and delays nothing
        (0.1, 0.5, 0.0, False),
        (0.1, 1.0, 25.0, True),
        (0.1, 0.0, 25.0, False),
    ],
)
def test_a_delay_that_delays_nothing_has_no_proof(
    world: Any, asked_s: float, share: float, overtaking: float, *, proven: bool
) -> None:
    """A delay is proven by longer round trips; a reordering by late and early ones."""
    network = world.runtime.network
    network.delay_share, network.passed = share, {"broker-2": 4}
    fault = Delayed(
        world, network, world.servers.brokers[1], [world.servers.brokers[2]], asked_s, overtaking=overtaking
    )
    fault.inject()
    try:
        fault.verify_injected()
        found = True
    except WaitTimeout:
        found = False

    assert found is proven


@pytest.mark.parametrize(("percent", "patience"), [(0.1, 10.0), (2, 10.0), (10, 2.0), (20, 1.0), (50, 1.0)])
def test_a_small_loss_is_waited_for_longer(world: Any, percent: float, patience: float) -> None:
    """The smaller the loss, the longer the proof waits for a dropped packet."""
    assert (
        lose(world, world.runtime.network, world.servers.brokers[1], [world.servers.brokers[2]], percent).patience
        == patience
    )


# --- steps -------------------------------------------------------------------------------------


def run(path: Path, *told: dict[str, Any], world: FakeWorld | None = None) -> FakeWorld:
    """Run one phase of these steps, with a kernel that always drops and passes packets; return the world."""
    played: Any = world or FakeWorld(path, scenario(list(told)))
    played.runtime.network.drops = 5
    played.runtime.network.passed = dict.fromkeys(played.runtime.states, 7)
    PhaseRun(played, played.scenario.phases[0]).run()
    return played  # type: ignore[no-any-return]  # it plays a World


def kinds(world: FakeWorld) -> list[tuple[str, str, str]]:
    """Return the injected and healed events, in order."""
    return [(e.kind, e.step, e.target) for e in world.seen("injected", "healed")]


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
    dropped: list[Flow] = []
    kernel: Any = world.runtime.network
    drop = kernel.drop_packets
    kernel.drop_packets = lambda node, rule, flows: (dropped.extend(flows), drop(node, rule, flows))
    run(tmp_path, world=world)

    assert [flow.source for flow in dropped if flow.destination == "127.9.9.1"] == ["127.9.9.2"] * 2 + ["127.9.9.3"] * 2


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
