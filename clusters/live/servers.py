"""Represent a run's brokers and metadata nodes, and what can be done to them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from clusters.kafka import class_archive
from clusters.kafka.builds import Build
from clusters.kafka.servers import Release, broker_node, change, metadata_nodes_of, with_jars
from clusters.live.files import Files
from clusters.live.plan import Plan
from clusters.runtimes.addresses import HOST
from clusters.runtimes.nodes import Node, opened
from clusters.runtimes.runtime import NodeState, Runtime
from history.errors import HarnessError
from history.folder import RunFolder, read_notes, write_atomically

MAX_CONTROLLERS = 3
PREFIX = "prefix"  # a file in work/ with the first three bytes of every node's address, which are reserved once
_BINARIES = "binaries.json"  # in work/: node → upgrade target
ROLES = frozenset({"broker", "controller", "zookeeper"})


class Software(Protocol):
    """Change what a server runs from its next start."""

    def configure(self, node: Node, settings: Mapping[str, str]) -> None:
        """Set settings; raise HarnessError if the file is a link, which the build under test may have made."""
        ...

    def replace_binaries(self, node: Node, kafka: str | None) -> None:
        """Set the Kafka build; None restores the run's first one."""
        ...


class Servers(Protocol):
    """A run's servers; those of others may lack metadata nodes and optional parts (None)."""

    @property
    def brokers(self) -> Mapping[int, Node]: ...

    @property
    def metadata_nodes(self) -> Sequence[Node]:
        """Return KRaft's controllers, or the ZooKeeper node."""
        ...

    @property
    def software(self) -> Software | None: ...

    @property
    def files(self) -> Files | None: ...

    def start(self, node: Node) -> dict[str, str]:
        """Start a server; return what its event ``node_started`` has in addition."""
        ...

    def kill(self, node: Node, signal: str) -> None: ...

    def pause(self, node: Node) -> None: ...

    def resume(self, node: Node) -> None: ...

    def state(self, node: Node) -> NodeState: ...

    def exit_status(self, node: Node) -> int | None: ...

    @property
    def return_by_themselves(self) -> bool:
        """Return whether somebody else starts a server that has ended."""
        return False

    def limit_s(self, _action: str) -> float | None:
        """Return how long an action may take to show, such as kill or start; None: the default."""
        return None

    def was_silent(self, _node: Node) -> bool:
        """Return whether a server is known not to have answered since it was ended."""
        return False

    @property
    def nodes(self) -> list[Node]:
        """Return metadata nodes, then brokers: the order in which they start."""
        return [*self.metadata_nodes, *self.brokers.values()]

    def node(self, number: int) -> Node:
        return next(node for node in self.nodes if node.node_id == number)


class MadeServers(Servers):
    """Servers that Plimsoll makes and a runtime runs; the run folder holds lasting state."""

    def __init__(self, folder: RunFolder, plan: Plan, runtime: Runtime) -> None:
        self._work, self._plan, self._runtime = folder.work, plan, runtime

    @cached_property
    def brokers(self) -> dict[int, Node]:
        cluster = self._plan.scenario.cluster
        return {
            number: broker_node(self.release, cluster, number, f"{self.prefix}.{HOST + number}", self._work)
            for number in cluster.broker_ids.values()
        }

    @cached_property
    def metadata_nodes(self) -> list[Node]:
        addresses = [f"{self.prefix}.{HOST - index}" for index in range(MAX_CONTROLLERS)]
        return metadata_nodes_of(self.release, self._plan.scenario.cluster, addresses, self._work)

    @property
    def software(self) -> Software:
        return self

    @property
    def files(self) -> Files:
        return Files()

    @cached_property
    def release(self) -> Release:
        cluster = self._plan.made
        return Release(cluster.kafka_version, cluster.jars, cluster.mode, self._plan.java, cluster.agent)

    @cached_property
    def prefix(self) -> str:
        return (self._work / PREFIX).read_text()

    def reserve_addresses(self) -> None:
        write_atomically(self._work / PREFIX, self._runtime.reserve(self._plan.made.subnet))

    def start(self, node: Node) -> dict[str, str]:
        build = self.build_of(node)
        node = with_jars(node, self._plan.made.jars, build.jars)
        if archive := self.class_archive(build.jars):
            node = class_archive.with_archive(node, archive)
        self._runtime.start(node)
        return {"kafka_version": build.version}

    def kill(self, node: Node, signal: str) -> None:
        self._runtime.kill(node.name, signal)

    def pause(self, node: Node) -> None:
        self._runtime.pause(node.name)

    def resume(self, node: Node) -> None:
        self._runtime.resume(node.name)

    def state(self, node: Node) -> NodeState:
        return self._runtime.state(node.name)

    def exit_status(self, node: Node) -> int | None:
        return self._runtime.exit_status(node.name)

    def build_of(self, node: Node) -> Build:
        return self._plan.made.builds.get(self._binaries().get(node.name, ""), self._plan.made.build)

    def class_archive(self, jars: Path) -> Path | None:
        """Return the class archive for servers of these jars; None if the scenario's JVM is not ``fast_start``."""
        cluster = self._plan.scenario.cluster
        if cluster.jvm != "fast_start" or cluster.jvm_flags:
            return None
        return class_archive.archive_of(jars, self._plan.java, self._plan.mode)

    def replace_binaries(self, node: Node, kafka: str | None) -> None:
        write_atomically(self._work / _BINARIES, json.dumps({**self._binaries(), node.name: kafka or ""}))

    def _binaries(self) -> dict[str, str]:
        return read_notes(self._work / _BINARIES)

    def configure(self, node: Node, settings: Mapping[str, str]) -> None:
        path = node.folder / "server.properties"
        with opened(node, path, os.O_RDWR) as descriptor, open(descriptor, "r+", closefd=False) as file:
            changed = change(file.read(), settings)
            file.seek(0)
            file.truncate()
            file.write(changed)


def described(node: Node, state: NodeState) -> str:
    """Return a node's state and last log lines for an error message."""
    try:
        lines = node.log.read_text(errors="replace").splitlines()[-4:]
    except FileNotFoundError:
        lines = ["(no log)"]
    return f"{node.name} is {state}, its log ends: {' / '.join(lines)[-700:]}"


def broker_id(node: Node) -> int:
    """Return the broker id of a broker's node."""
    if node.node_id is None:
        raise HarnessError(f"{node.name} is no broker; it has no id.")
    return node.node_id
