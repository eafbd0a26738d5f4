"""Steps that pause, stop, start or replace a node's process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_serializer

from clusters.scenario.steps.step import Duration, Step
from clusters.scenario.targets import Node
from clusters.scenario.values import MetadataVersion, Seconds, Settings
from history.kafka_settings import Kind
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


class _OfNode(Step):
    shorthand = "node"
    may_target = frozenset({"broker", "controller", "member"})
    node: Node


class _OfServer(Step):
    may_target = frozenset({"broker", "controller"})
    node: Node


class Pause(_OfNode):
    """Pause a node (SIGSTOP): its connections stay open without answers."""

    key = "pause"
    example = "followers of orders-0"
    traits = DOWN
    needs = frozenset({"pause"})
    fault = True


class Resume(_OfNode):
    """Resume a paused node."""

    key = "resume"
    example = "C"
    traits = frozenset[Trait]()
    needs = frozenset({"pause"})
    ends = (Pause.key,)


class Kill(_OfNode):
    """Kill a node with SIGKILL."""

    key = "kill"
    example = "leader of orders-0"
    traits = DOWN
    needs = frozenset({"kill", "start"})
    fault = True


class Stop(_OfNode):
    """Stop a node with SIGTERM: a controlled shutdown."""

    key = "stop"
    example = "follower of orders-0"
    traits = DOWN
    needs = frozenset({"stop", "start"})
    fault = True


class LimitCpu(Step):
    """Limit a broker's CPU time."""

    key = "limit_cpu"
    example = "{node: leader of orders-0, cpus: 0.1}"
    traits = SLOWED
    kernel = ("cfs_bandwidth",)
    fault = True
    needs = frozenset({"resource_limits"})
    node: Node
    cpus: float = Field(ge=0.05, allow_inf_nan=False)


class Start(_OfNode):
    """Start a node that was killed or stopped."""

    key = "start"
    example = "leader of orders-0"
    traits = frozenset[Trait]()
    needs = frozenset({"start"})
    ends = (Kill.key, Stop.key)


class Restart(_OfNode):
    """Stop with SIGTERM and start again, optionally with other settings from then on."""

    key = "restart"
    example = "brokers"
    traits = frozenset[Trait]()
    needs = frozenset({"stop", "start"})
    settings: Settings = Field(default_factory=dict, alias="with")

    @property
    def required(self) -> frozenset[str]:
        return super().required | {"settings"} if self.settings else super().required

    @property
    def breaks(self) -> list[str]:
        return [Stop.key]

    def check(self, _: object) -> None:
        if self.node.kind == "member" and self.settings:
            raise ValueError("a member takes no settings of brokers; leave out with")

    @property
    def settings_changed(self) -> tuple[str, Kind, Iterable[str]]:
        return "restart.with", "broker", self.settings

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


class Bounce(_OfServer):
    """Restart the holder of a role several times; the role is resolved each time."""

    key = "bounce"
    example = "{node: leader of orders-0, times: 3, by: kill}"
    traits = frozenset[Trait]()
    needs = frozenset({"kill", "stop", "start"})
    times: int = Field(ge=1)
    by: Literal["stop", "kill"] = "stop"

    @property
    def required(self) -> frozenset[str]:
        return super().required - {"kill", "stop"} | {self.by}

    @property
    def breaks(self) -> list[str]:
        return [self.by] * self.times


class CrashLoop(_OfServer):
    """Kill a broker repeatedly, some time after each start."""

    key = "crash_loop"
    example = "{node: B, times: 3, after: 1s}"
    traits = frozenset[Trait]()
    needs = frozenset({"kill", "start"})
    times: int = Field(ge=1)
    after: Seconds

    @property
    def breaks(self) -> list[str]:
        return [Kill.key] * self.times

    @property
    def duration(self) -> Duration:
        return super().duration.plus(self.after * self.times)


class _Replace(_OfServer):
    may_lack_controllers = True

    @property
    def breaks(self) -> list[str]:
        return [] if self.node.role == "controllers" else [Stop.key]  # ZooKeeper mode has none


class Upgrade(_Replace):
    """Stop with SIGTERM and start with another Kafka, one node after the other; the finalised version is not
    changed.
    """

    key = "upgrade"
    example = "{node: controllers, kafka: 3.9.1}"
    traits = frozenset[Trait]()
    needs = frozenset({"stop", "start", "binaries"})
    kafka: Annotated[str, Field(min_length=1)]

    @property
    def upgrades_to(self) -> str:
        return self.kafka


class Rollback(_Replace):
    """Stop with SIGTERM and start with the run's first Kafka; possible until the upgrade is finalised."""

    key = "rollback"
    example = "A"
    traits = frozenset[Trait]()
    needs = frozenset({"stop", "start", "binaries"})
    shorthand = "node"
    kafka: ClassVar[None] = None


class Finalise(Step):
    """Finalise a release: set metadata.version, or each broker's inter.broker.protocol.version."""

    key = "finalise"
    example = '"3.9"'
    traits = frozenset[Trait]()
    needs = frozenset({"stop", "start", "settings"})
    shorthand = "to"
    to: MetadataVersion

    @property
    def finalises(self) -> str:
        return self.to


class KillCopier(Step):
    """Kill the copier with SIGKILL and restart it at once, ``times`` times."""

    key = "kill_copier"
    example = "2"
    traits = frozenset[Trait]()
    shorthand = "times"
    times: int = Field(default=1, ge=1)

    @property
    def breaks(self) -> list[str]:
        return [self.key] * self.times
