"""Disconnect brokers of a cluster that somebody else runs, by hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from clusters.faults import Evidence, Fault
from clusters.live.attached import AttachedServers
from clusters.live.servers import broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.steps.network import Direction, Disconnect
from clusters.waiting import wait_until

Peer = Node | Literal["clients", "controller"]

MARGIN_S = 30.0  # on top of the time after which a silent replica leaves the ISR
LAG_SETTING, DEFAULT_LAG_MS = "replica.lag.time.max.ms", 30_000


@dataclass
class HookDisconnected(Fault):
    """Run a hook for a node and each peer; the ISR, the registration or the probe shows the effect.

    A hook's exit code proves nothing, and nobody counts packets on a foreign host.
    """

    world: World
    servers: AttachedServers
    node: Node
    peers: Sequence[Peer]
    direction: Direction
    key: ClassVar[str] = Disconnect.key
    _shown: str = field(default="", init=False)

    @property
    def nodes(self) -> list[Node]:
        return [self.node]

    def inject(self) -> None:
        self._run("disconnect")

    def heal(self) -> None:
        self._run("reconnect")

    def _run(self, hook: str) -> None:
        for peer in self.peers:
            name, host = (peer.node_id, peer.address) if isinstance(peer, Node) else (peer, "")
            self.servers.run_hook(hook, self.node, peer=name, peer_host=host, direction=self.direction)

    def verify_injected(self) -> Evidence:
        self._shown = wait_until(
            self._effect, limit_s=self._limit_s, what=f"an effect of the disconnect of {self.node.name}"
        )
        return {"probe": self._shown}

    def verify_cleared(self) -> Evidence:
        wait_until(
            lambda: not self._effect(), limit_s=self._limit_s, what=f"{self.node.name} to be connected to all again"
        )
        return {"probe": f"no longer: {self._shown}"}

    @property
    def _limit_s(self) -> float:
        settings = self.world.plan.foreign.brokers[broker_id(self.node)].settings
        return int(settings.get(LAG_SETTING, DEFAULT_LAG_MS)) / 1000 + MARGIN_S

    def _effect(self) -> str:
        """Return what shows that the node is cut off, or an empty text."""
        number = broker_id(self.node)
        if "clients" in self.peers and self.world.reports.probe_error(number):
            return "it does not answer"
        if not self.world.reports.registered(number):
            return "the controller does not list it"
        others = {broker_id(peer) for peer in self.peers if isinstance(peer, Node)}
        for where, view in self.world.reports.partition_views(self.world.partitions_of(number)).items():
            if view is None or view.leader < 0:
                return f"{where} has no leader"
            if others & set(view.replicas) and not (others & set(view.replicas) | {number}) <= set(view.isr):
                return f"the ISR of {where} is {view.isr}"
        return ""
