"""Steps without faults: waiting, observing, and the scenario's own clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_serializer, model_validator

from clusters.scenario.conditions import Condition
from clusters.scenario.steps.step import Duration, Step
from clusters.scenario.targets import Node, Replica
from clusters.scenario.values import Acks, PerSecond, Rack, Seconds
from history.steady import MIN_SECONDS
from history.traits import Trait

if TYPE_CHECKING:
    from clusters.scenario.scenario import Scenario

STEADY_STATE_S = MIN_SECONDS + 10  # observed time, answers and flushes
_WRITE_S = 30.0  # disconnected leaders answer after 10 s
_REQUEST_S = 0.02  # on a busy host
_LAST_REQUEST_S = 15.0  # of an aborted write


class Hold(Step):
    """Let the cluster and the load run."""

    key = "hold"
    example = "5s"
    traits = frozenset[Trait]()
    shorthand = "seconds"
    seconds: Seconds

    @property
    def duration(self) -> Duration:
        return Duration(self.seconds, self.seconds)


class SetRate(Step):
    """Change a load's rate from now on, including later phases."""

    key = "set_rate"
    example = "3000/s"
    traits = frozenset[Trait]()
    shorthand = "rate"
    rate: PerSecond
    load: str | None = None  # if there are several

    @property
    def new_rate(self) -> tuple[str | None, float]:
        return self.load, self.rate

    def check(self, scenario: Scenario) -> None:
        if not scenario.named_loads:
            raise ValueError("there is no load whose rate it could change")
        if scenario.load_for(self.load).engine == "java":
            raise ValueError("engine: java cannot change its rate; use another engine")


class Wait(Step):
    """Wait for a condition; a timeout is evidence, not an error."""

    key = "wait"
    example = "{for: {leader_changed: orders-0}, limit: 20s}"
    traits = frozenset[Trait]()
    condition: Condition = Field(alias="for")
    limit: Seconds = 30.0

    @property
    def duration(self) -> Duration:
        return Duration.of_wait(self.limit).plus(STEADY_STATE_S if self.condition.steady_state else 0.0)

    @model_validator(mode="after")
    def _long_enough(self) -> Wait:
        if self.condition.steady_state and self.limit < STEADY_STATE_S:
            raise ValueError(f"steady_state takes {STEADY_STATE_S} s; set a longer limit, such as 180s")
        return self


class Require(Step):
    """Record whether a precondition holds now: whether what the scenario tests is possible."""

    key = "require"
    example = "{high_watermark: {node: leader of orders-0, at_most: 100}}"
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
    example = "all"
    traits = frozenset[Trait]()
    shorthand = "what"
    ends_all = True
    what: Literal["all"]


class Describe(Step):
    """Record a topic's partitions, settings with their defaults, and look-ups in its logs, as brokers report them."""

    key = "describe"
    example = "orders"
    traits = frozenset[Trait]()
    shorthand = "topic"
    topic: str


class DropCache(Step):
    """Evict every broker's log segments from the host's page cache."""

    key = "drop_cache"
    example = "all"
    traits = frozenset[Trait]()
    needs = frozenset({"files"})
    shorthand = "of"
    of: Literal["all"]


class Write(Step):
    """Send ``records`` to a named broker with their own acks, in addition to the load.

    A request holds one batch of ``batch`` records. With ``background``, the scenario continues meanwhile.
    """

    key = "write"
    example = "{to: leader of orders-0, topic: orders, records: 50, acks: 1}"
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
    def limit_s(self) -> float:
        return _WRITE_S + _REQUEST_S * self.records / self.batch

    @property
    def duration(self) -> Duration:
        usual = super().duration
        return usual._replace(longest_s=usual.longest_s + self.limit_s + _LAST_REQUEST_S)


class Read(Step):
    """Consume from one replica, leader or follower, in the background, from an offset until the phase ends.

    With a ``rack`` (``client.rack``) the reader reads from the replica that the first one names.
    """

    key = "read"
    example = "{from: follower of orders-0, offset: 20}"
    traits = frozenset[Trait]()
    replica: Replica = Field(alias="from")
    rack: Rack | None = None
    offset: int = Field(default=0, ge=0)

    def check(self, scenario: Scenario) -> None:
        if self.rack and not scenario.cluster.racks:
            raise ValueError(f"rack {self.rack} needs brokers with racks; name them under cluster.racks")
