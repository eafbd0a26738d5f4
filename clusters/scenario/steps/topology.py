"""Steps that ask Kafka itself: who leads, who has a replica, which settings hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Letter, Node, Partition, Replica
from clusters.scenario.values import BytesPerSecond, Seconds, Settings
from history.partition import TopicPartition
from history.traits import Trait


class Elect(Step):
    """Give leadership back to the preferred leader of every partition; or, where none leads, to any live replica."""

    key = "elect"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    shorthand = "who"
    who: Literal["preferred", "unclean"]


class TransferLeadership(Step):
    """Let a replica lead its partition: put it first in the assignment, then elect the preferred leader."""

    key = "transfer_leadership"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    shorthand = "replica"
    replica: Replica


class Reassign(Step):
    """Move a topic's partitions to other brokers; ``to`` reads as ``replicas`` of a topic. Moved back to heal."""

    key = "reassign"
    traits = frozenset({Trait.MAY_MOVE_LEADER, Trait.MOVES_REPLICAS})
    fault = True
    topic: str
    to: list[Letter] = Field(min_length=1)
    limit: Seconds = 60.0

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, 0)]

    @property
    def letters(self) -> list[str]:
        return self.to


class ChurnLeadership(Step):
    """Move a partition's leadership to and fro, each move as soon as the one before is seen."""

    key = "churn_leadership"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    fault = True
    partition: Partition
    between: list[Letter] = Field(min_length=2)
    times: int = Field(gt=0)

    @property
    def letters(self) -> list[str]:
        return self.between


class DeleteRecords(Step):
    """Move a partition's log start forward (KIP-107); what was deleted stays deleted."""

    key = "delete_records"
    traits = frozenset[Trait]()
    fault = True
    partition: Partition
    before: Annotated[int, Field(gt=0)] | Literal["high_watermark"] = "high_watermark"


class Configure(Step):
    """Change dynamic settings of a topic or of a broker; taken back to heal."""

    key = "configure"
    traits = frozenset[Trait]()
    fault = True
    topic: str | None = None
    broker: Node | None = None
    set: Settings = Field(min_length=1)

    @model_validator(mode="after")
    def _of_one_thing(self) -> Configure:
        if (self.topic is None) == (self.broker is None):
            raise ValueError("configure names either a topic or a broker")
        return self

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, 0)] if self.topic else []


class Throttle(Step):
    """Limit what a broker replicates while it is not in sync (KIP-73); a member of the ISR is never throttled."""

    key = "throttle"
    traits = frozenset({Trait.HOLDS_BACK_FOLLOWER})
    fault = True
    node: Node
    rate: BytesPerSecond


STEPS: tuple[type[Step], ...] = (
    Elect,
    TransferLeadership,
    Reassign,
    ChurnLeadership,
    DeleteRecords,
    Configure,
    Throttle,
)
