"""Faults of a broker's process: SIGKILL, SIGTERM, and a freeze."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clusters.faults import Evidence
from clusters.nodes import Node
from clusters.waiting import wait_until
from clusters.world import World

STOP_LIMIT_S = 30.0
START_LIMIT_S = 60.0


@dataclass
class Ended:
    """Brokers whose process is ended by a signal and started again to heal."""

    world: World
    nodes: list[Node]
    key: ClassVar[str] = "kill"
    signal: ClassVar[str] = "SIGKILL"

    def inject(self) -> None:
        for node in self.nodes:
            self.world.runtime.kill(node.name, self.signal)

    def bit(self) -> Evidence:
        """The broker's PROBE port refuses connections."""
        for node in self.nodes:
            wait_until(
                lambda node=node: self.world.probe_error(_id(node)) == "unreachable",  # type: ignore[misc]  # mypy cannot type a lambda with a default
                limit_s=STOP_LIMIT_S,
                what=f"{node.name} to refuse connections after {self.signal}",
                last_seen=lambda node=node: self.world.describe_node(node),  # type: ignore[misc]  # as above
            )
        return {"probe": "connection refused", "state": {n.name: self.world.runtime.state(n.name) for n in self.nodes}}

    def heal(self) -> None:
        for node in self.nodes:
            self._await_session_end(node)
            self.world.start(node)

    def _await_session_end(self, node: Node) -> None:
        """A ZooKeeper broker that comes back before its session ended dies with NodeExistsException."""
        others = [other for other in self.world.brokers if other != node.node_id]
        if self.world.plan.mode == "zookeeper" and any(self.world.view_of(other) for other in others):
            wait_until(
                lambda: not self.world.registered(_id(node)),
                limit_s=2 * self.world.scenario.cluster.session_timeout + 10,
                what=f"the session of {node.name} to end",
            )

    def gone(self) -> Evidence:
        """The broker answers again and other brokers list it as alive; started again if it died on the way."""

        def back(node: Node) -> bool:
            if self.world.runtime.state(node.name) == "exited":
                self.world.start(node)
            alone = len(self.world.brokers) == 1
            return self.world.probe_error(_id(node)) is None and (alone or self.world.registered(_id(node)))

        for node in self.nodes:
            wait_until(
                lambda node=node: back(node),  # type: ignore[misc]  # mypy cannot type a lambda with a default
                limit_s=START_LIMIT_S,
                every_s=0.2,
                what=f"{node.name} to answer and be registered again",
                last_seen=lambda node=node: self.world.describe_node(node),  # type: ignore[misc]  # as above
            )
        return {"probe": "answers", "registered": True}


@dataclass
class Killed(Ended):
    """SIGKILL: no controlled shutdown, the page cache keeps what was written."""


@dataclass
class Stopped(Ended):
    """SIGTERM: a controlled shutdown; leadership moves first."""

    key: ClassVar[str] = "stop"
    signal: ClassVar[str] = "SIGTERM"


@dataclass
class Paused:
    """Frozen brokers: their connections stay open and nothing answers."""

    world: World
    nodes: list[Node]
    key: ClassVar[str] = "pause"

    def inject(self) -> None:
        for node in self.nodes:
            self.world.runtime.pause(node.name)

    def bit(self) -> Evidence:
        """The kernel still accepts, the broker does not answer: time-outs instead of refusals."""
        for node in self.nodes:
            wait_until(
                lambda node=node: self.world.probe_error(_id(node)) == "timeout",  # type: ignore[misc]  # mypy cannot type a lambda with a default
                limit_s=10,
                what=f"{node.name} to stop answering",
            )
        return {"probe": "timeout"}

    def heal(self) -> None:
        for node in self.nodes:
            if self.world.runtime.state(node.name) == "paused":
                self.world.runtime.resume(node.name)

    def gone(self) -> Evidence:
        for node in self.nodes:
            wait_until(
                lambda node=node: self.world.probe_error(_id(node)) is None,  # type: ignore[misc]  # mypy cannot type a lambda with a default
                limit_s=30,
                what=f"{node.name} to answer again",
            )
        return {"probe": "answers"}


def _id(node: Node) -> int:
    assert node.node_id is not None  # brokers always have one
    return node.node_id
