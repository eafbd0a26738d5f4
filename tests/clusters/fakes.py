"""A fake world without processes or sockets; its brokers react to signals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from clusters.kafka.probe import ReplicaSample
from clusters.kafka.views import PartitionView
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import LimitCounters
from clusters.scenario.scenario import Scenario
from history.errors import HarnessError
from history.events import Event, EventLog, read_events
from history.folder import RunFolder
from history.java import Java
from history.partition import TopicPartition

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
        self.rules: dict[tuple[str, str], list[str]] = {}  # (node, name) → which packets are dropped
        self.drops = 0  # the counter of every rule
        self.limits_into: dict[str, float | None] = {}  # node → bytes a second; None once it is restored
        self.delays: dict[tuple[str, str], float] = {}  # (node, sender)
        self.overtaking = 0.0  # per cent that no delay holds back
        self.delay_share = 1.0  # share of the requested delay that takes effect
        self.passed: dict[str, int] = {}  # sender → bytes within the limit on what it sends
        self.held_back = 0  # how often each limit held something back

    def drop_packets(self, node: Node, rule: str, matches: list[str]) -> None:
        self.rules[node.name, rule] = matches

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

    def in_effect(self, node: Node) -> dict[str, str]:
        rate = self.disk_rates.get(node.name)
        disk = {} if rate is None else {"disk_write": f"254:0 {rate:.0f}"}
        return {"cpu_quota": f"{self.quotas.get(node.name, 'max')} 20000", **disk}


class FakeRuntime:
    """Keeps each node's state."""

    def __init__(self, names: list[str]) -> None:
        self.network = FakeNetwork()
        self.resource_limits = FakeLimits()
        self.disks: Any = None
        self.states = dict.fromkeys(names, "running")
        self.statuses: dict[str, int] = {}
        self.used: dict[str, dict[str, float]] = {}
        self.stubborn: set[str] = set()  # nodes on which signals have no effect

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

    def begin(self, name: str) -> None:
        self._become(name, "running")

    def state(self, name: str) -> str:
        return self.states.get(name, "absent")

    def exit_status(self, name: str) -> int | None:
        return self.statuses.get(name) if self.states.get(name) == "exited" else None

    def usage(self, name: str) -> dict[str, float]:
        return dict(self.used.get(name, {})) if self.states.get(name) == "running" else {}

    def _become(self, name: str, state: str) -> None:
        if name not in self.stubborn:
            self.states[name] = state


class FakeWorld:
    """The lowest running broker leads, and the running brokers are the ISR."""

    def __init__(self, path: Path, told: Scenario, mode: str = "kraft") -> None:
        self.folder = RunFolder(path)
        self.folder.work.mkdir(parents=True, exist_ok=True)
        self.events = EventLog(self.folder.events)
        self.scenario = told
        self.plan = SimpleNamespace(seed=7, mode=mode)
        self.brokers = {
            number: Node(f"broker-{number}", "broker", f"127.9.9.{number}", path, "java", (), node_id=number)
            for number in told.cluster.broker_ids.values()
        }
        self.metadata_nodes = [Node("controller", "controller", "127.9.9.100", path, "java", (), node_id=100)]
        self.runtime = FakeRuntime([node.name for node in self.servers])
        self.partitions = [T0]
        self.isr: list[int] | None = None  # overrides the running brokers as ISR
        self.moved: dict[TopicPartition, list[int]] = {}
        self.order: list[int] | None = None  # overrides the scenario's assignment
        self.leads: int | None = None  # overrides the lowest running broker as leader
        self.epoch = 1
        self.starts: dict[int, int] = {}  # log start offsets, 0 by default
        self.ends: dict[int, int | None] = {}  # log end offsets, 500 by default
        self.started: list[str] = []
        self.binaries: dict[str, str | None] = {}
        self.settings: dict[str, dict[str, str]] = {}

    @property
    def servers(self) -> list[Node]:
        return [*self.metadata_nodes, *self.brokers.values()]

    def node(self, number: int) -> Node:
        return next(node for node in self.servers if node.node_id == number)

    def active_controller(self) -> int | None:
        numbers = [100] if self.plan.mode == "kraft" else self.running()
        return next((n for n in reversed(numbers) if self.runtime.state(self.node(n).name) == "running"), None)

    def running(self) -> list[int]:
        return [number for number, node in self.brokers.items() if self.runtime.state(node.name) == "running"]

    def replicas(self, partition: TopicPartition) -> list[int]:
        assigned = self.scenario.topics[partition.topic].assignment(self.scenario.cluster.broker_ids)
        return self.moved.get(partition) or assigned[partition.partition]

    def ask(self, what: Callable[[Any], Any]) -> Any:
        if not self.running():
            raise HarnessError("No broker answers that could be asked for this; start or join one first.")
        return what(self.connection(self.running()[0]))

    def connection(self, broker_id: int) -> Any:
        return broker_id

    def connect(self, node: Node, _listener: str) -> Any:
        return nullcontext(node.node_id)

    def replace_binaries(self, node: Node, kafka: str | None) -> None:
        self.binaries[node.name] = kafka

    def configure(self, node: Node, settings: dict[str, str]) -> None:
        self.settings[node.name] = settings

    def incarnation_of(self, node: Node) -> int:
        return 1 + self.started.count(node.name)

    def start(self, node: Node) -> None:
        self.started.append(node.name)
        self.runtime.begin(node.name)

    def partition_view(self, partition: TopicPartition, without: int | None = None) -> PartitionView | None:
        running = self.running()
        if set(running) <= {without}:
            return None
        replicas = self.order or self.replicas(partition)
        isr = [number for number in running if number in replicas] if self.isr is None else self.isr
        return PartitionView(*partition, self.leads or isr[0], self.epoch, replicas, isr, [])

    def current_views(self, partition: TopicPartition) -> list[PartitionView]:
        return [view] if (view := self.partition_view(partition)) else []

    def current_views_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[PartitionView]]:
        return {partition: self.current_views(partition) for partition in partitions}

    def partition_views(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionView | None]:
        return {partition: self.partition_view(partition) for partition in partitions}

    def view_of(self, broker_id: int) -> Any:
        return SimpleNamespace(controller_id=self.running()[-1]) if broker_id in self.running() else None

    def views(self) -> dict[int, Any]:
        return {number: self.view_of(number) for number in self.brokers}

    def sample(self, broker_id: int, partition: TopicPartition) -> ReplicaSample | None:
        if broker_id not in self.running():
            return None
        end, start = self.ends.get(broker_id, 500), self.starts.get(broker_id, 0)
        return ReplicaSample(*partition, 5, 6, log_start_offset=start, high_watermark=400, log_end_offset=end)

    def samples(self, broker_id: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        found = {partition: self.sample(broker_id, partition) for partition in partitions}
        return {partition: sample for partition, sample in found.items() if sample}

    def partitions_of(self, broker_id: int) -> list[TopicPartition]:
        return [partition for partition in self.partitions if broker_id in self.replicas(partition)]

    def probe_error(self, broker_id: int) -> str | None:
        state = self.runtime.state(self.node(broker_id).name)
        return {"exited": "unreachable", "paused": "timeout"}.get(state)

    def registered(self, broker_id: int) -> bool:
        return self.runtime.state(self.node(broker_id).name) == "running"

    def describe_node(self, node: Node) -> str:
        return f"{node.name} is {self.runtime.state(node.name)}"

    def seen(self, *kinds: str) -> list[Event]:
        """Return the recorded events of these kinds."""
        return [event for event in read_events(self.folder.events) if event.kind in kinds]
