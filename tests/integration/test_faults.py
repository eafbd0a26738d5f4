"""Every fault on real brokers: its effect and its recovery are verified.

A runtime's faults run on both runtimes, Kafka's faults on one.
"""

from __future__ import annotations

import ipaddress

import psutil
import pytest

from clusters.faults.phase import PhaseRun, perform
from clusters.live.world import World
from clusters.run.leftovers import hold_scratch_run
from clusters.runtimes.kernel import lacking
from clusters.runtimes.process import processes_of
from clusters.scenario.scenario import Phase
from clusters.scenario.steps.catalog import STEPS as ALL_STEPS
from clusters.waiting import wait_until
from history.events import Event, read_events

pytestmark = pytest.mark.cluster

NETWORK: dict[str, list[dict[str, object]]] = {
    "disconnect": [
        {"disconnect": {"node": "A", "from": ["B", "C"]}},
        {"hold": "1s"},
        {"reconnect": {"node": "A", "from": ["B", "C"]}},
    ],
    "cut from clients": [{"disconnect": {"node": "leader of orders-0", "from": "clients"}}, {"hold": "1s"}],
    "cut from controller": [{"disconnect": {"node": "A", "from": "controller"}}],
    "cut one way": [
        {"disconnect": {"node": "leader of orders-0", "from": "followers of orders-0", "direction": "in"}},
        {"hold": "1s"},
    ],
    "isolated": [{"disconnect": {"node": "A", "from": ["B", "C", "controller"]}}, {"hold": "1s"}],
    "halves": [{"disconnect": {"node": "followers of orders-0", "from": "leader of orders-0"}}, {"hold": "1s"}],
    "limit_bandwidth": [
        {"limit_bandwidth": {"into": "follower of orders-0", "rate": "20kB/s"}},
        {"hold": "2s"},
        {"restore_bandwidth": "follower of orders-0"},
    ],
    "delay": [{"delay": {"into": "follower of orders-0", "by": "50ms"}}],
    "reorder": [{"reorder": {"into": "follower of orders-0", "percent": 25}}],
    "lose": [{"lose": {"into": "leader of orders-0", "from": "followers of orders-0", "percent": 20}}],
}
PROOFS = ("injected", "healed")
WAITS = ("condition_met", "wait_timed_out")
STEPS: dict[str, list[dict[str, object]]] = {
    "pause": [{"pause": "follower of orders-0"}, {"hold": "1s"}],
    # The leader may resume first and shrink the ISR, which looked full until then.
    "pause all": [{"pause": "brokers"}, {"hold": "1s"}, {"resume": "brokers"}, {"hold": "3s"}],
    "members": [{"pause": "member 1"}, {"resume": "member 1"}, {"restart": "members"}],
    "kill": [{"kill": "leader of orders-0"}, {"wait": {"for": {"leader_changed": "orders"}, "limit": "20s"}}],
    "stop": [{"stop": "leader of orders-0"}, {"wait": {"for": {"leader_changed": "orders"}, "limit": "10s"}}],
    "lag": [{"lag": {"node": "follower of orders-0", "records": 500}}, {"hold": "4s"}],
    "slow": [
        {"slow": {"node": "follower of orders-0", "until": {"out_of_isr": "follower of orders-0"}, "limit": "20s"}}
    ],
}
OF_KAFKA: dict[str, list[dict[str, object]]] = {
    "reassign": [{"reassign": {"topic": "orders", "to": ["C", "B"]}}, {"hold": "1s"}],
    "churn_leadership": [{"churn_leadership": {"partition": "orders-0", "between": ["B", "C"], "times": 4}}],
    "delete_records": [{"delete_records": {"partition": "orders-0", "before": "high_watermark"}}],
    "configure": [{"configure": {"topic": "orders", "set": {"min.insync.replicas": 1}}}],
}
SLOW: dict[str, list[dict[str, object]]] = {
    "kill_all": [{"kill": "replicas of orders-0"}, {"start": "replicas of orders-0"}],
    "truncate": [
        {"kill": "C"},
        {"truncate": {"node": "C", "partition": "orders-0", "records": 200}},
        {"delete_checkpoint": {"node": "C", "what": "high watermark checkpoint"}},
        {"start": "C"},
    ],
    "pause past the session": [
        {"pause": "leader of orders-0"},
        {"wait": {"for": {"leader_changed": "orders"}, "limit": "30s"}},
        {"wait": {"for": {"out_of_isr": "leader of orders-0"}, "limit": "10s"}},
    ],
    "restart": [{"restart": {"node": "B", "with": {"num.replica.fetchers": 2}}}],
    "bounce": [{"bounce": {"node": "leader of orders-0", "times": 2, "by": "kill"}}],
    "crash_loop": [{"crash_loop": {"node": "C", "times": 2, "after": "1s"}}],
    "active controller": [{"pause": "active controller"}, {"hold": "1s"}],
    "flip_bit": [{"flip_bit": {"node": "C", "partition": "orders-0", "offset": 600}}],
    "wipe": [{"stop": "C"}, {"wipe": "C"}, {"start": "C"}],  # takes the flipped bit away
}
ON_DOCKER: dict[str, list[dict[str, object]]] = {
    "limit_cpu": [{"limit_cpu": {"node": "leader of orders-0", "cpus": 0.1}}, {"hold": "1s"}],
    "slow_disk": [{"slow_disk": {"node": "follower of orders-0", "rate": "200kB/s"}}, {"hold": "1s"}],
    "cut off and killed": [{"disconnect": {"node": "A", "from": ["B", "C", "controller"]}}, {"kill": "A"}],
}
process_only = pytest.mark.parametrize("world", ["process"], indirect=True, scope="module")
docker_only = pytest.mark.parametrize(
    "world", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True, scope="module"
)


def _run(world: World, name: str, steps: list[dict[str, object]]) -> list[Event]:
    """Run one phase and return its events."""
    before = len(list(read_events(world.folder.events)))
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="a full ISR to begin with")
    PhaseRun(world, Phase.model_validate({"name": name, "steps": steps})).run()
    return list(read_events(world.folder.events))[before:]


def _isr_is_full(world: World) -> bool:
    view = world.reports.partition_view(world.partitions[0])
    return view is not None and len(view.isr) == 3


def _detail(events: list[Event], kind: str) -> dict[str, object]:
    return dict(next(event for event in events if event.kind == kind).detail)


def _bites_and_heals(world: World, fault: str, steps: list[dict[str, object]]) -> None:
    events = _run(world, fault, steps)

    proofs = [
        event.detail.get("effect_verified", event.detail.get("recovery_verified"))
        for event in events
        if event.kind in PROOFS
    ]
    assert proofs == [True] * 2 * len([event for event in events if event.kind == "inject"])
    assert proofs
    assert not [event for event in events if event.kind == "wait_timed_out"]
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")


@pytest.mark.parametrize("fault", STEPS)
def test_a_fault_bites_and_is_gone_again(world: World, fault: str) -> None:
    """A fault takes effect and heals, according to the probe, other brokers' metadata or the member's polls."""
    _bites_and_heals(world, fault, STEPS[fault])


@process_only
@pytest.mark.parametrize("fault", OF_KAFKA)
def test_what_kafka_was_asked_for_is_seen_and_taken_back(world: World, fault: str) -> None:
    """A fault that uses Kafka's API takes effect and is reverted, according to brokers that did not process it."""
    _bites_and_heals(world, fault, OF_KAFKA[fault])


@docker_only
@pytest.mark.parametrize("fault", NETWORK)
def test_a_fault_of_the_network_bites_and_is_gone_again(world: World, fault: str) -> None:
    """A network fault takes effect and heals, according to the kernel's counters."""
    if missing := lacking(
        (part for step in NETWORK[fault] for key in step for part in ALL_STEPS[key].kernel), hold_scratch_run
    ):
        pytest.skip(f"the kernel has no {', '.join(part.name for part in missing.values())}")
    events = _run(world, fault, NETWORK[fault])
    injected, healed = _detail(events, "injected"), _detail(events, "healed")

    assert injected["effect_verified"] is True
    assert healed["recovery_verified"] is True
    counted = "passed_bytes" if fault in ("limit_bandwidth", "delay", "reorder") else "packets"
    assert int(str(injected[counted])) > 0
    if fault == "limit_bandwidth":
        assert int(str(healed["held_back"])) > 0
    if counted == "packets":
        assert int(str(healed["packets"])) >= int(str(injected["packets"]))
    assert all(world.reports.probe_error(number) is None for number in world.servers.brokers)
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")


@docker_only
def test_an_operator_is_heard_although_a_broker_is_cut_off(world: World) -> None:
    """An operator's request succeeds through the next broker if the first one is isolated."""
    steps: list[dict[str, object]] = [
        {"disconnect": {"node": "A", "from": ["B", "C", "controller"]}},
        {"elect": "preferred"},
    ]
    refused = _detail(_run(world, "an operator", steps), "elected")["refused"]

    assert "No broker answers" not in str(refused)
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")


@docker_only
@pytest.mark.parametrize("fault", ON_DOCKER)
def test_a_fault_of_docker_bites_and_is_gone_again(world: World, fault: str) -> None:
    """A fault that needs Docker takes effect and heals, according to the kernel's counters and the broker's log."""
    _bites_and_heals(world, fault, ON_DOCKER[fault])


@pytest.mark.slow
@pytest.mark.docker
def test_a_broker_ends_with_its_only_log_directory(one_log_dir: World) -> None:
    """A broker exits when its only log directory fails, and is back once the disk is writable."""
    _bites_and_heals(one_log_dir, "read_only_disk", [{"read_only_disk": "follower of orders-0"}])


@docker_only
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_broker_goes_on_with_its_other_log_directory(world: World, role: str) -> None:
    """A broker continues with its other log directory: one replica is offline, and the other stays in sync."""
    number = 0

    def stays_in_sync() -> bool:
        view = world.reports.partition_view(world.partitions[1])
        return view is not None and number in view.isr and number not in view.offline

    run = PhaseRun(world, Phase.model_validate({"name": role, "steps": [{"hold": "1s"}]}))
    step = ALL_STEPS["fail_log_dir"].model_validate({"node": f"{role} of orders-0", "partition": "orders-0"})
    number = run.node(step.targets[0]).node_id or 0
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="a full ISR to begin with")
    perform(run, step)
    assert stays_in_sync()
    run.heal_all()

    events = list(read_events(world.folder.events))
    assert [event.detail.get("effect_verified") for event in events if event.kind == "injected"][-1] is True
    assert [event.detail.get("recovery_verified") for event in events if event.kind == "healed"][-1] is True
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")


@pytest.mark.slow
@pytest.mark.parametrize("fault", SLOW)
def test_a_slow_fault_bites_and_is_gone_again(world: World, fault: str) -> None:
    """A slow fault takes effect according to the files; afterwards the broker is back in the ISR."""
    _bites_and_heals(world, fault, SLOW[fault])


@pytest.mark.slow
def test_a_restarted_broker_had_closed_its_logs(world: World) -> None:
    """A restarted broker shut down cleanly, and has no log to recover."""
    log = world.servers.node(2).log
    before = log.stat().st_size
    _bites_and_heals(world, "restart", [{"restart": "B"}])

    ended, _, started = log.read_bytes()[before:].decode().partition("shut down completed")
    assert "clean shutdown file" not in ended
    assert "Skipping recovery of" in started
    assert "no clean shutdown file" not in started


@process_only
def test_processes_listen_on_the_loopback_alone(world: World) -> None:
    """Nodes of the process runtime listen on the loopback alone (for containers see test_rights.py)."""
    nodes = list(processes_of(world.folder.path))
    listening = [
        each.laddr for process in nodes for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN
    ]

    assert len(listening) >= 4
    hosts = {address.ip.removeprefix("::ffff:") for address in listening}  # Java's sockets are of both families
    assert [host for host in hosts if not ipaddress.ip_address(host).is_loopback] == []


def test_a_lagging_follower_stays_in_the_isr_and_holds_the_high_watermark(world: World) -> None:
    """A lagging follower stays in the ISR near the requested lag: throughout on docker, repeatedly as a process."""
    steps = [{"lag": {"node": "follower of orders-0", "records": 500}}, {"hold": "8s"}]

    seen = _detail(_run(world, "lag for long", steps), "healed")

    assert int(str(seen["lag_max"])) >= 250, "what the fault's proof asked for"
    assert float(str(seen["near"])) >= (0.25 if world.runtime.network else 0.0), seen  # docs/faults.md
    view = world.reports.partition_view(world.partitions[0])
    assert view is not None
    assert len(view.isr) == 3, f"{view.isr} after {seen}"


@pytest.mark.slow
def test_a_throttled_follower_stays_out_of_sync_until_it_is_healed(world: World) -> None:
    """A throttle keeps a follower with much to fetch out of sync until it is healed; in sync it has no effect."""
    steps: list[dict[str, object]] = [
        {"throttle": {"node": "C", "rate": "1kB/s"}},
        {"hold": "1s"},
        {"wait": {"for": {"isr_full": "orders"}, "limit": "1s"}},  # in sync, so not throttled
        {"pause": "C"},  # a broker that starts fetches before it reads its throttle
        {"wait": {"for": {"out_of_isr": "C"}, "limit": "20s"}},
        {"hold": "25s"},  # more than one fetch (1 MiB) of what is produced
        {"resume": "C"},
        {"wait": {"for": {"isr_full": "orders"}, "limit": "6s"}},
    ]
    events = _run(world, "throttle", steps)

    assert [event.kind for event in events if event.kind in WAITS] == [
        "condition_met",
        "condition_met",
        "wait_timed_out",
    ]
    assert _detail(events, "injected")["effect_verified"] is True
    assert [event.detail["recovery_verified"] for event in events if event.kind == "healed"] == [True, True]
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")


@process_only
def test_leadership_moves_to_the_replica_that_is_named(world: World) -> None:
    """Leadership moves to the named replica and back within a phase, according to other brokers' metadata."""
    steps: list[dict[str, object]] = [{"transfer_leadership": f"{letter} of orders-0"} for letter in "BCA"]
    waits = [{"wait": {"for": {"leads": f"{letter} of orders-0"}, "limit": "10s"}} for letter in "BCA"]

    events = _run(world, "leads", [step for pair in zip(steps, waits, strict=True) for step in pair])

    assert [event.detail["refused"] for event in events if event.kind == "elected"] == [None] * 3
    assert [event.kind for event in events if event.kind in WAITS] == ["condition_met"] * 3


@pytest.mark.slow
@process_only
def test_a_preferred_election_gives_leadership_back(world: World) -> None:
    """A preferred election returns leadership to a restarted leader; the event has both leaders and epochs."""
    elect: list[dict[str, object]] = [{"elect": "preferred"}, {"wait": {"for": {"balanced": "orders"}, "limit": "20s"}}]
    whole = {"wait": {"for": {"isr_full": "orders"}, "limit": "60s"}}
    _run(world, "balanced", elect)
    led = _detail(_run(world, "elected", [{"restart": "leader of orders-0"}, whole, *elect]), "elected")["led"]

    assert isinstance(led, dict)
    before, after = (led[when]["orders-0"] for when in ("before", "after"))
    assert before[0] != after[0]
    assert before[1] < after[1]


@process_only
def test_a_wait_that_runs_out_is_recorded_and_the_phase_goes_on(world: World) -> None:
    """A wait that times out is recorded, and the phase continues with the next step."""
    steps = [{"wait": {"for": {"leader_changed": "orders"}, "limit": "1s"}}, {"hold": "10ms"}]

    kinds = [(event.kind, event.step) for event in _run(world, "waits in vain", steps)]

    assert kinds == [("step", "wait"), ("wait_timed_out", "wait"), ("step", "hold")]


@pytest.mark.slow
def test_an_unclean_election_gives_a_partition_a_leader_that_was_out_of_sync(world: World) -> None:
    """An unclean election makes an evicted replica leader while the last replica in sync is down."""
    elected = {"wait": {"for": {"leader_changed": "orders"}, "limit": "3s"}}
    steps: list[dict[str, object]] = [
        {"kill": "followers of orders-0"},
        {"wait": {"for": {"out_of_isr": "followers of orders-0"}, "limit": "20s"}},
        {"kill": "leader of orders-0"},
        {"start": "followers of orders-0"},
        elected,
        {"elect": "unclean"},
        elected,
    ]
    events = _run(world, "unclean", steps)

    assert [event.kind for event in events if event.kind in WAITS] == [
        "condition_met",
        "wait_timed_out",
        "condition_met",
    ]
    assert _detail(events, "elected")["refused"] is None
    assert "orders-0" in str(_detail(events, "elected")["unclean"])
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")
