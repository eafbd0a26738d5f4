"""Limit a broker's CPU or disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from clusters.faults import Evidence, Fault
from clusters.faults.phase import PhaseRun, performs
from clusters.live.servers import broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import ResourceLimits, available
from clusters.scenario.steps import disks
from clusters.scenario.steps.processes import LimitCpu
from clusters.waiting import wait_until

LIMIT_S = 30.0
THROTTLED_PERIODS = 25  # 0.5 s in total
MIN_PROBE_BYTES = 65_536
MIN_SHARE, MAX_SHARE = 0.8, 0.5  # of a write's duration at the limit: with and without it


@dataclass
class Limited(Fault):
    """Limit brokers' resource; heal restores the scenario's limits."""

    world: World
    limits: ResourceLimits
    nodes: list[Node]
    key: ClassVar[str]
    limit: ClassVar[str]
    _limits_before: dict[str, str] = field(default_factory=dict, init=False)

    def inject(self) -> None:
        for node in self.nodes:
            self._limits_before[node.name] = self._limit(node)
            self.note_before(node)
        self.hold()

    def hold(self) -> None:
        """Set the limit, also after restarts: a new container has none."""
        for node in self._running():
            self.set_limit(node)

    def note_started(self) -> None:
        self.hold()

    def heal(self) -> None:
        for node in self._running():
            self.lift_limit(node)

    def _running(self) -> list[Node]:
        return [node for node in self.nodes if self.world.state(node) != "exited"]

    def verify_cleared(self) -> Evidence:
        for node in self.nodes:
            wait_until(
                partial(self._is_as_before, node),
                limit_s=LIMIT_S,
                what=f"{node.name} to have its {self.limit} back",
                last_seen=partial(self._limit, node),
            )
        return {self.limit: list(self._limits_before.values()), "probe": "answers"}

    def _is_as_before(self, node: Node) -> bool:
        return (
            self._limit(node) == self._limits_before[node.name]
            and self.world.reports.probe_error(broker_id(node)) is None
        )

    def _limit(self, node: Node) -> str:
        return self.spell(str(self.limits.in_effect(node).get(self.limit, "")))

    def spell(self, limit: str) -> str:
        return limit

    def note_before(self, node: Node) -> None:
        raise NotImplementedError

    def set_limit(self, node: Node) -> None:
        raise NotImplementedError

    def lift_limit(self, node: Node) -> None:
        raise NotImplementedError


@dataclass
class LimitedCpu(Limited):
    """Limit brokers' CPU time."""

    cpus: float
    key: ClassVar[str] = LimitCpu.key
    limit: ClassVar[str] = "cpu_quota"
    _throttled: dict[str, float] = field(default_factory=dict, init=False)

    def note_before(self, node: Node) -> None:
        self._throttled[node.name] = self._periods(node)

    def set_limit(self, node: Node) -> None:
        self.limits.limit_cpu(node.name, self.cpus, None)

    def lift_limit(self, node: Node) -> None:
        resource_limits = self.world.scenario.cluster.resource_limits
        self.limits.limit_cpu(node.name, resource_limits.cpus if resource_limits else None, None)

    def spell(self, limit: str) -> str:
        return limit.partition(" ")[0]

    def verify_injected(self) -> Evidence:
        return {
            "throttled_periods": [
                wait_until(
                    partial(self._held_back, node),
                    limit_s=LIMIT_S,
                    what=f"the kernel to hold {node.name} to {self.cpus:g} CPUs",
                    last_seen=partial(self._limit, node),
                )
                for node in self.nodes
            ]
        }

    def _held_back(self, node: Node) -> int | None:
        grown = self._periods(node) - self._throttled[node.name]
        return int(grown) if grown >= THROTTLED_PERIODS else None

    def _periods(self, node: Node) -> float:
        return self.world.runtime.usage(node.name).get("cpu_throttled_periods", 0.0)


@dataclass
class SlowDisk(Limited):
    """Limit the bytes per second that brokers can flush to disk.

    A flushed write is timed in the broker's control group: a kernel limit may not apply to this disk.
    """

    rate: float
    key: ClassVar[str] = disks.SlowDisk.key
    limit: ClassVar[str] = "disk_write"
    _write_s: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def _probe_bytes(self) -> int:
        return max(int(self.rate), MIN_PROBE_BYTES)

    @property
    def _limited_s(self) -> float:
        return self._probe_bytes / self.rate

    def note_before(self, node: Node) -> None:
        self._write_s[node.name] = self.limits.time_write(node, self._probe_bytes)

    def set_limit(self, node: Node) -> None:
        self.limits.limit_disk(node, self.rate)

    def lift_limit(self, node: Node) -> None:
        self.limits.limit_disk(node, None)

    def verify_injected(self) -> Evidence:
        during = [
            wait_until(
                partial(self._timed, node),
                limit_s=LIMIT_S,
                what=f"a flushed write of {self._probe_bytes} bytes to the disk of {node.name} to take "
                f"{self._limited_s:.1f} s, not {self._write_s[node.name]:.2f} s",
                last_seen=partial(self._limit, node),
            )
            for node in self.nodes
        ]
        return {"write_bytes": self._probe_bytes, "before_s": self._before_s, "write_s": during}

    @property
    def _before_s(self) -> list[float]:
        return [round(took, 3) for took in self._write_s.values()]

    def _timed(self, node: Node) -> float | None:
        took = self.limits.time_write(node, self._probe_bytes)
        slower = took >= MIN_SHARE * self._limited_s and self._write_s[node.name] <= MAX_SHARE * self._limited_s
        return round(took, 3) if slower else None

    def verify_cleared(self) -> Evidence:
        found = super().verify_cleared()
        for node in self.nodes:
            wait_until(
                partial(self._is_quick, node),
                limit_s=LIMIT_S,
                what=f"a flushed write to the disk of {node.name} to take less than {self._limited_s:.1f} s",
            )
        return found

    def _is_quick(self, node: Node) -> bool:
        return self.limits.time_write(node, self._probe_bytes) <= MAX_SHARE * self._limited_s


@performs(LimitCpu)
def _limit_cpu(run: PhaseRun, step: LimitCpu) -> None:
    limits = available(run.world.runtime.resource_limits, "resource limits")
    run.inject(LimitedCpu(run.world, limits, run.nodes(step.node), step.cpus), step)


@performs(disks.SlowDisk)
def _slow_disk(run: PhaseRun, step: disks.SlowDisk) -> None:
    limits = available(run.world.runtime.resource_limits, "resource limits")
    run.inject(SlowDisk(run.world, limits, run.nodes(step.node), step.rate), step)
