"""Steps that pause, stop, start or replace a node's process."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_serializer

from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Node
from clusters.scenario.values import MetadataVersion, Seconds, Settings
from history.traits import DOWN, SLOWED, Trait

# The judge's expectations depend on these.
FIXED_SETTINGS = frozenset(
    {
        "log.cleanup.policy",
        "min.insync.replicas",
        "replica.lag.time.max.ms",
        "unclean.leader.election.enable",
        "zookeeper.session.timeout.ms",
    }
)


class Pause(Step):
    """Pause a node (SIGSTOP): its connections stay open without answers."""

    key = "pause"
    traits = DOWN
    shorthand = "node"
    fault = True
    of_controllers = True
    of_members = True
    node: Node


class Resume(Step):
    """Resume a paused node."""

    key = "resume"
    traits = frozenset[Trait]()
    ends = ("pause",)
    shorthand = "node"
    of_controllers = True
    of_members = True
    node: Node


class Kill(Step):
    """Kill a node with SIGKILL."""

    key = "kill"
    traits = DOWN
    shorthand = "node"
    fault = True
    of_controllers = True
    of_members = True
    node: Node


class Stop(Step):
    """Stop a node with SIGTERM: a controlled shutdown."""

    key = "stop"
    traits = DOWN
    shorthand = "node"
    fault = True
    of_controllers = True
    of_members = True
    node: Node


class LimitCpu(Step):
    """Limit a broker's CPU time."""

    key = "limit_cpu"
    traits = SLOWED
    kernel = ("cfs_bandwidth",)
    fault = True
    needs = frozenset({"resource_limits"})
    node: Node
    cpus: float = Field(ge=0.05, allow_inf_nan=False)


class Start(Step):
    """Start a node that was killed or stopped."""

    key = "start"
    traits = frozenset[Trait]()
    ends = (
        "kill",
        "stop",
    )
    shorthand = "node"
    of_controllers = True
    of_members = True
    node: Node


class Restart(Step):
    """Stop with SIGTERM and start again, optionally with other settings from then on."""

    key = "restart"
    traits = frozenset[Trait]()
    shorthand = "node"
    of_controllers = True
    of_members = True
    node: Node
    settings: Settings = Field(default_factory=dict, alias="with")

    @property
    def breaks(self) -> list[str]:
        return ["stop"]

    @field_validator("settings")
    @classmethod
    def _what_must_hold_stays(cls, value: dict[str, str]) -> dict[str, str]:
        """Reject settings that the judge reads from the manifest for the whole run."""
        if fixed := FIXED_SETTINGS & value.keys():
            raise ValueError(f"{min(fixed)} cannot be changed within a run; set it under cluster or topics")
        return value

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        return {self.key: {"node": str(self.node), **({"with": self.settings} if self.settings else {})}}


class Bounce(Step):
    """Restart the holder of a role several times; the role is resolved each time."""

    key = "bounce"
    traits = frozenset[Trait]()
    of_controllers = True
    node: Node
    times: int = Field(ge=1)
    by: Literal["stop", "kill"] = "stop"

    @property
    def breaks(self) -> list[str]:
        return [self.by] * self.times


class CrashLoop(Step):
    """Kill a broker repeatedly, some time after each start."""

    key = "crash_loop"
    traits = frozenset[Trait]()
    of_controllers = True
    node: Node
    times: int = Field(ge=1)
    after: Seconds

    @property
    def breaks(self) -> list[str]:
        return ["kill"] * self.times


class Upgrade(Step):
    """Stop with SIGTERM and start with another Kafka, one node after the other; the finalised version is not
    changed.
    """

    key = "upgrade"
    traits = frozenset[Trait]()
    of_controllers = True
    node: Node
    kafka: Annotated[str, Field(min_length=1)]

    @property
    def breaks(self) -> list[str]:
        return [] if self.node.role == "controllers" else ["stop"]  # ZooKeeper mode has none


class Rollback(Step):
    """Stop with SIGTERM and start with the run's first Kafka; possible until the upgrade is finalised."""

    key = "rollback"
    traits = frozenset[Trait]()
    shorthand = "node"
    of_controllers = True
    node: Node

    @property
    def breaks(self) -> list[str]:
        return [] if self.node.role == "controllers" else ["stop"]


class Finalise(Step):
    """Finalise a release: set metadata.version, or each broker's inter.broker.protocol.version."""

    key = "finalise"
    traits = frozenset[Trait]()
    shorthand = "to"
    to: MetadataVersion


class KillCopier(Step):
    """Kill the copier with SIGKILL and restart it at once, ``times`` times."""

    key = "kill_copier"
    traits = frozenset[Trait]()
    shorthand = "times"
    times: int = Field(default=1, ge=1)

    @property
    def breaks(self) -> list[str]:
        return [self.key] * self.times


STEPS: tuple[type[Step], ...] = (
    Pause,
    Resume,
    Kill,
    Stop,
    LimitCpu,
    Start,
    Restart,
    Bounce,
    CrashLoop,
    Upgrade,
    Rollback,
    Finalise,
    KillCopier,
)
