"""A broker that runs with too little."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from clusters.faults import Evidence
from clusters.live.world import World, broker_id
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import ResourceLimits
from clusters.waiting import wait_until

LIMIT_S = 30.0
THROTTLED_PERIODS = 25  # half a second of them


@dataclass
class LimitedCpu:
    """Brokers that get little CPU time; to heal they have what the scenario allows them again."""

    world: World
    limits: ResourceLimits
    nodes: list[Node]
    cpus: float
    key: ClassVar[str] = "limit_cpu"
    _quotas: dict[str, str] = field(default_factory=dict)
    _throttled: dict[str, float] = field(default_factory=dict)

    def inject(self) -> None:
        for node in self.nodes:
            self._quotas[node.name] = self._quota(node)
            self._throttled[node.name] = self._periods(node)
        self.hold()

    def hold(self) -> None:
        """Set the quota, which goes with its container: a broker that is started again has none."""
        for node in self.nodes:
            if self.world.runtime.state(node.name) != "exited":
                self.limits.limit_cpu(node.name, self.cpus, None)

    def verify_injected(self) -> Evidence:
        """The kernel counts periods in which it held the broker back."""
        return {
            "throttled_periods": [
                wait_until(
                    partial(self._held_back, node),
                    limit_s=LIMIT_S,
                    what=f"the kernel to hold {node.name} to {self.cpus:g} CPUs",
                    last_seen=partial(self._quota, node),
                )
                for node in self.nodes
            ]
        }

    def _held_back(self, node: Node) -> int | None:
        grown = self._periods(node) - self._throttled[node.name]
        return int(grown) if grown >= THROTTLED_PERIODS else None

    def heal(self) -> None:
        allowance = self.world.scenario.cluster.allowance
        for node in self.nodes:
            if self.world.runtime.state(node.name) != "exited":
                self.limits.limit_cpu(node.name, allowance.cpus if allowance else None, None)

    def verify_cleared(self) -> Evidence:
        """The kernel's quota reads as before, and the broker answers."""
        for node in self.nodes:
            wait_until(
                partial(self._is_as_before, node),
                limit_s=LIMIT_S,
                what=f"{node.name} to have its CPU time back",
                last_seen=partial(self._quota, node),
            )
        return {"cpu_quota": list(self._quotas.values()), "probe": "answers"}

    def _is_as_before(self, node: Node) -> bool:
        return self._quota(node) == self._quotas[node.name] and self.world.probe_error(broker_id(node)) is None

    def _quota(self, node: Node) -> str:
        """Microseconds a period, or ``max``; the period's length says nothing where there is no quota."""
        return str(self.limits.in_effect(node).get("cpu_quota", "")).partition(" ")[0]

    def _periods(self, node: Node) -> float:
        return self.world.runtime.usage(node.name).get("cpu_throttled_periods", 0.0)
