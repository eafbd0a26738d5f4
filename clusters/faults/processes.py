"""Kill (SIGKILL), stop (SIGTERM) and pause brokers and controllers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from clusters.faults import Evidence, Fault
from clusters.live.exits import end, record_exits
from clusters.live.resource_limits import limit_brokers, limit_clients
from clusters.live.servers import broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.steps.processes import Kill, Pause, Stop
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout

LIMIT_S = 60.0


def wait_for_each(
    world: World, nodes: list[Node], condition: Callable[[Node], bool], what: str, limit_s: float | None = None
) -> None:
    """Wait until each node meets the condition."""
    for node in nodes:
        wait_until(
            partial(condition, node),
            limit_s=limit_s or LIMIT_S,
            what=f"{node.name} to {what}",
            last_seen=partial(world.describe_node, node),
        )


@dataclass
class Ended(Fault):
    """End processes; start them again to heal."""

    world: World
    nodes: list[Node]
    key: ClassVar[str]
    signal: ClassVar[str]
    ends_nodes: ClassVar[Literal["inject", "heal"] | None] = "inject"
    _ended: dict[str, int] = field(default_factory=dict)  # node → its incarnation
    _killed: list[str] = field(default_factory=list)  # by force, before a restart
    _died: list[str] = field(default_factory=list)  # once per death during recovery

    def inject(self) -> None:
        for node in self.nodes:
            end(self.world, node, self.signal)
            self._ended[node.name] = self.world.incarnation(node)

    def verify_injected(self) -> Evidence:
        limit_s = self.world.servers.limit_s(self.key)
        wait_for_each(self.world, self.nodes, self._refuses, f"refuse connections after {self.signal}", limit_s)
        if not self.world.servers.return_by_themselves:
            return {"probe": "connection refused"}
        for node in self.nodes:
            self.world.note_start(node)
        return {"probe": "no answer", "returns_by_itself": True}

    def _refuses(self, node: Node) -> bool:
        refused = self.world.reports.probe_error(broker_id(node)) == "unreachable"
        return refused or self.world.servers.was_silent(node)

    def heal(self) -> None:
        for node in self.nodes:
            if self._ended.get(node.name) == self.world.incarnation(node):
                if not (self.world.plan.attached and node.role == "broker"):  # no hook is run twice
                    self._await_end(node)
                self.start_again(node)

    def _await_end(self, node: Node) -> None:
        """Wait for the end, else kill: a broker refuses connections long before its logs are closed."""
        try:
            wait_for_each(self.world, [node], self._has_ended, "end by itself")
        except WaitTimeout:
            self._killed.append(node.name)
            with suppress(HarnessError):
                end(self.world, node, "SIGKILL")
            wait_for_each(self.world, [node], self._has_ended, "end by SIGKILL")

    def _has_ended(self, node: Node) -> bool:
        return self.world.state(node) not in ("running", "paused")

    def start_again(self, node: Node) -> None:
        self._await_session_end(node)
        self.world.start(node)

    def _await_session_end(self, node: Node) -> None:
        """Wait for the end of a ZooKeeper session: a broker that starts earlier dies with NodeExistsException.

        After a timeout, ``verify_cleared`` restarts a broker that died this way.
        """
        others = [other for other in self.world.servers.brokers if other != node.node_id]
        if self.world.plan.mode == "zookeeper" and any(self.world.reports.view_of(other) for other in others):
            with suppress(WaitTimeout):
                wait_until(
                    lambda: not self.world.reports.registered(broker_id(node)),
                    limit_s=2 * self.world.scenario.cluster.session_timeout + 10,
                    what=f"the session of {node.name} to end",
                )

    def verify_cleared(self) -> Evidence:
        """Wait until others list the broker; a controller must have fetched everything committed."""
        limit_s = self.world.servers.limit_s("start")
        wait_for_each(self.world, self.nodes, self._is_back, "answer and be registered again", limit_s)
        limit_brokers(self.world, [node for node in self.nodes if node.role == "broker"])
        limit_clients(self.world, [node for node in self.nodes if node.role == "controller"])
        killed = {"killed": self._killed} if self._killed else {}
        died = {"died_coming_back": self._died} if self._died else {}
        return {"probe": "answers", "registered": True, **killed, **died}

    def _is_back(self, node: Node) -> bool:
        if record_exits(self.world, [node]):  # its session may not have ended
            self._died.append(node.name)
            self.world.start(node)
        number = broker_id(node)
        return self.world.reports.probe_error(number) is None and (
            self.world.reports.registered(number) or self._alone(number)
        )

    def _alone(self, number: int) -> bool:
        others = [other for other in self.world.servers.brokers if other != number]
        return number in self.world.servers.brokers and not any(self.world.reports.view_of(other) for other in others)


@dataclass
class Killed(Ended):
    """Kill nodes (SIGKILL): no controlled shutdown; the page cache keeps data."""

    key: ClassVar[str] = Kill.key
    signal: ClassVar[str] = "SIGKILL"


@dataclass
class Stopped(Ended):
    """Stop nodes (SIGTERM): a controlled shutdown."""

    key: ClassVar[str] = Stop.key
    signal: ClassVar[str] = "SIGTERM"


@dataclass
class Paused(Fault):
    """Pause nodes (SIGSTOP): connections stay open without responses."""

    world: World
    nodes: list[Node]
    key: ClassVar[str] = Pause.key
    _ended: list[Node] = field(default_factory=list)  # by another fault meanwhile

    def inject(self) -> None:
        for node in self.nodes:
            self.world.pause(node)

    def verify_injected(self) -> Evidence:
        """Wait for timeouts: the kernel accepts connections, the broker does not answer."""
        wait_for_each(self.world, self.nodes, self._silent, "stop answering", self.world.servers.limit_s(self.key))
        return {"probe": "timeout"}

    def _silent(self, node: Node) -> bool:
        return self.world.reports.probe_error(broker_id(node)) == "timeout"

    def heal(self) -> None:
        for node in self.nodes:
            if self.world.state(node) == "paused":
                self.world.resume(node)

    def note_ended(self, nodes: list[Node]) -> None:
        """Record nodes ended by another fault, which restarts them."""
        self._ended += [node for node in self.nodes if node in nodes]

    def hinders(self, ended: list[Node]) -> bool:
        return not any(node in ended for node in self.nodes)

    def verify_cleared(self) -> Evidence:
        wait_for_each(self.world, self.resumed(), self._answers, "answer again", self.world.servers.limit_s("resume"))
        return {"probe": "answers", **self.ended_meanwhile()}

    def resumed(self) -> list[Node]:
        return [node for node in self.nodes if node not in self._ended]

    def ended_meanwhile(self) -> Evidence:
        return {"ended": [node.name for node in self._ended]} if self._ended else {}

    def _answers(self, node: Node) -> bool:
        return self.world.reports.probe_error(broker_id(node)) is None
