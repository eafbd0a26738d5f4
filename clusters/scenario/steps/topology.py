"""Steps that change leadership, replicas or settings through Kafka itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from clusters.scenario.steps.step import WORK_S, Duration, Step
from clusters.scenario.targets import Letter, Node, Partition, Replica
from clusters.scenario.values import BytesPerSecond, Seconds, Settings
from history.kafka_settings import Kind
from history.traits import Trait

if TYPE_CHECKING:
    from clusters.scenario.scenario import Scenario


class Elect(Step):
    """Return leadership to every partition's preferred leader or, if a partition has no leader, elect any live
    replica.
    """

    key = "elect"
    example = "preferred"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    shorthand = "who"
    who: Literal["preferred", "unclean"]


class TransferLeadership(Step):
    """Make a replica the leader: put it first in the assignment, then elect the preferred leader."""

    key = "transfer_leadership"
    example = "B of orders-0"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    shorthand = "replica"
    replica: Replica


class Reassign(Step):
    """Move a topic's partitions to other brokers and, to heal, back; ``to`` has the meaning of a topic's
    ``replicas``.
    """

    key = "reassign"
    example = "{topic: orders, to: [C, B], limit: 60s}"
    traits = frozenset({Trait.MAY_MOVE_LEADER, Trait.MOVES_REPLICAS})
    fault = True
    topic: str
    to: list[Letter] = Field(min_length=1)
    limit: Seconds = 60.0

    @property
    def duration(self) -> Duration:
        return Duration.of_wait(self.limit)

    @property
    def letters(self) -> list[str]:
        return self.to


class ChurnLeadership(Step):
    """Move a partition's leadership back and forth, each time as soon as the last move is visible."""

    key = "churn_leadership"
    example = "{partition: orders-0, between: [A, B], times: 6}"
    traits = frozenset({Trait.MAY_MOVE_LEADER})
    fault = True
    partition: Partition
    between: list[Letter] = Field(min_length=2)
    times: int = Field(gt=0)

    def check(self, scenario: Scenario) -> None:
        if odd := set(self.between) - set(scenario.topics[self.partition.topic].replicas):
            raise ValueError(f"{sorted(odd)[0]} has no replica of {self.partition} that could lead")

    @property
    def duration(self) -> Duration:
        return Duration.of_work(WORK_S * self.times)

    @property
    def letters(self) -> list[str]:
        return self.between


class DeleteRecords(Step):
    """Move a partition's log start forward (KIP-107); the deletion is permanent."""

    key = "delete_records"
    example = "{partition: orders-0, before: high_watermark}"
    traits = frozenset[Trait]()
    fault = True
    partition: Partition
    before: Annotated[int, Field(gt=0)] | Literal["high_watermark"] = "high_watermark"


class Configure(Step):
    """Change dynamic settings of a topic or broker; healing reverts them."""

    key = "configure"
    example = "{topic: orders, set: {min.insync.replicas: 1}}"
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
    def required(self) -> frozenset[str]:
        return frozenset({"settings"} if self.broker else ())

    @property
    def settings_changed(self) -> tuple[str, Kind, Iterable[str]]:
        return "configure.set", "topic" if self.topic else "broker", self.set


class Throttle(Step):
    """Limit the replication of an out-of-sync broker (KIP-73); ISR members are never throttled."""

    key = "throttle"
    example = "{node: C, rate: 10kB/s}"
    traits = frozenset({Trait.HOLDS_BACK_FOLLOWER})
    fault = True
    needs = frozenset({"settings"})  # the rate is one of brokers
    node: Node
    rate: BytesPerSecond
