"""Steps without faults: waiting, observing, and the scenario's own clients."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_serializer, model_validator

from clusters.scenario.conditions import Condition
from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Node, Replica
from clusters.scenario.values import Acks, PerSecond, Rack, Seconds
from history.partition import TopicPartition
from history.steady import MIN_SECONDS
from history.traits import Trait

STEADY_STATE_S = MIN_SECONDS + 10  # observed time, answers and flushes


class Hold(Step):
    """Let the cluster and the load run."""

    key = "hold"
    traits = frozenset[Trait]()
    shorthand = "seconds"
    seconds: Seconds


class SetRate(Step):
    """Change a load's rate from now on, including later phases."""

    key = "set_rate"
    traits = frozenset[Trait]()
    shorthand = "rate"
    rate: PerSecond
    load: str | None = None  # if there are several


class Wait(Step):
    """Wait for a condition; a timeout is evidence, not an error."""

    key = "wait"
    traits = frozenset[Trait]()
    condition: Condition = Field(alias="for")
    limit: Seconds = 30.0

    @model_validator(mode="after")
    def _long_enough(self) -> Wait:
        if self.condition.steady_state and self.limit < STEADY_STATE_S:
            raise ValueError(f"steady_state takes {STEADY_STATE_S} s; set a longer limit, such as 180s")
        return self


class Require(Step):
    """Record whether a precondition holds now: whether what the scenario tests is possible."""

    key = "require"
    traits = frozenset[Trait]()
    shorthand = "condition"
    condition: Condition

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, value: object) -> object:
        return {cls.shorthand: value}  # a condition is a mapping

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        return {self.key: self.condition.model_dump()}


class Heal(Step):
    """End every active fault of this phase and verify its recovery."""

    key = "heal"
    traits = frozenset[Trait]()
    shorthand = "what"
    what: Literal["all"]


class Describe(Step):
    """Record a topic's partitions, settings with their defaults, and look-ups in its logs, as brokers report them."""

    key = "describe"
    traits = frozenset[Trait]()
    shorthand = "topic"
    topic: str

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, 0)]


class DropCache(Step):
    """Evict every broker's log segments from the host's page cache."""

    key = "drop_cache"
    traits = frozenset[Trait]()
    shorthand = "of"
    of: Literal["all"]


class Write(Step):
    """Send ``records`` to a named broker with their own acks, in addition to the load.

    A request holds one batch of ``batch`` records. With ``background``, the scenario continues meanwhile.
    """

    key = "write"
    traits = frozenset[Trait]()
    to: Node
    topic: str
    partition: int = Field(default=0, ge=0)
    records: int = Field(gt=0)
    batch: int = Field(default=1, gt=0)
    background: bool = False
    acks: Acks = "all"
    record_bytes: int = Field(default=100, ge=64)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, self.partition)]


class Read(Step):
    """Consume from one replica, leader or follower, in the background, from an offset until the phase ends.

    With a ``rack`` (``client.rack``) the reader reads from the replica that the first one names.
    """

    key = "read"
    traits = frozenset[Trait]()
    replica: Replica = Field(alias="from")
    rack: Rack | None = None
    offset: int = Field(default=0, ge=0)


STEPS: tuple[type[Step], ...] = (
    Hold,
    SetRate,
    Wait,
    Require,
    Heal,
    Describe,
    DropCache,
    Write,
    Read,
)
