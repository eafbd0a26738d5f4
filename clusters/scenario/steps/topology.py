"""Steps that change leadership, replicas or settings through Kafka itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Letter, Node, Partition, Replica
from clusters.scenario.values import BytesPerSecond, Seconds, Settings
from history.partition import TopicPartition
from history.traits import Trait


class Elect(Step):
    """Return leadership to every partition's preferred leader or, if a partition has no leader, elect any live
    replica.
    """

    key = "elect"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    shorthand = "who"
    who: Literal["preferred", "unclean"]


class TransferLeadership(Step):
    """Make a replica the leader: put it first in the assignment, then elect the preferred leader."""

    key = "transfer_leadership"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    shorthand = "replica"
    replica: Replica


class Reassign(Step):
    """Move a topic's partitions to other brokers and, to heal, back; ``to`` has the meaning of a topic's
    ``replicas``.
    """

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
    """Move a partition's leadership back and forth, each time as soon as the last move is visible."""

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
    """Move a partition's log start forward (KIP-107); the deletion is permanent."""

    key = "delete_records"
    traits = frozenset[Trait]()
    fault = True
    partition: Partition
    before: Annotated[int, Field(gt=0)] | Literal["high_watermark"] = "high_watermark"


class Configure(Step):
    """Change dynamic settings of a topic or broker; healing reverts them."""

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
    """Limit the replication of an out-of-sync broker (KIP-73); ISR members are never throttled."""

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
