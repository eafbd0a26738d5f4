"""Represent a run as one object: plan, events, nodes, and what brokers report.

Each task opens its own world; the run folder holds lasting state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from clusters.attached.cluster_file import access_of as access_of_file
from clusters.attached.guard import Guard
from clusters.kafka.access import Access
from clusters.kafka.servers import access_of
from clusters.live.attached import AttachedServers, guard_of
from clusters.live.plan import read_plan
from clusters.live.reports import WORLD, Reports
from clusters.live.servers import PREFIX, ROLES, MadeServers, Servers, described
from clusters.runtimes import open_runtime
from clusters.runtimes.addresses import HOST
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import NodeState, Runtime
from clusters.scenario.durations import longest_phase_s
from clusters.scenario.scenario import Scenario
from history.errors import HarnessError
from history.events import EventLog
from history.folder import RunFolder, read_notes, write_atomically
from history.manifest import read_manifest
from history.partition import TopicPartition

TORN_DOWN = "torn_down"  # a file in work/ that keeps an abandoned task from starting nodes again
_INCARNATIONS = "incarnations.json"  # in work/: node → number of starts


class World:
    """A run: ``servers`` are its brokers and metadata nodes, ``runtime`` runs its clients."""

    def __init__(self, run: Path, answer_limit_s: float | None = None) -> None:
        self.folder = RunFolder(run.resolve())
        self.events = EventLog(self.folder.events)
        self.plan = read_plan(self.folder)
        self._answer_limit_s = answer_limit_s
        self.moved: dict[TopicPartition, list[int]] = {}  # partitions that a step has reassigned

    @classmethod
    @contextmanager
    def open(cls, run: Path, answer_limit_s: float | None = None) -> Iterator[World]:
        """Open a run's world, and close its connections at the end; ``answer_limit_s`` as for ``Reports``."""
        world = cls(run, answer_limit_s)
        try:
            yield world
        finally:
            if "reports" in vars(world):  # else no connection was opened
                world.reports.close()

    @property
    def scenario(self) -> Scenario:
        return self.plan.scenario

    @cached_property
    def runtime(self) -> Runtime:
        return open_runtime(self.plan.runtime, self.folder.path)

    @cached_property
    def servers(self) -> Servers:
        if self.plan.attached:
            longest_s = max(map(longest_phase_s, self.scenario.phases))
            return AttachedServers(self.plan.attached, self.folder, self.events, self.access(WORLD), longest_s)
        return MadeServers(self.folder, self.plan, self.runtime)

    @cached_property
    def guard(self) -> Guard | None:
        """Return what protects others on the cluster; None for our own."""
        if self.plan.attached is None:
            return None
        began_ns = read_manifest(self.folder.manifest).started_ns
        return guard_of(self.plan.attached, self.reports, self.events, frozenset(self.scenario.topics), began_ns)

    @cached_property
    def reports(self) -> Reports:
        return Reports(self.servers, self.plan, self.access(WORLD), self._answer_limit_s)

    def access(self, name: str) -> Access | None:
        """Return a node's credentials for the brokers; None if they use plaintext."""
        if self.plan.attached:
            return access_of_file(self.plan.attached.description, self.folder.work)
        return access_of(self.scenario.cluster, self.folder.work, name)

    def client_address(self, index: int) -> str:
        """Return a client's address; empty if the cluster gives none."""
        prefix, host = self.folder.work / PREFIX, HOST + self.scenario.cluster.brokers + 1 + index
        return f"{prefix.read_text()}.{host}" if self.plan.attached is None else ""

    @property
    def bootstrap(self) -> list[str]:
        return [str(node.endpoints["CLIENT"]) for node in self.servers.brokers.values()]

    def start(self, node: Node) -> None:
        """Start a node and record its incarnation.

        Raises:
            HarnessError: the run is being torn down; nothing was started.
        """
        self._check_lives()
        incarnation = self._count_start(node)
        detail: dict[str, str] = {}
        if node.role in ROLES:
            detail = self.servers.start(node)
        else:
            self.runtime.start(node)
        self._check_lives()
        self._note_start(node, incarnation, **detail)

    def note_start(self, node: Node) -> None:
        """Record the incarnation of a broker that runs already, or comes back by itself."""
        self._note_start(node, self._count_start(node))

    def _count_start(self, node: Node) -> int:
        counts = {**self._incarnations(), node.name: self.incarnation(node) + 1}
        write_atomically(self.folder.work / _INCARNATIONS, json.dumps(counts))
        return counts[node.name]

    def _note_start(self, node: Node, incarnation: int, **detail: str) -> None:
        self.events.add("node_started", target=node.name, incarnation=incarnation, role=node.role, **detail)

    def _check_lives(self) -> None:
        if (self.folder.work / TORN_DOWN).exists():
            self.runtime.remove_all()
            raise HarnessError(f"Run {self.folder.run_id} was torn down meanwhile: no node of it may be started.")

    def kill(self, node: Node, signal: str) -> None:
        if node.role in ROLES:
            self.servers.kill(node, signal)
        else:
            self.runtime.kill(node.name, signal)

    def pause(self, node: Node) -> None:
        if node.role in ROLES:
            self.servers.pause(node)
        else:
            self.runtime.pause(node.name)

    def resume(self, node: Node) -> None:
        if node.role in ROLES:
            self.servers.resume(node)
        else:
            self.runtime.resume(node.name)

    def state(self, node: Node) -> NodeState:
        return self.servers.state(node) if node.role in ROLES else self.runtime.state(node.name)

    def describe_node(self, node: Node) -> str:
        return described(node, self.state(node))

    def incarnation(self, node: Node) -> int:
        return self._incarnations().get(node.name, 0)

    def _incarnations(self) -> dict[str, int]:
        return read_notes(self.folder.work / _INCARNATIONS)

    @cached_property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, partition)
            for name, topic in self.scenario.topics.items()
            for partition in range(topic.partitions)
        ]

    def replicas(self, partition: TopicPartition) -> list[int]:
        """Return a partition's current broker ids, preferred leader first."""
        if partition in self.moved:
            return self.moved[partition]
        topic = self.scenario.topics[partition.topic]
        return topic.assigned(partition.partition, self.scenario.cluster.broker_ids)

    def partitions_of(self, number: int) -> list[TopicPartition]:
        return [partition for partition in self.partitions if number in self.replicas(partition)]
