"""Steps that damage a broker's disk or data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Node, Partition
from clusters.scenario.values import BytesPerSecond
from history.traits import DOWN, SLOWED, Trait


class FillDisk(Step):
    """Fill a broker's private small disk (``cluster.disks``); it gives up its log directory and exits."""

    key = "fill_disk"
    traits = DOWN
    shorthand = "node"
    fault = True
    needs = frozenset({"disks"})
    node: Node


class ReadOnlyDisk(Step):
    """Make a broker's log directory read-only; it gives up the directory and exits."""

    key = "read_only_disk"
    traits = DOWN
    shorthand = "node"
    fault = True
    needs = frozenset({"disks"})
    node: Node


class FailLogDir(Step):
    """Make one of a broker's log directories, that of a replica, read-only; it continues with the others."""

    key = "fail_log_dir"
    traits = frozenset(
        {
            Trait.SILENCES_PROBE,
            Trait.MAY_BE_UNREACHABLE,
            Trait.MAY_MOVE_LEADER,
            Trait.HOLDS_BACK_FOLLOWER,
            Trait.RECOVERY_EXPECTED,
        }
    )
    fault = True
    needs = frozenset({"disks"})
    node: Node
    partition: Partition


class SlowDisk(Step):
    """Limit a broker's disk to ``rate``; applies to what is written through to it (``flush.messages``)."""

    key = "slow_disk"
    traits = SLOWED
    kernel = ("blk_throttle",)
    fault = True
    needs = frozenset({"resource_limits"})
    node: Node
    rate: BytesPerSecond


class Wipe(Step):
    """Remove all topic data of a broker that is down."""

    key = "wipe"
    traits = frozenset({Trait.NEW_LOG, Trait.LOSES_RECORDS, Trait.MAY_MOVE_LEADER})
    shorthand = "node"
    fault = True
    of_dead = True
    node: Node


class Truncate(Step):
    """Truncate a replica's last segment, by batches or bytes, while its broker is down."""

    key = "truncate"
    traits = frozenset({Trait.NEW_LOG, Trait.LOSES_RECORDS, Trait.MAY_MOVE_LEADER})
    fault = True
    of_dead = True
    node: Node
    partition: Partition
    records: Annotated[int, Field(gt=0)] | None = None
    bytes: Annotated[int, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one_measure(self) -> Truncate:
        if (self.records is None) == (self.bytes is None):
            raise ValueError("truncate takes either records or bytes")
        return self


class DeleteCheckpoint(Step):
    """Delete a checkpoint file of a broker that is down."""

    key = "delete_checkpoint"
    traits = frozenset[Trait]()
    fault = True
    of_dead = True
    node: Node
    what: Literal["high watermark checkpoint", "log start checkpoint", "recovery point checkpoint"]


class FlipBit(Step):
    """Flip one bit of a batch on a broker's disk; permanent, as Kafka does not look for it."""

    key = "flip_bit"
    traits = frozenset({Trait.NEW_LOG})
    fault = True
    node: Node
    partition: Partition
    offset: int = Field(ge=0)


STEPS: tuple[type[Step], ...] = (
    FillDisk,
    ReadOnlyDisk,
    FailLogDir,
    SlowDisk,
    Wipe,
    Truncate,
    DeleteCheckpoint,
    FlipBit,
)
