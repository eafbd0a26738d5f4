"""What a phase is told in: targets, conditions and steps, as data.

``clusters.steps`` does what a step says. docs/scenarios.md explains each with an example.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from clusters.partition import TopicPartition
from clusters.values import Acks, BytesPerSecond, MetadataVersion, Model, PerSecond, Seconds, Settings

# What must hold follows from these.
FIXED_SETTINGS = frozenset(
    {
        "log.cleanup.policy",
        "min.insync.replicas",
        "replica.lag.time.max.ms",
        "unclean.leader.election.enable",
        "zookeeper.session.timeout.ms",
    }
)


class Target(Model):
    """Who a step is aimed at: a role that is bound to brokers when the phase reaches it.

    ``leader of orders-0`` · ``follower of orders-0`` (the last one in the assignment that does not lead) ·
    ``followers of orders-0`` (all) · ``bystander of orders-0`` (the last one that neither leads nor is the
    controller) · ``preferred leader of orders-0`` · ``controller`` · ``A`` (a named broker) · ``A of orders-0`` (the
    same, as a replica of that partition) · ``random broker`` (by the run's seed) · ``replicas of orders-0`` (all) ·
    ``brokers`` (all) · ``active controller`` (KRaft: the one that leads the quorum) · ``controllers`` (KRaft: all,
    ZooKeeper: nobody).
    """

    role: Literal[
        "leader",
        "follower",
        "followers",
        "bystander",
        "preferred leader",
        "replicas",
        "controller",
        "named",
        "random",
        "brokers",
        "active controller",
        "controllers",
    ]
    of: TopicPartition | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.of:
            return f"{self.name or self.role} of {self.of}"
        return {"named": self.name or "", "random": "random broker"}.get(self.role, self.role)


_ALONE = {
    "controller": "controller",
    "active controller": "active controller",
    "controllers": "controllers",
    "brokers": "brokers",
    "random broker": "random",
}


def _target(value: object) -> object:
    if not isinstance(value, str):
        return value
    if match := re.fullmatch(r"(preferred leader|leader|followers?|bystander|replicas) of ([\w.-]+)-(\d+)", value):
        return {"role": match[1], "of": TopicPartition(match[2], int(match[3]))}
    if match := re.fullmatch(r"([A-Z]) of ([\w.-]+)-(\d+)", value):
        return Target(role="named", name=match[1], of=TopicPartition(match[2], int(match[3])))
    if value in _ALONE:
        return {"role": _ALONE[value]}
    if re.fullmatch(r"[A-Z]", value):
        return Target(role="named", name=value)
    raise ValueError(
        f"{value!r} is no target; say leader|follower|followers|bystander|preferred leader|replicas of "
        "<topic>-<partition>, controller, active controller, controllers, random broker, brokers or a broker's letter"
    )


def _partition(value: object) -> object:
    """``orders-0`` → the partition."""
    if isinstance(value, str):
        match = re.fullmatch(r"([\w.-]+)-(\d+)", value)
        if not match:
            raise ValueError(f"{value!r} is no partition such as orders-0")
        return TopicPartition(match[1], int(match[2]))
    return value


Node = Annotated[Target, BeforeValidator(_target), PlainSerializer(str)]
Partition = Annotated[TopicPartition, BeforeValidator(_partition), PlainSerializer(str)]
Letter = Annotated[str, Field(pattern=r"^[A-Z]$")]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _peers(value: object) -> object:
    return [each if each in ("clients", "controller") else _target(each) for each in _listed(value)]


def _brokers(value: object) -> object:
    return [_target(each) for each in _listed(value)]


_AsWritten = PlainSerializer(lambda peers: [str(peer) for peer in peers], when_used="unless-none")
Brokers = Annotated[list[Target], Field(min_length=1), BeforeValidator(_brokers), _AsWritten]
# ``controller`` is here the node that elects leaders or keeps who does: KRaft's controller, or ZooKeeper.
Peers = Annotated[
    list[Literal["clients", "controller"] | Target], Field(min_length=1), BeforeValidator(_peers), _AsWritten
]

# --- conditions --------------------------------------------------------------------------------


def _without_none(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}


class OffsetBetween(Model):
    """An offset of one replica, as its own broker tells it, within bounds; the bounds are part of it."""

    node: Node
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _bounded(self) -> OffsetBetween:
        if self.at_least is None and self.at_most is None:
            raise ValueError(f"the offset of {self.node} has no bound; say at_least, at_most or both")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_none(handler(self))

    def holds(self, offset: int | None) -> bool:
        """Whether an offset lies within; an unknown one does not."""
        return (
            offset is not None and (self.at_least or 0) <= offset and (self.at_most is None or offset <= self.at_most)
        )

    def __str__(self) -> str:
        bounds = (("at least", self.at_least), ("at most", self.at_most))
        return f"{self.node} " + ", ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)


class Condition(Model):
    """What a wait waits for, and a window looks at; exactly one of them."""

    out_of_isr: Node | None = None
    in_isr: Node | None = None
    leads: Node | None = None
    log_end_offset: OffsetBetween | None = None
    high_watermark: OffsetBetween | None = None
    isr_full: str | None = None
    leader_changed: str | None = None
    caught_up: str | None = None
    balanced: str | None = None
    controller_changed: Literal[True] | None = None

    @property
    def topic(self) -> str | None:
        """The topic that it is about, where it is about a whole one."""
        return self.isr_full or self.leader_changed or self.caught_up or self.balanced

    @property
    def target(self) -> Target | None:
        """The brokers that it is about, where it is about some."""
        offset = self.log_end_offset or self.high_watermark
        return self.out_of_isr or self.in_isr or self.leads or (offset.node if offset else None)

    @model_validator(mode="after")
    def _exactly_one(self) -> Condition:
        if len(self.model_fields_set) != 1:
            allowed = ", ".join(type(self).model_fields)
            raise ValueError(f"a condition is exactly one of {allowed}, not {sorted(self.model_fields_set)}")
        return self

    @model_serializer(mode="wrap")
    def _only_the_one(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_none(handler(self))

    def __str__(self) -> str:
        name = next(iter(self.model_fields_set))
        return f"{name.replace('_', ' ')}: {getattr(self, name)}"


# --- steps -------------------------------------------------------------------------------------


class Step(Model):
    """One call inside a phase, told apart by its key: ``- pause: {node: …}``.

    ``shorthand`` names the field that a bare value fills (``- hold: 5s``). ``fault`` says whether the
    step breaks something that must be healed in its phase; ``needs`` lists runtime capabilities; ``of_dead`` says that
    it acts on a broker that is down, ``of_controllers`` whether it may be aimed at KRaft's controllers.
    """

    key: ClassVar[str]
    shorthand: ClassVar[str | None] = None
    fault: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    of_dead: ClassVar[bool] = False
    of_controllers: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, value: object) -> object:
        if cls.shorthand and not isinstance(value, dict):
            return {cls.shorthand: value}
        return value

    @model_serializer(mode="wrap")
    def _keyed(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told = _without_none(handler(self))
        fields = type(self).model_fields
        return {self.key: {fields[name].alias or name: value for name, value in told.items()}}

    @property
    def targets(self) -> list[Target]:
        """The targets that it names, its condition's included."""
        named = [condition.target for condition in self.conditions]
        values = (each for value in dict(self).values() for each in _listed(value))
        return [value for value in (*values, *named) if isinstance(value, Target)]

    @property
    def breaks(self) -> list[str]:
        """The faults that it injects, by their kind, one for each time."""
        return [self.key] if self.fault else []

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that it names beside those of its targets; a topic stands for its first one."""
        named = [value for value in dict(self).values() if isinstance(value, TopicPartition)]
        return named + [TopicPartition(c.topic, 0) for c in self.conditions if c.topic]

    @property
    def letters(self) -> list[str]:
        """The brokers that it names by their letters beside its targets."""
        return []

    @property
    def conditions(self) -> list[Condition]:
        """What it waits for or looks at."""
        return [value for _, value in self if isinstance(value, Condition)]

    def __str__(self) -> str:
        named = ((field.alias or name, getattr(self, name)) for name, field in type(self).model_fields.items())
        return f"{self.key} " + ", ".join(f"{name} {_in_words(value)}" for name, value in named if value is not None)


def _in_words(value: object) -> str:
    return ", ".join(str(each) for each in _listed(value))


class Hold(Step):
    """Let the cluster and the load run on."""

    key = "hold"
    shorthand = "seconds"
    seconds: Seconds


class Offer(Step):
    """Let the load that runs go on at another rate, from now on and into the phases after this one."""

    key = "offer"
    shorthand = "rate"
    rate: PerSecond


class Wait(Step):
    """Wait for a condition; running out of time is evidence, not an error."""

    key = "wait"
    condition: Condition = Field(alias="for")
    limit: Seconds = 30.0


class Window(Step):
    """Look whether a condition holds now, and record it: whether what this scenario is about could happen at all."""

    key = "window"
    shorthand = "condition"
    condition: Condition

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, value: object) -> object:
        return {cls.shorthand: value}  # a condition is a mapping, as settings are

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        return {self.key: self.condition.model_dump()}


class Lag(Step):
    """Keep a follower alive and fetching, but about so many records behind, in the ISR."""

    key = "lag"
    fault = True
    needs = frozenset({"lag"})
    node: Node
    records: int = Field(gt=0)


class Slow(Step):
    """Feed a follower far less than is produced until a condition holds; stays so until healed."""

    key = "slow"
    fault = True
    needs = frozenset({"lag"})
    node: Node
    until: Condition
    limit: Seconds = 30.0


class Pause(Step):
    """Freeze a node: its connections stay open, nothing answers."""

    key = "pause"
    shorthand = "node"
    fault = True
    needs = frozenset({"pause"})
    of_controllers = True
    node: Node


class Resume(Step):
    """Let a paused node run on."""

    key = "resume"
    shorthand = "node"
    needs = frozenset({"pause"})
    of_controllers = True
    node: Node


class Kill(Step):
    """SIGKILL."""

    key = "kill"
    shorthand = "node"
    fault = True
    needs = frozenset({"kill"})
    of_controllers = True
    node: Node


class Stop(Step):
    """SIGTERM: a controlled shutdown."""

    key = "stop"
    shorthand = "node"
    fault = True
    needs = frozenset({"kill"})
    of_controllers = True
    node: Node


class StarveCpu(Step):
    """Let a broker have little CPU time: it runs, but slowly."""

    key = "starve_cpu"
    fault = True
    needs = frozenset({"allowance"})
    node: Node
    cpus: float = Field(ge=0.05, allow_inf_nan=False)


class FillDisk(Step):
    """Leave no space on a broker's own small disk (``cluster.disks``); it gives up its log directory and ends."""

    key = "fill_disk"
    shorthand = "node"
    fault = True
    needs = frozenset({"disk"})
    node: Node


class ReadOnlyDisk(Step):
    """Take a broker's right to write into its log directory; it gives it up and ends."""

    key = "read_only_disk"
    shorthand = "node"
    fault = True
    needs = frozenset({"disk"})
    node: Node


class Wipe(Step):
    """Remove all topic data of a broker that is down."""

    key = "wipe"
    shorthand = "node"
    fault = True
    of_dead = True
    node: Node


class Truncate(Step):
    """Cut the end off a replica's last segment while its broker is down: whole batches, or bytes."""

    key = "truncate"
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


class Forget(Step):
    """Delete a checkpoint file of a broker that is down."""

    key = "forget"
    fault = True
    of_dead = True
    node: Node
    what: Literal["high watermark checkpoint", "log start checkpoint", "recovery point checkpoint"]


class FlipBit(Step):
    """Flip one bit of a batch on one broker's disk. It stays so: Kafka does not look for it."""

    key = "flip_bit"
    fault = True
    node: Node
    partition: Partition
    offset: int = Field(ge=0)


class Start(Step):
    """Start a node that was killed or stopped."""

    key = "start"
    shorthand = "node"
    of_controllers = True
    node: Node


class Restart(Step):
    """SIGTERM and start again, perhaps with other settings from then on."""

    key = "restart"
    shorthand = "node"
    needs = frozenset({"kill"})
    of_controllers = True
    node: Node
    settings: Settings = Field(default_factory=dict, alias="with")

    @property
    def breaks(self) -> list[str]:
        return ["stop"]

    @field_validator("settings")
    @classmethod
    def _what_must_hold_stays(cls, value: dict[str, str]) -> dict[str, str]:
        """The judge takes them from the manifest, for the whole run."""
        if fixed := FIXED_SETTINGS & value.keys():
            raise ValueError(f"{min(fixed)} cannot be changed within a run; set it under cluster or topics")
        return value

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        return {self.key: {"node": str(self.node), **({"with": self.settings} if self.settings else {})}}


class Bounce(Step):
    """Restart whoever plays a role, several times; the role is looked up anew each time."""

    key = "bounce"
    needs = frozenset({"kill"})
    of_controllers = True
    node: Node
    times: int = Field(ge=1)
    by: Literal["stop", "kill"] = "stop"

    @property
    def breaks(self) -> list[str]:
        return [self.by] * self.times


class CrashLoop(Step):
    """A broker that dies again and again, some time after each start."""

    key = "crash_loop"
    needs = frozenset({"kill"})
    of_controllers = True
    node: Node
    times: int = Field(ge=1)
    after: Seconds

    @property
    def breaks(self) -> list[str]:
        return ["kill"] * self.times


class Upgrade(Step):
    """SIGTERM and start again with another Kafka, one node after the other; what is finalised stays as it is."""

    key = "upgrade"
    needs = frozenset({"kill"})
    of_controllers = True
    node: Node
    kafka: Annotated[str, Field(min_length=1)]

    @property
    def breaks(self) -> list[str]:
        return [] if self.node.role == "controllers" else ["stop"]  # in ZooKeeper mode there are none


class Rollback(Step):
    """SIGTERM and start again with the Kafka that the run began with; possible until the upgrade is finalised."""

    key = "rollback"
    shorthand = "node"
    needs = frozenset({"kill"})
    of_controllers = True
    node: Node

    @property
    def breaks(self) -> list[str]:
        return [] if self.node.role == "controllers" else ["stop"]


class Finalise(Step):
    """Let the brokers speak as a release does: metadata.version, or each broker's inter.broker.protocol.version."""

    key = "finalise"
    shorthand = "to"
    needs = frozenset({"kill"})
    to: MetadataVersion


class Heal(Step):
    """End every fault of this phase that is still in force, and prove it."""

    key = "heal"
    shorthand = "what"
    what: Literal["all"]


class Elect(Step):
    """Give leadership back to the preferred leader of every partition; or, where none leads, to any live replica."""

    key = "elect"
    shorthand = "who"
    who: Literal["preferred", "unclean"]


class Reassign(Step):
    """Move a topic's partitions to other brokers; ``to`` reads as ``replicas`` of a topic. Moved back to heal."""

    key = "reassign"
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


class PingPong(Step):
    """Move a partition's leadership to and fro, each move as soon as the one before is seen."""

    key = "ping_pong"
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
    fault = True
    partition: Partition
    before: Annotated[int, Field(gt=0)] | Literal["high_watermark"] = "high_watermark"


class Configure(Step):
    """Change dynamic settings of a topic or of a broker; taken back to heal."""

    key = "configure"
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
    fault = True
    node: Node
    rate: BytesPerSecond


class Describe(Step):
    """Record what brokers say of a topic: its partitions, settings with their defaults, look-ups in its logs."""

    key = "describe"
    shorthand = "topic"
    topic: str

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, 0)]


class DropCache(Step):
    """Take every broker's log segments out of the host's page cache."""

    key = "drop_cache"
    shorthand = "of"
    of: Literal["all"]


class Write(Step):
    """Send so many records to a named broker with its own acks, beside or instead of the load.

    A request holds one batch of ``batch`` records. In the background the story goes on meanwhile.
    """

    key = "write"
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


class Cut(Step):
    """Drop all packets between a node and others; the probe's port stays open.

    TCP needs both ways, so one way is meant of requests: ``in`` drops what others ask of the node, ``out`` what the
    node asks of others, each with its answers.
    """

    key = "cut"
    fault = True
    needs = frozenset({"network"})
    node: Node
    peers: Peers = Field(alias="from")
    direction: Literal["both", "in", "out"] = "both"

    @model_validator(mode="after")
    def _asks(self) -> Cut:
        if self.direction == "out" and "clients" in self.peers:
            raise ValueError("direction out cuts nothing from clients, which a broker asks nothing; use in or both")
        if self.direction == "in" and "controller" in self.peers:
            raise ValueError("direction in cuts nothing from the controller, which a broker asks; use out or both")
        return self


class Join(Step):
    """End the cut between a node and the same others."""

    key = "join"
    needs = frozenset({"network"})
    node: Node
    peers: Peers = Field(alias="from")


class Shape(Step):
    """Limit what brokers (all others where none are named) send to a node's replica fetchers."""

    key = "shape"
    fault = True
    needs = frozenset({"shape"})
    into: Node
    senders: Brokers | None = Field(default=None, alias="from")
    rate: BytesPerSecond


class Unshape(Step):
    """Lift the limit on what a node's replica fetchers get."""

    key = "unshape"
    shorthand = "into"
    needs = frozenset({"shape"})
    into: Node


class Delay(Step):
    """Let what brokers (all others where none are named) send to a node's replica fetchers arrive later by so much."""

    key = "delay"
    fault = True
    needs = frozenset({"shape"})
    into: Node
    senders: Brokers | None = Field(default=None, alias="from")
    by: Seconds


class Lose(Step):
    """Lose so many of the packets that other brokers (all where none are named) send to a node."""

    key = "lose"
    fault = True
    needs = frozenset({"network"})
    into: Node
    senders: Brokers | None = Field(default=None, alias="from")
    percent: float = Field(gt=0, lt=100)


def _of_partition(target: Target) -> Target:
    if target.of is None:
        raise ValueError(f"{target} names no partition; say {target} of <topic>-<partition>")
    return target


Replica = Annotated[Node, AfterValidator(_of_partition)]


class Lead(Step):
    """Let a replica lead its partition: put it first in the assignment, then elect the preferred leader."""

    key = "lead"
    shorthand = "replica"
    replica: Replica


class Read(Step):
    """Consume from one replica, leader or follower, in the background, from an offset on until the phase ends."""

    key = "read"
    replica: Replica = Field(alias="from")
    offset: int = Field(default=0, ge=0)


STEPS: dict[str, type[Step]] = {
    step.key: step
    for step in (
        Hold,
        Offer,
        Wait,
        Window,
        Lag,
        Slow,
        Pause,
        Resume,
        Kill,
        Stop,
        StarveCpu,
        FillDisk,
        ReadOnlyDisk,
        Wipe,
        Truncate,
        Forget,
        FlipBit,
        Start,
        Restart,
        Bounce,
        CrashLoop,
        Upgrade,
        Rollback,
        Finalise,
        Heal,
        Elect,
        Describe,
        Reassign,
        PingPong,
        DeleteRecords,
        Configure,
        Throttle,
        DropCache,
        Write,
        Cut,
        Join,
        Shape,
        Unshape,
        Delay,
        Lose,
        Lead,
        Read,
    )
}


def _step(value: object) -> object:
    if isinstance(value, Step):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"a step is one key and its settings, such as 'hold: 5s', not {value!r}")
    key, settings = next(iter(value.items()))
    if key not in STEPS:
        raise ValueError(f"unknown step {key!r}; known: {', '.join(sorted(STEPS))}")
    return STEPS[key].model_validate(settings)


AnyStep = Annotated[Step, BeforeValidator(_step), PlainSerializer(lambda step: step.model_dump())]
