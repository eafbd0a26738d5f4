"""Steps that damage a broker's disk or data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Node, Partition
from clusters.scenario.values import BytesPerSecond
from history.traits import DOWN, SLOWED, Trait

if TYPE_CHECKING:
    from clusters.scenario.scenario import Scenario


class _DiskFault(Step):
    fault = True
    node: Node


class _OnHost(_DiskFault):
    """A fault in the host's file system, which does not contain the small disks of ``cluster.disks``."""

    needs = frozenset({"files"})

    def check(self, scenario: Scenario) -> None:
        small = scenario.cluster.disks.keys()
        if self.node.name in small or (small and not self.node.name):
            raise ValueError("the host cannot access a disk of cluster.disks; choose another broker")


class _OfDownBroker(_OnHost):
    target_is_down = True


class FillDisk(_DiskFault):
    """Fill a broker's small disk (``cluster.disks``); the broker takes its log directory offline and exits."""

    key = "fill_disk"
    example = "B"
    traits = DOWN
    shorthand = "node"
    needs = frozenset({"disks", "files", "start"})

    def check(self, scenario: Scenario) -> None:
        named = {self.node.name} if self.node.name else scenario.cluster.broker_ids.keys()
        if not named <= scenario.cluster.disks.keys():
            raise ValueError(f"give {self.node.name or 'every broker'} a disk under cluster.disks")


class ReadOnlyDisk(_OnHost):
    """Make a broker's only log directory read-only; the broker takes it offline and exits."""

    key = "read_only_disk"
    example = "A"
    traits = DOWN
    shorthand = "node"
    needs = frozenset({"disks", "files", "start"})

    def check(self, scenario: Scenario) -> None:
        if scenario.cluster.log_dirs > 1:
            raise ValueError("its broker would continue with its other log directories; use fail_log_dir")
        super().check(scenario)


class FailLogDir(_DiskFault):
    """Make the log directory of a replica read-only; its broker continues with the other log directories."""

    key = "fail_log_dir"
    example = "{node: A, partition: orders-0}"
    traits = frozenset(
        {
            Trait.SILENCES_PROBE,
            Trait.MAY_BE_UNREACHABLE,
            Trait.MAY_MOVE_LEADER,
            Trait.HOLDS_BACK_FOLLOWER,
            Trait.RECOVERY_EXPECTED,
        }
    )
    needs = frozenset({"disks", "files", "stop", "start"})
    partition: Partition

    def check(self, scenario: Scenario) -> None:
        if scenario.cluster.log_dirs == 1:
            raise ValueError(
                "its broker has no other log directory and would exit; set cluster.log_dirs, or use read_only_disk"
            )


class SlowDisk(_OnHost):
    """Limit a broker's disk to ``rate``; only flushed writes notice it, so topics need ``flush.messages``."""

    key = "slow_disk"
    example = "{node: follower of orders-0, rate: 200kB/s}"
    traits = SLOWED
    kernel = ("blk_throttle",)
    needs = frozenset({"resource_limits"})
    rate: BytesPerSecond

    def check(self, scenario: Scenario) -> None:
        of_topics = any("flush.messages" in topic.config for topic in scenario.topics.values())
        if not of_topics and "log.flush.interval.messages" not in scenario.cluster.config:
            raise ValueError(
                "brokers write to the page cache, so that a slow disk has no effect; set flush.messages on a topic"
            )
        super().check(scenario)


class Wipe(_OfDownBroker):
    """Remove all topic data of a broker that is down."""

    key = "wipe"
    example = "C"
    traits = frozenset({Trait.NEW_LOG, Trait.LOSES_RECORDS, Trait.MAY_MOVE_LEADER})
    shorthand = "node"


class Truncate(_OfDownBroker):
    """Truncate a replica's last segment, by batches or bytes, while its broker is down."""

    key = "truncate"
    example = "{node: B, partition: orders-0, records: 100}"
    traits = frozenset({Trait.NEW_LOG, Trait.LOSES_RECORDS, Trait.MAY_MOVE_LEADER})
    partition: Partition
    records: Annotated[int, Field(gt=0)] | None = None
    bytes: Annotated[int, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one_measure(self) -> Truncate:
        if (self.records is None) == (self.bytes is None):
            raise ValueError("truncate takes either records or bytes")
        return self


class DeleteCheckpoint(_OfDownBroker):
    """Delete a checkpoint file of a broker that is down."""

    key = "delete_checkpoint"
    example = "{node: B, what: high watermark checkpoint}"
    traits = frozenset[Trait]()
    what: Literal["high watermark checkpoint", "log start checkpoint", "recovery point checkpoint"]


class FlipBit(_OnHost):
    """Flip one bit of a batch on a broker's disk; no step repairs it, and Kafka does not look for it."""

    key = "flip_bit"
    example = "{node: follower of orders-0, partition: orders-0, offset: 10}"
    traits = frozenset({Trait.NEW_LOG})
    partition: Partition
    offset: int = Field(ge=0)
