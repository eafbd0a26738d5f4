"""Represent a run's cluster as one object: the plan, the nodes, the runtime, and queries to the brokers.

Each task opens its own world; the run folder holds lasting state.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusters.kafka import admin, class_archive, features, servers
from clusters.kafka.builds import Build
from clusters.kafka.connection import Connection
from clusters.kafka.probe import BrokerProbe, ReplicaSample
from clusters.kafka.security import Access
from clusters.kafka.views import ClusterView, PartitionView, QuorumView, describe_quorum, metadata
from clusters.runtimes import open_runtime
from clusters.runtimes.addresses import HOST
from clusters.runtimes.nodes import Node, opened
from clusters.runtimes.ports import PORTS, Listener
from clusters.runtimes.runtime import Runtime
from clusters.scenario.scenario import Scenario
from clusters.waiting import wait_until
from history.errors import EvidenceError, HarnessError, NoController, WaitTimeout
from history.events import EventLog
from history.folder import RunFolder, write_atomically
from history.java import Java
from history.partition import TopicPartition

T = TypeVar("T")

WORLD = "plimsoll-world"  # client name of the harness
ANSWER_LIMIT_S = 0.5
ANSWER_S_A_PARTITION = 0.0005  # a small broker needs 1 s for 5,000 partitions
TORN_DOWN = "torn_down"  # a file in work/ that keeps an abandoned task from starting nodes again
START_LIMIT_S = 180.0  # 12 brokers on two cores took over 60 s; an exit is reported immediately
REQUEST_LIMIT_S = admin.TIMEOUT_MS / 1000  # tolerates a broker that is busy for 0.5 s
ASKED_FOR_S = (3.0, 10.0)  # time limits of a broker's first and later tries
ASKED_AGAIN_S = 0.5  # pause after all brokers were tried
SESSIONS = 2  # sessions to wait for another broker to become the controller
MAX_CONTROLLERS = 3
SERVERS = frozenset({"broker", "controller", "zookeeper"})


class Plan(BaseModel):
    """The resolved request for a run, stored in ``work/plan.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenario: Scenario
    kafka_version: str
    jars: Path
    origin: str | None = None
    java: Java
    builds: dict[str, Build] = Field(default_factory=dict)  # upgrade targets by their name in the scenario
    agent: Path | None = None
    clients: dict[str, Build] = Field(default_factory=dict)  # load → the release of its VerifiableProducer
    mode: Literal["kraft", "zookeeper"]
    runtime: Literal["docker", "process"]
    seed: int
    subnet: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class World:
    """A run's cluster; brokers have ids, nodes have names."""

    def __init__(self, run: Path, answer_limit_s: float | None = None) -> None:
        self.folder = RunFolder(run.resolve())
        self.events = EventLog(self.folder.events)
        try:
            self.plan = Plan.model_validate_json((self.folder.work / "plan.json").read_text())
        except (OSError, ValidationError) as error:
            raise EvidenceError(f"{run} is no run that is under way; start a new one with `make run`.") from error
        self._answer_limit_s = answer_limit_s or ANSWER_LIMIT_S + ANSWER_S_A_PARTITION * len(self.partitions)
        self._connections: dict[int, Connection] = {}
        self._newest: dict[TopicPartition, int] = {}  # leader epoch
        self.moved: dict[TopicPartition, list[int]] = {}  # partitions that a step has reassigned

    @classmethod
    @contextmanager
    def open(cls, run: Path, answer_limit_s: float | None = None) -> Iterator[World]:
        """Open the world of a run, and close its connections at the end.

        ``answer_limit_s``: the time limit of each query while no fault is active, so that a busy broker can respond.
        """
        world = cls(run, answer_limit_s)
        try:
            yield world
        finally:
            world.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- nodes ---------------------------------------------------------------------------------

    @property
    def scenario(self) -> Scenario:
        return self.plan.scenario

    @cached_property
    def runtime(self) -> Runtime:
        return open_runtime(self.plan.runtime, self.folder.path)

    @cached_property
    def release(self) -> servers.Release:
        return servers.Release(self.plan.kafka_version, self.plan.jars, self.plan.mode, self.plan.java, self.plan.agent)

    def access(self, name: str) -> Access | None:
        """Return a node's credentials for the brokers; None if they use plaintext."""
        return servers.access_of(self.scenario.cluster, self.folder.work, name)

    @cached_property
    def _own_access(self) -> Access | None:
        return self.access(WORLD)

    @cached_property
    def prefix(self) -> str:
        """Return the first three bytes of every node's address, which are reserved once."""
        return (self.folder.work / "prefix").read_text()

    @property
    def has_addresses(self) -> bool:
        """Return whether addresses were reserved; no node starts before that."""
        return (self.folder.work / "prefix").exists()

    def reserve_addresses(self) -> None:
        prefix = self.runtime.reserve(self.plan.subnet)
        write_atomically(self.folder.work / "prefix", prefix)

    @cached_property
    def metadata_nodes(self) -> list[Node]:
        """Return KRaft's controllers, or the ZooKeeper node."""
        addresses = [f"{self.prefix}.{HOST - index}" for index in range(MAX_CONTROLLERS)]
        return servers.metadata_nodes_of(self.release, self.scenario.cluster, addresses, self.folder.work)

    @property
    def servers(self) -> list[Node]:
        """Return controllers or ZooKeeper, then brokers: the order in which they start."""
        return [*self.metadata_nodes, *self.brokers.values()]

    @cached_property
    def brokers(self) -> dict[int, Node]:
        cluster = self.scenario.cluster
        return {
            number: servers.broker_node(
                self.release, cluster, number, f"{self.prefix}.{HOST + number}", self.folder.work
            )
            for number in cluster.broker_ids.values()
        }

    def node(self, number: int) -> Node:
        """Return the broker or controller with this id."""
        return next(node for node in self.servers if node.node_id == number)

    def client_address(self, index: int) -> str:
        return f"{self.prefix}.{HOST + self.scenario.cluster.brokers + 1 + index}"

    @property
    def bootstrap(self) -> list[str]:
        return [f"{node.address}:{PORTS['CLIENT']}" for node in self.brokers.values()]

    def start(self, node: Node) -> None:
        """Start a node and record its incarnation.

        Raises:
            HarnessError: the run is being torn down; nothing was started.
        """
        self._check_lives()
        counts = self._incarnations()
        counts[node.name] = counts.get(node.name, 0) + 1
        write_atomically(self.folder.work / "incarnations.json", json.dumps(counts))
        version: dict[str, str] = {}
        if node.role in SERVERS:
            build = self.build_of(node)
            node = servers.with_jars(node, self.plan.jars, build.jars)
            if archive := self.class_archive(build.jars):
                node = class_archive.with_archive(node, archive)
            version = {"kafka_version": build.version}
        self.runtime.start(node)
        self._check_lives()
        self.events.add("node_started", target=node.name, incarnation=counts[node.name], role=node.role, **version)

    def _check_lives(self) -> None:
        if (self.folder.work / TORN_DOWN).exists():
            self.runtime.remove_all()
            raise HarnessError(f"Run {self.folder.run_id} was torn down meanwhile: no node of it may be started.")

    def build_of(self, node: Node) -> Build:
        """Return the Kafka build that a server uses from its next start."""
        own = Build(version=self.plan.kafka_version, jars=self.plan.jars, origin=self.plan.origin)
        return self.plan.builds.get(self._binaries().get(node.name, ""), own)

    def class_archive(self, jars: Path) -> Path | None:
        """Return the class archive for servers of these jars; None if the scenario's JVM is not ``fast_start``."""
        if self.scenario.cluster.jvm != "fast_start" or self.scenario.cluster.jvm_flags:
            return None
        return class_archive.archive_of(jars, self.plan.java, self.plan.mode)

    def replace_binaries(self, node: Node, kafka: str | None) -> None:
        """Set the Kafka build that a server uses from its next start; None restores the run's first one."""
        binaries = {**self._binaries(), node.name: kafka or ""}
        write_atomically(self.folder.work / "binaries.json", json.dumps(binaries))

    def _binaries(self) -> dict[str, str]:
        return self._noted("binaries.json")

    def configure(self, node: Node, settings: Mapping[str, str]) -> None:
        """Set the settings that a server uses from its next start.

        Raises:
            HarnessError: the file is a link, which the build under test may have made.
        """
        path = node.folder / "server.properties"
        with opened(node, path, os.O_RDWR) as descriptor, open(descriptor, "r+", closefd=False) as file:
            changed = servers.change(file.read(), settings)
            file.seek(0)
            file.truncate()
            file.write(changed)

    def _incarnations(self) -> dict[str, int]:
        return self._noted("incarnations.json")

    def _noted(self, file: str) -> dict[str, Any]:
        """Return the notes of this run's earlier tasks by node; empty before the first."""
        try:
            found: dict[str, Any] = json.loads((self.folder.work / file).read_text())
        except FileNotFoundError:
            return {}
        return found

    def incarnation(self, broker_id: int) -> int:
        return self._incarnations().get(f"broker-{broker_id}", 0)

    def incarnation_of(self, node: Node) -> int:
        """Return the number of starts of a node."""
        return self._incarnations().get(node.name, 0)

    # --- queries to the brokers ------------------------------------------------------------------

    @property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, partition)
            for name, topic in self.scenario.topics.items()
            for partition in range(topic.partitions)
        ]

    def replicas(self, partition: TopicPartition) -> list[int]:
        """Return the currently assigned broker ids of a partition, preferred leader first."""
        if partition in self.moved:
            return self.moved[partition]
        topic = self.scenario.topics[partition.topic]
        return topic.assigned(partition.partition, self.scenario.cluster.broker_ids)

    def partitions_of(self, number: int) -> list[TopicPartition]:
        """Return the partitions that currently have a replica on a broker."""
        return [partition for partition in self.partitions if number in self.replicas(partition)]

    def connection(self, number: int) -> Connection:
        """Return a cached connection to a broker's PROBE listener or to a controller."""
        if number not in self._connections:
            node = self.node(number)
            listener: Listener = "CONTROLLER" if node.role == "controller" else "PROBE"
            self._connections[number] = self.connect(node, listener, self._answer_limit_s)
        return self._connections[number]

    def connect(
        self,
        node: Node,
        listener: Listener,
        timeout_s: float = REQUEST_LIMIT_S,
        *,
        client_id: str = WORLD,
        forwards_to_controller: bool = False,
    ) -> Connection:
        """Return a new connection, which opens on first use."""
        access = None if listener == "CONTROLLER" else self._own_access
        return Connection(
            node.address,
            PORTS[listener],
            timeout_s,
            client_id,
            access=access,
            forwards_to_controller=forwards_to_controller,
        )

    def features(self) -> dict[str, str]:
        """Return the finalised features that a broker reports (see ``clusters.kafka.features``).

        Raises:
            HarnessError: as ``ask``.
        """
        numbers = {node.address: number for number, node in self.brokers.items()}
        return self.ask(lambda broker: features.finalised(broker, numbers[broker.host], self.plan.mode))

    def ask(self, what: Callable[[Connection], T]) -> T:
        """Send an operator's request to the brokers in turn, until one accepts or forwards it.

        Brokers reject it while there is no controller (ZooKeeper: until the session expires).

        Raises:
            HarnessError: no broker responds, or the cluster rejected the request.
        """
        patience = chain(ASKED_FOR_S, repeat(ASKED_FOR_S[-1]))
        failed: OSError | NoController | None = None

        def answered() -> tuple[T] | None:
            nonlocal failed
            limit_s = next(patience)
            for number in [number for number, view in self.views().items() if view]:
                node, kraft = self.brokers[number], self.plan.mode == "kraft"
                with self.connect(node, "PROBE", limit_s, forwards_to_controller=kraft) as broker:
                    try:
                        return (what(broker),)
                    except (OSError, NoController) as error:
                        failed = error
            return None

        limit_s = SESSIONS * self.scenario.cluster.session_timeout
        try:
            (answer,) = wait_until(answered, limit_s=limit_s, every_s=ASKED_AGAIN_S, what="a broker that can be asked")
        except WaitTimeout:
            raise HarnessError("No broker answers that could be asked for this; start or join one first.") from failed
        return answer

    def view_of(self, broker_id: int) -> ClusterView | None:
        """Return a broker's cluster metadata; None if the broker does not respond."""
        try:
            return metadata(self.connection(broker_id), list(self.scenario.topics))
        except OSError:
            return None

    def views(self, without: int | None = None) -> dict[int, ClusterView | None]:
        """Return every broker's metadata; parallel queries make paused brokers cost one time-out in all."""
        asked = [number for number in self.brokers if number != without]
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            return dict(zip(asked, pool.map(self.view_of, asked), strict=True))

    def quorum(self) -> QuorumView | None:
        """Return the metadata quorum as its leader reports it, of two leaders the later one."""
        with ThreadPoolExecutor(len(self.metadata_nodes)) as pool:
            views = [view for view in pool.map(self._quorum_of, self.metadata_nodes) if view]
        return max(views, key=lambda view: view.leader_epoch, default=None)

    def _quorum_of(self, controller: Node) -> QuorumView | None:
        try:
            return describe_quorum(self.connection(broker_id(controller)))
        except OSError:
            return None

    def active_controller(self) -> int | None:
        """Return the active controller's id (a broker's in ZooKeeper mode); None if no broker knows one."""
        if self.plan.mode == "kraft":
            quorum = self.quorum()
            return quorum.leader if quorum else None
        # A disconnected broker may report an older one.
        told = Counter(view.controller_id for view in self.views().values() if view)
        return next((number for number, _ in told.most_common() if number in self.brokers), None)

    def probe_error(self, number: int) -> str | None:
        """Return how a broker or controller fails to respond: ``timeout`` or ``unreachable``; None if it responds."""
        try:
            if number in self.brokers:
                metadata(self.connection(number), [])
            else:
                describe_quorum(self.connection(number))
        except TimeoutError:
            return "timeout"
        except OSError:
            return "unreachable"
        return None

    def current_views(self, partition: TopicPartition, without: int | None = None) -> list[PartitionView]:
        """Return the metadata that can include a partition's current ISR (see ``current_views_of``)."""
        return self.current_views_of([partition], without)[partition]

    def current_views_of(
        self, partitions: Iterable[TopicPartition], without: int | None = None
    ) -> dict[TopicPartition, list[PartitionView]]:
        """Return the views that can know each partition's ISR: its leader's, else all of its epoch.

        A broker that was disconnected or paused reports old metadata, so views of an older leader epoch than seen
        before do not count; within an epoch, old and new ISRs look alike. ``without``: a broker not to query.
        """
        seen: dict[TopicPartition, dict[int, PartitionView]] = {partition: {} for partition in partitions}
        for broker_id, cluster in self.views(without).items():
            for view in cluster.partitions if cluster else ():
                if (where := TopicPartition(view.topic, view.partition)) in seen:
                    seen[where][broker_id] = view
        return {partition: self._current(partition, views) for partition, views in seen.items()}

    def _current(self, partition: TopicPartition, views: Mapping[int, PartitionView]) -> list[PartitionView]:
        newest = max([self._newest.get(partition, -1), *(view.leader_epoch for view in views.values())])
        self._newest[partition] = newest
        current = {broker_id: view for broker_id, view in views.items() if view.leader_epoch == newest}
        own = [view for broker_id, view in current.items() if view.leader == broker_id]
        return own or list(current.values())

    def partition_view(self, partition: TopicPartition, without: int | None = None) -> PartitionView | None:
        """Return one of ``current_views``; all of them agree on the leader."""
        return next(iter(self.current_views(partition, without)), None)

    def partition_views(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionView | None]:
        """Return ``current_view`` of many partitions, with one query for each broker."""
        return {partition: next(iter(views), None) for partition, views in self.current_views_of(partitions).items()}

    def sample(self, broker_id: int, partition: TopicPartition) -> ReplicaSample | None:
        """Query a replica's own offsets; None if the broker does not respond."""
        return self.samples(broker_id, [partition]).get(partition)

    def samples(self, broker_id: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        """Query the offsets of many replicas of a broker; empty if the broker does not respond."""
        try:
            found = BrokerProbe(self.connection(broker_id), set(partitions)).sample()
        except OSError:
            return {}
        return {TopicPartition(sample.topic, sample.partition): sample for sample in found}

    def registered(self, number: int) -> bool:
        """Return whether another broker lists this one; for a controller, whether it fetched all that is committed."""
        if number not in self.brokers:
            quorum = self.quorum()
            return quorum is not None and (
                number == quorum.leader or quorum.voters.get(number, -1) >= quorum.high_watermark
            )
        others = (view for other, view in self.views().items() if other != number)
        return any(view is not None and number in view.brokers for view in others)

    def wait_for_brokers(self, broker_ids: list[int] | None = None) -> None:
        """Wait until brokers respond and each of them knows all the others.

        Raises:
            WaitTimeout: with the state and the last log lines of the brokers that are missing.
            HarnessError: one of them has ended, and its log says why.
        """
        wanted = set(broker_ids or self.brokers)

        def all_known() -> bool:
            views = {broker_id: self.view_of(broker_id) for broker_id in wanted}
            silent = [self.brokers[broker_id] for broker_id, view in views.items() if view is None]
            if ended := [node for node in silent if self.runtime.state(node.name) == "exited"]:
                raise HarnessError(f"Not all brokers start: {'; '.join(map(self.describe_node, ended))}.")
            return all(view is not None and wanted <= view.brokers.keys() for view in views.values())

        wait_until(
            all_known,
            limit_s=START_LIMIT_S,
            what=f"{len(wanted)} brokers to know each other",
            every_s=0.1,
            last_seen=lambda: self._missing(wanted),
        )

    def _missing(self, wanted: set[int]) -> str:
        silent = [broker_id for broker_id in sorted(wanted) if self.view_of(broker_id) is None]
        return "; ".join(self.describe_node(self.brokers[broker_id]) for broker_id in silent) or "all answer"

    def describe_node(self, node: Node) -> str:
        """Return a node's state and last log lines for an error message."""
        try:
            lines = node.log.read_text(errors="replace").splitlines()[-4:]
        except FileNotFoundError:
            lines = ["(no log)"]
        return f"{node.name} is {self.runtime.state(node.name)}, its log ends: {' / '.join(lines)[-700:]}"


def missing_replicas(world: World, wanted: Mapping[TopicPartition, Iterable[int]]) -> list[tuple[TopicPartition, int]]:
    """Return the wanted replicas whose broker reports no log end.

    A new partition's ISR is full before brokers have made its logs.
    """
    of_broker: dict[int, list[TopicPartition]] = {}
    for partition, numbers in wanted.items():
        for number in numbers:
            of_broker.setdefault(number, []).append(partition)
    missing = []
    for number, own in of_broker.items():
        found = world.samples(number, own)
        missing += [(each, number) for each in own if each not in found or found[each].log_end_offset is None]
    return missing


def broker_id(node: Node) -> int:
    """Return the broker id of a broker's node."""
    if node.node_id is None:
        raise HarnessError(f"{node.name} is no broker; it has no id.")
    return node.node_id
