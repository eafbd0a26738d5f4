"""Cut, limit, delay or lose traffic between nodes, with kernel rules set from outside.

Rules in the node's network namespace also hold for a paused node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Literal, get_args

from clusters.faults import Evidence, Fault
from clusters.faults.hooked import HookDisconnected
from clusters.faults.phase import PhaseRun, performs
from clusters.live.attached import AttachedServers
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS, Listener
from clusters.runtimes.runtime import Flow, LimitCounters, Network, available
from clusters.scenario.steps import network as steps
from clusters.scenario.steps.network import Direction
from clusters.scenario.targets import Target
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout

Peer = Node | Literal["clients", "controller"]

LIMIT_S = 10.0
LATE = 0.8
_REQUESTS_AT: dict[str, Listener] = {"broker": "REPLICATION", "controller": "CONTROLLER", "zookeeper": "ZOOKEEPER"}


@dataclass(frozen=True)
class TcpPath:
    """Describe connections to or from a port of the node or ``peer`` (None: any)."""

    node: str
    peer: str | None
    port: int
    own: bool

    @property
    def arriving(self) -> Flow:
        return Flow(self.peer, self.node, self.port, "destination" if self.own else "source")

    @property
    def leaving(self) -> Flow:
        return Flow(self.node, self.peer, self.port, "source" if self.own else "destination")


def tcp_paths(world: World, node: Node, peers: Sequence[Peer], direction: Direction) -> Iterator[TcpPath]:
    """Yield the TCP paths to peers: ``in`` is requests to the node, ``out`` from it."""
    for peer in peers:
        if peer == "clients":
            yield TcpPath(node.address, None, node.endpoints["CLIENT"].port, own=True)
            continue
        for other in world.servers.metadata_nodes if peer == "controller" else [peer]:
            if other == node:
                continue
            if direction != "out" and _sends_requests(other, node):
                yield TcpPath(node.address, other.address, node.endpoints[_REQUESTS_AT[node.role]].port, own=True)
            if direction != "in" and _sends_requests(node, other):
                yield TcpPath(node.address, other.address, other.endpoints[_REQUESTS_AT[other.role]].port, own=False)


def _sends_requests(client: Node, server: Node) -> bool:
    return client.role in ("broker", server.role)


@dataclass
class Dropping(Fault):
    """Drop the packets of some flows at ``node``."""

    world: World
    network: Network
    node: Node
    key: str
    flows: Sequence[Flow]
    patience: float = 1.0  # for rules that drop only some packets
    _dropped: int | None = field(default=None, init=False)

    @property
    def nodes(self) -> list[Node]:
        return [self.node]

    @property
    def rule(self) -> str:
        return f"{self.key}-{hashlib.sha256(repr(self.flows).encode()).hexdigest()[:12]}"

    def inject(self) -> None:
        self.network.drop_packets(self.node, self.rule, list(self.flows))

    def verify_injected(self) -> Evidence:
        """Wait until a packet is dropped; a paused node sends none, so check only the rule."""
        if self.world.state(self.node) == "paused":
            return self._in_place()
        packets = wait_until(
            partial(self.network.dropped_packets, self.node, self.rule),
            limit_s=LIMIT_S * self.patience,
            what=f"the kernel to drop a packet of {self.node.name}",
        )
        return {"packets": packets}

    def _in_place(self) -> Evidence:
        packets = self.network.dropped_packets(self.node, self.rule)
        if packets is None:
            raise WaitTimeout(f"The kernel lists no rule {self.rule} at {self.node.name}.")
        return {"packets": packets, "rules": len(self.flows)}

    def heal(self) -> None:
        self._dropped = self.network.stop_dropping(self.node, self.rule)

    def verify_cleared(self) -> Evidence:
        if self._dropped is None or self.network.dropped_packets(self.node, self.rule) is not None:
            raise WaitTimeout(f"The kernel still lists the rule {self.rule} at {self.node.name}.")
        return {"packets": self._dropped, "rules": 0}


@dataclass
class MultiNodeFault(Fault):
    """Combine a fault at several nodes."""

    parts: Sequence[Dropping]
    key: str

    @property
    def nodes(self) -> list[Node]:
        return [part.node for part in self.parts]

    @property
    def rule(self) -> str:
        return " ".join(part.rule for part in self.parts)

    def inject(self) -> None:
        for part in self.parts:
            part.inject()

    def verify_injected(self) -> Evidence:
        return _added_up([part.verify_injected() for part in self.parts])

    def heal(self) -> None:
        for part in self.parts:
            part.heal()

    def verify_cleared(self) -> Evidence:
        return _added_up([part.verify_cleared() for part in self.parts])


def _added_up(found: list[Evidence]) -> Evidence:
    return {name: sum(each.get(name, 0) for each in found) for evidence in found for name in evidence}


def disconnect_each(
    world: World, network: Network, nodes: Sequence[Node], peers: Sequence[Peer], direction: Direction
) -> MultiNodeFault:
    """Disconnect nodes from the same peers; skip the only peer itself."""
    parts = [cut(world, network, node, peers, direction) for node in nodes]
    return MultiNodeFault([part for part in parts if part.flows] or parts, steps.Disconnect.key)


def cut(world: World, network: Network, node: Node, peers: Sequence[Peer], direction: Direction) -> Dropping:
    """Block the traffic between a node and its peers.

    ``answers`` drops only the last packet (PSH) of each response: without acknowledgements TCP senders soon stop.
    """
    if direction == "answers":
        flows = [way.arriving._replace(response_ends=True) for way in tcp_paths(world, node, peers, "out")]
    else:
        found = tcp_paths(world, node, peers, direction)
        flows = [flow for way in found for flow in (way.arriving, way.leaving)]
    return Dropping(world, network, node, steps.Disconnect.key, flows)


def lose(world: World, network: Network, node: Node, peers: Sequence[Node], percent: float) -> Dropping:
    """Drop ``percent`` of other brokers' packets to the node."""
    flows = [way.arriving._replace(share=percent / 100) for way in tcp_paths(world, node, peers, "both")]
    # Idle brokers exchange few packets.
    return Dropping(world, network, node, steps.Lose.key, flows, patience=min(max(20 / percent, 1.0), 10.0))


@dataclass
class _Classed(Fault):
    """Route the senders' traffic to replica fetchers through a kernel traffic class."""

    world: World
    network: Network
    node: Node
    senders: Sequence[Node]
    throttles_fetches = True

    @property
    def nodes(self) -> list[Node]:
        return [self.node]

    def verify_injected(self) -> Evidence:
        """Wait until a class has counted bytes; a paused node may receive nothing."""
        running = self.world.state(self.node) == "running"

        def through_the_classes() -> list[int] | None:
            passed = [limited.passed_bytes for limited in self._limited() if limited]
            return passed if len(passed) == len(self.senders) and (any(passed) or not running) else None

        passed = wait_until(through_the_classes, limit_s=LIMIT_S, what=f"traffic to {self.node.name} in the limit")
        return {"passed_bytes": sum(passed)}

    def heal(self) -> None:
        self.network.restore_ingress(self.node, list(self.senders))

    def verify_cleared(self) -> Evidence:
        wait_until(
            lambda: not any(self._limited()),
            limit_s=LIMIT_S,
            what=f"the limit on traffic to {self.node.name} to be gone",
        )
        return {"classes": 0}

    def _limited(self) -> list[LimitCounters | None]:
        return [self.network.limited(self.node, sender) for sender in self.senders]


@dataclass
class LimitedBandwidth(_Classed):
    """Limit each sender to ``bytes_per_s``."""

    bytes_per_s: float
    key: str = steps.LimitBandwidth.key
    _seen_bytes: int = field(default=0, init=False)
    _held_back: int = field(default=0, init=False)

    def inject(self) -> None:
        self.network.limit_ingress(self.node, list(self.senders), PORTS["REPLICATION"], self.bytes_per_s)

    def heal(self) -> None:
        self._limited()
        super().heal()

    def verify_cleared(self) -> Evidence:
        """Verify the recovery; only traffic that was held back proves an effect."""
        return {**super().verify_cleared(), "passed_bytes": self._seen_bytes, "held_back": self._held_back}

    def _limited(self) -> list[LimitCounters | None]:
        found = super()._limited()
        counted = [limited for limited in found if limited]
        self._seen_bytes = max(self._seen_bytes, sum(limited.passed_bytes for limited in counted))
        self._held_back = max(self._held_back, sum(limited.held_back for limited in counted))
        return found


@dataclass
class Delayed(_Classed):
    """Delay packets, except ``overtaking`` per cent; needs the kernel's sch_netem."""

    by_s: float
    key: str = steps.Delay.key
    overtaking: float = 0.0
    _quickest_s: dict[str, float] = field(default_factory=dict, init=False)

    def inject(self) -> None:
        self._quickest_s = {sender.name: min(self._round_trips_s(sender)) for sender in self.senders}
        port = PORTS["REPLICATION"]
        self.network.delay_ingress(self.node, list(self.senders), port, self.by_s, self.overtaking)

    def verify_injected(self) -> Evidence:
        passed = super().verify_injected()
        now_s = {sender.name: self._await(sender, self._is_late) for sender in self.senders}
        return {**passed, "round_trip_ms": {"before": _ms(self._quickest_s), "now": _ms(now_s)}}

    def verify_cleared(self) -> Evidence:
        cleared = super().verify_cleared()
        return {
            **cleared,
            "round_trip_ms": {"now": _ms({s.name: self._await(s, self._is_quick) for s in self.senders})},
        }

    def _is_late(self, sender: Node, taken_s: list[float]) -> bool:
        late = [each - self._quickest_s[sender.name] >= LATE * self.by_s for each in taken_s]
        return all(late) if not self.overtaking else any(late) and not all(late)

    def _is_quick(self, sender: Node, taken_s: list[float]) -> bool:
        return min(taken_s) - self._quickest_s[sender.name] < LATE * self.by_s

    def _await(self, sender: Node, holds: Callable[[Node, list[float]], bool]) -> float:
        taken_s: list[float] = []

        def measured() -> bool:
            taken_s[:] = self._round_trips_s(sender)
            return holds(sender, taken_s)

        wait_until(
            measured,
            limit_s=LIMIT_S,
            what=f"round trips from {self.node.name} to {sender.name} to show the {self.key} or its end",
            last_seen=lambda: f"{', '.join(f'{each * 1000:.1f}' for each in taken_s)} ms",
        )
        return median(taken_s)

    def _round_trips_s(self, sender: Node) -> list[float]:
        return self.network.round_trips_s(self.node, sender, PORTS["REPLICATION"])


def _ms(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(each * 1000, 1) for name, each in seconds.items()}


@performs(steps.Disconnect)
def _disconnect(run: PhaseRun, step: steps.Disconnect) -> None:
    nodes, peers = run.nodes(step.node), _peers(run, step.peers)
    if isinstance(run.world.servers, AttachedServers):
        for node in nodes:
            run.inject(HookDisconnected(run.world, run.world.servers, node, peers, step.direction), step)
    else:
        run.inject(disconnect_each(run.world, _network(run), nodes, peers, step.direction), step)


@performs(steps.Reconnect)
def _reconnect(run: PhaseRun, step: steps.Reconnect) -> None:
    nodes, peers = run.nodes(step.node), _peers(run, step.peers)
    if isinstance(run.world.servers, AttachedServers):
        run.heal_on(nodes, step.ends, lambda fault: isinstance(fault, HookDisconnected) and fault.peers == peers)
        return
    rules = {
        disconnect_each(run.world, _network(run), nodes, peers, direction).rule for direction in get_args(Direction)
    }
    run.heal_on(nodes, step.ends, lambda fault: isinstance(fault, MultiNodeFault) and fault.rule in rules)


@performs(steps.LimitBandwidth)
def _limit_bandwidth(run: PhaseRun, step: steps.LimitBandwidth) -> None:
    run.inject(LimitedBandwidth(run.world, _network(run), *_unlimited(run, step), step.rate), step)


@performs(steps.Delay, steps.Reorder)
def _delay(run: PhaseRun, step: steps.Delay | steps.Reorder) -> None:
    run.inject(Delayed(run.world, _network(run), *_unlimited(run, step), step.by, step.key, step.percent), step)


@performs(steps.RestoreBandwidth)
def _restore_bandwidth(run: PhaseRun, step: steps.RestoreBandwidth) -> None:
    run.heal_on([run.node(step.into)], step.ends)


@performs(steps.Lose)
def _lose(run: PhaseRun, step: steps.Lose) -> None:
    run.inject(lose(run.world, _network(run), *_receiver_and_senders(run, step), step.percent), step)


def _network(run: PhaseRun) -> Network:
    return available(run.world.runtime.network, "network between its nodes")


def _peers(run: PhaseRun, peers: list[Any]) -> list[Peer]:
    return [node for peer in peers for node in (run.nodes(peer) if isinstance(peer, Target) else [peer])]


def _receiver_and_senders(run: PhaseRun, step: steps.FromBrokers) -> tuple[Node, list[Node]]:
    node = run.node(step.into)
    if step.senders is None:
        return node, [other for other in run.world.servers.brokers.values() if other != node]
    return node, [sender for target in step.senders for sender in run.nodes(target)]


def _unlimited(run: PhaseRun, step: steps.FromBrokers) -> tuple[Node, list[Node]]:
    """Return receiver and senders if no other limit uses the kernel's one traffic class."""
    node, senders = _receiver_and_senders(run, step)
    if any(fault.throttles_fetches for fault in run.active([node])):
        raise HarnessError(f"The traffic into {node.name} is limited or delayed already; end that first.")
    return node, senders
