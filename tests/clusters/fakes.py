"""A world with fake servers and reports, without processes or sockets; its brokers react to signals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

from clusters.kafka.probe import ReplicaSample
from clusters.kafka.views import PartitionView
from clusters.live.files import Files
from clusters.live.plan import MadeCluster, Plan
from clusters.live.reports import Reports
from clusters.live.servers import PREFIX, Servers
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import endpoints_of
from clusters.runtimes.runtime import (
    Disks,
    Flow,
    LimitCounters,
    Network,
    NodeState,
    ResourceLimits,
)
from clusters.scenario.scenario import Scenario
from history.errors import HarnessError
from history.events import Event, read_events
from history.folder import RunFolder
from history.java import Java
from history.kafka_versions import Mode
from history.partition import TopicPartition

T = TypeVar("T")

T0 = TopicPartition("orders", 0)
A_JAVA = Java(home=Path("/java"), version="25.0.4+1", vendor="Debian", released="2026-07-21")


def scenario(*phases: list[dict[str, Any]], **change: Any) -> Scenario:
    """Return a scenario with three brokers, orders-0 on all of them, and these phases."""
    told = {
        "name": "s",
        "why": "w",
        "cluster": {"brokers": 3},
        "topics": {"orders": {"replicas": ["A", "B", "C"]}},
        "phases": [{f"phase {number}": steps} for number, steps in enumerate(phases, start=1)],
    }
    return Scenario.model_validate({**told, **change})


class FakeNetwork:
    """Keeps firewall rules; tests set its counters."""

    def __init__(self) -> None:
        self.stubborn: set[str] = set()  # nodes whose rules cannot be removed
        self.rules: dict[tuple[str, str], list[Flow]] = {}  # (node, name) → which packets are dropped
        self.drops = 0  # the counter of every rule
        self.limits_into: dict[str, float | None] = {}  # node → bytes a second; None once it is restored
        self.delays: dict[tuple[str, str], float] = {}  # (node, sender)
        self.overtaking = 0.0  # per cent that no delay holds back
        self.delay_share = 1.0  # share of the requested delay that takes effect
        self.passed: dict[str, int] = {}  # sender → bytes within the limit on what it sends
        self.held_back = 0  # how often each limit held something back

    def drop_packets(self, node: Node, rule: str, flows: list[Flow]) -> None:
        self.rules[node.name, rule] = flows

    def dropped_packets(self, node: Node, rule: str) -> int | None:
        return self.drops if (node.name, rule) in self.rules else None

    def stop_dropping(self, node: Node, rule: str) -> int | None:
        if node.name in self.stubborn:
            return None
        del self.rules[node.name, rule]
        return self.drops

    def limit_ingress(self, node: Node, _senders: list[Node], _port: int, bytes_per_s: float) -> None:
        self.limits_into[node.name] = bytes_per_s

    def delay_ingress(self, node: Node, senders: list[Node], _port: int, by_s: float, overtaking: float = 0.0) -> None:
        self.delays |= {(node.name, sender.name): by_s for sender in senders}
        self.overtaking = overtaking

    def restore_ingress(self, node: Node, _senders: list[Node]) -> None:
        self.limits_into[node.name] = None

    def round_trips_s(self, node: Node, sender: Node, _port: int) -> list[float]:
        slow_s = 0.001 + self.delays.get((node.name, sender.name), 0.0) * self.delay_share
        late = slow_s if node.name not in self.limits_into else 0.001
        return [late, late, 0.001 if self.overtaking else late]

    def limited(self, _node: Node, sender: Node) -> LimitCounters | None:
        passed = self.passed.get(sender.name)
        return None if passed is None else LimitCounters(passed, self.held_back)


class FakeLimits:
    """Keeps each node's CPU quota and disk speed."""

    def __init__(self) -> None:
        self.quotas: dict[str, str] = {}
        self.disk_rates: dict[str, float] = {}
        self.disk_rate = 1e9  # bytes per second of a disk without a limit

    def limit_egress(self, node: Node, bytes_per_s: float) -> None:
        raise NotImplementedError

    def limit_cpu(self, name: str, cpus: float | None, _cpu_set: str | None) -> None:
        self.quotas[name] = "max" if cpus is None else str(int(cpus * 20_000))

    def limit_disk(self, node: Node, bytes_per_s: float | None) -> None:
        if bytes_per_s is None:
            self.disk_rates.pop(node.name, None)
        else:
            self.disk_rates[node.name] = bytes_per_s

    def time_write(self, node: Node, size_bytes: int) -> float:
        return size_bytes / min(self.disk_rates.get(node.name, self.disk_rate), self.disk_rate)

    def in_effect(self, node: Node) -> dict[str, Any]:
        rate = self.disk_rates.get(node.name)
        disk = {} if rate is None else {"disk_write": f"254:0 {rate:.0f}"}
        return {"cpu_quota": f"{self.quotas.get(node.name, 'max')} 20000", **disk}


class FakeRuntime:
    """Keeps each node's state."""

    name: Literal["docker", "process"] = "docker"

    def __init__(self, names: Iterable[str]) -> None:
        self.network: Network | None = FakeNetwork()
        self.resource_limits: ResourceLimits | None = FakeLimits()
        self.disks: Disks | None = None
        self.states: dict[str, NodeState] = dict.fromkeys(names, "running")
        self.statuses: dict[str, int] = {}
        self.used: dict[str, dict[str, float]] = {}
        self.started: list[str] = []
        self.stubborn: set[str] = set()  # nodes on which signals have no effect

    def reserve(self, _subnet: str | None) -> str:
        return "127.9.9"

    def start(self, node: Node) -> None:
        self.started.append(node.name)
        self._become(node.name, "running")

    def kill(self, name: str, signal: str) -> None:
        self._check_runs(name, signal)
        self._become(name, "exited")

    def pause(self, name: str) -> None:
        self._become(name, "paused")

    def resume(self, name: str) -> None:
        self._check_runs(name, "SIGCONT")
        self._become(name, "running")

    def _check_runs(self, name: str, signal: str) -> None:
        if self.states[name] == "exited":
            raise HarnessError(f"{name} cannot be sent {signal}: it does not run.")

    def state(self, name: str) -> NodeState:
        return self.states.get(name, "absent")

    def exit_status(self, name: str) -> int | None:
        return self.statuses.get(name) if self.states.get(name) == "exited" else None

    def usage(self, name: str) -> dict[str, float]:
        return dict(self.used.get(name, {})) if self.states.get(name) == "running" else {}

    def remove_all(self) -> list[str]:
        self.states.clear()
        return []

    def _become(self, name: str, state: NodeState) -> None:
        if name not in self.stubborn:
            self.states[name] = state


class FakeServers(Servers):
    """One controller, and the scenario's brokers; a runtime has their states."""

    def __init__(self, path: Path, told: Scenario) -> None:
        self._path, self._numbers = path, told.cluster.broker_ids.values()
        self.runtime = FakeRuntime(node.name for node in self.nodes)
        self.binaries: dict[str, str | None] = {}
        self.settings: dict[str, Mapping[str, str]] = {}

    @cached_property
    def brokers(self) -> dict[int, Node]:
        return {number: self._node(f"broker-{number}", number) for number in self._numbers}

    @cached_property
    def metadata_nodes(self) -> list[Node]:
        return [self._node("controller", 100)]

    def _node(self, name: str, number: int) -> Node:
        role, address = name.partition("-")[0], f"127.9.9.{number}"
        endpoints = endpoints_of(role, address)
        return Node(name, role, address, self._path, "java", endpoints=endpoints, node_id=number)

    @property
    def software(self) -> FakeServers:
        return self

    @property
    def files(self) -> Files | None:
        return Files()

    def running(self) -> list[int]:
        return [number for number, node in self.brokers.items() if self.state(node) == "running"]

    def start(self, node: Node) -> dict[str, str]:
        self.runtime.start(node)
        return {"kafka_version": "3.9.1"}

    def kill(self, node: Node, signal: str) -> None:
        self.runtime.kill(node.name, signal)

    def pause(self, node: Node) -> None:
        self.runtime.pause(node.name)

    def resume(self, node: Node) -> None:
        self.runtime.resume(node.name)

    def state(self, node: Node) -> NodeState:
        return self.runtime.state(node.name)

    def exit_status(self, node: Node) -> int | None:
        return self.runtime.exit_status(node.name)

    def replace_binaries(self, node: Node, kafka: str | None) -> None:
        self.binaries[node.name] = kafka

    def configure(self, node: Node, settings: Mapping[str, str]) -> None:
        self.settings[node.name] = settings


class FakeReports(Reports):
    """The lowest running broker leads, and the running brokers are the ISR."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world.servers, world.plan, None)
        self._world, self._fakes = world, world.servers
        self.isr: list[int] | None = None  # overrides the running brokers as ISR
        self.order: list[int] | None = None  # overrides the scenario's assignment
        self.leads: int | None = None  # overrides the lowest running broker as leader
        self.epoch = 1
        self.starts: dict[int, int] = {}  # log start offsets, 0 by default
        self.ends: dict[int, int | None] = {}  # log end offsets, 500 by default

    def active_controller(self) -> int | None:
        numbers = [100] if self._world.plan.mode == "kraft" else self._fakes.running()
        return next((number for number in reversed(numbers) if self.registered(number)), None)

    def ask(self, what: Callable[[Any], T]) -> T:
        if not self._fakes.running():
            raise HarnessError("No broker answers that could be asked for this; start or join one first.")
        return what(self.connection(self._fakes.running()[0]))

    def connection(self, number: int) -> Any:
        return number

    def connect(self, *node_and_listener: Any, **_: Any) -> Any:
        return nullcontext(node_and_listener[0].node_id)

    def partition_view(self, partition: TopicPartition, without: int | None = None) -> PartitionView | None:
        running = self._fakes.running()
        if set(running) <= {without}:
            return None
        replicas = self.order or self._world.replicas(partition)
        isr = [number for number in running if number in replicas] if self.isr is None else self.isr
        return PartitionView(*partition, self.leads or isr[0], self.epoch, replicas, isr, [])

    def current_views(self, partition: TopicPartition, _without: int | None = None) -> list[PartitionView]:
        return [view] if (view := self.partition_view(partition)) else []

    def current_views_of(
        self, partitions: Iterable[TopicPartition], _without: int | None = None
    ) -> dict[TopicPartition, list[PartitionView]]:
        return {partition: self.current_views(partition) for partition in partitions}

    def partition_views(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionView | None]:
        return {partition: self.partition_view(partition) for partition in partitions}

    def view_of(self, broker_id: int) -> Any:
        running = self._fakes.running()
        return SimpleNamespace(controller_id=running[-1]) if broker_id in running else None

    def views(self, _without: int | None = None) -> dict[int, Any]:
        return {number: self.view_of(number) for number in self._fakes.brokers}

    def sample(self, broker_id: int, partition: TopicPartition) -> ReplicaSample | None:
        if broker_id not in self._fakes.running():
            return None
        end, start = self.ends.get(broker_id, 500), self.starts.get(broker_id, 0)
        return ReplicaSample(*partition, 5, 6, log_start_offset=start, high_watermark=400, log_end_offset=end)

    def samples(self, broker_id: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        found = {partition: self.sample(broker_id, partition) for partition in partitions}
        return {partition: sample for partition, sample in found.items() if sample}

    def probe_error(self, number: int) -> str | None:
        state = self._fakes.state(self._fakes.node(number))
        return {"exited": "unreachable", "paused": "timeout"}.get(state)

    def registered(self, number: int) -> bool:
        return self._fakes.state(self._fakes.node(number)) == "running"


def plan_of(told: Scenario, mode: Mode = "kraft") -> Plan:
    """Return the plan of a run with this scenario, on local processes."""
    made = MadeCluster(kafka_version="3.9.1", jars=Path("/jars"), mode=mode, runtime="process")
    return Plan(scenario=told, java=A_JAVA, seed=7, cluster=made)


def write_plan(path: Path, plan: Plan) -> None:
    """Make a run's folder with this plan."""
    folder = RunFolder(path)
    folder.work.mkdir(parents=True, exist_ok=True)
    plan.write(folder)


class FakeWorld(World):
    """A world with fake servers, all in their first incarnation, and fake reports."""

    servers: FakeServers
    reports: FakeReports
    runtime: FakeRuntime

    def __init__(self, path: Path, told: Scenario, mode: Mode = "kraft") -> None:
        write_plan(path, plan_of(told, mode))
        super().__init__(path)
        self.servers = FakeServers(path, told)
        self.runtime = self.servers.runtime
        self.reports = FakeReports(self)
        starts = {node.name: 1 for node in self.servers.nodes}
        (self.folder.work / "incarnations.json").write_text(json.dumps(starts))
        (self.folder.work / PREFIX).write_text("127.9.9")

    def replan(self, **changes: Any) -> None:
        """Change the plan."""
        self.plan = self.plan.model_copy(update=changes)

    def seen(self, *kinds: str) -> list[Event]:
        """Return the recorded events of these kinds."""
        return [event for event in read_events(self.folder.events) if event.kind in kinds]
