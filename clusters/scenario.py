"""A scenario: one YAML file, data only, that says what to set up and what to break.

Every model forbids unknown fields; ``load_scenario`` turns the first thing wrong into one sentence.
docs/scenarios.md explains the language with examples.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from clusters.partition import TopicPartition
from history.errors import BadInput
from history.refusals import first_wrong

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"

# --- small values ------------------------------------------------------------------------------

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def _seconds(value: object) -> object:
    """``500ms``, ``5s``, ``2m`` → seconds."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m)", value)
        if not match:
            raise ValueError(f"{value!r} is no duration such as 500ms, 5s or 2m")
        return float(match[1]) * _UNITS[match[2]]
    return value


def _per_second(value: object) -> object:
    """``1000/s`` → 1000.0."""
    if isinstance(value, str):
        match = re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*/\s*s", value)
        if not match:
            raise ValueError(f"{value!r} is no rate such as 1000/s")
        return float(match[1])
    return value


def _bytes_per_second(value: object) -> object:
    """``20MB/s`` → 20000000.0."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]?)B\s*/\s*s", value)
        if not match:
            raise ValueError(f"{value!r} is no data rate such as 20MB/s")
        return float(match[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]]
    return value


def _setting(value: object) -> object:
    """A Kafka setting as Kafka's own files spell it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _acks(value: object) -> object:
    """YAML reads ``acks: 1`` as a number."""
    return str(value) if isinstance(value, int) else value


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_seconds)]
PerSecond = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_per_second)]
BytesPerSecond = Annotated[float, Field(ge=1000, allow_inf_nan=False), BeforeValidator(_bytes_per_second)]
CpuSet = Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")]
Acks = Annotated[Literal["0", "1", "all"], BeforeValidator(_acks)]
Settings = dict[str, Annotated[str, BeforeValidator(_setting)]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, value: object) -> object:
        """Pydantic's own refusal of an unknown field does not tell the known ones."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if isinstance(value, dict) and (unknown := [name for name in value if name not in known]):
            raise ValueError(f"unknown field {unknown[0]!r}; known: {', '.join(known)}")
        return value


class Target(_Model):
    """Who a step is aimed at: a role that is bound to brokers when the phase reaches it.

    ``leader of orders-0`` · ``follower of orders-0`` (the last one in the assignment that does not lead) ·
    ``followers of orders-0`` (all) · ``preferred leader of orders-0`` · ``controller`` · ``A`` (a named
    broker) · ``random broker`` (by the run's seed).
    """

    role: Literal["leader", "follower", "followers", "preferred leader", "controller", "named", "random"]
    of: TopicPartition | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.of:
            return f"{self.role} of {self.of}"
        return {"named": self.name or "", "random": "random broker"}.get(self.role, self.role)


def _target(value: object) -> object:
    if not isinstance(value, str):
        return value
    if match := re.fullmatch(r"(preferred leader|leader|followers?) of ([\w.-]+)-(\d+)", value):
        return {"role": match[1], "of": TopicPartition(match[2], int(match[3]))}
    if value == "controller":
        return Target(role="controller")
    if value == "random broker":
        return Target(role="random")
    if re.fullmatch(r"[A-Z]", value):
        return Target(role="named", name=value)
    raise ValueError(
        f"{value!r} is no target; say leader|follower|followers|preferred leader of <topic>-<partition>, "
        "controller, random broker or a broker's letter"
    )


Node = Annotated[Target, BeforeValidator(_target), PlainSerializer(str)]

# --- conditions --------------------------------------------------------------------------------


class Condition(_Model):
    """What a wait waits for; exactly one of them."""

    out_of_isr: Node | None = None
    isr_full: str | None = None
    leader_changed: str | None = None
    caught_up: str | None = None
    balanced: str | None = None

    @property
    def topic(self) -> str | None:
        """The topic that it is about, where it is about a whole one."""
        return self.isr_full or self.leader_changed or self.caught_up or self.balanced

    @model_validator(mode="after")
    def _exactly_one(self) -> Condition:
        if len(self.model_fields_set) != 1:
            allowed = ", ".join(type(self).model_fields)
            raise ValueError(f"a condition is exactly one of {allowed}, not {sorted(self.model_fields_set)}")
        return self

    @model_serializer(mode="wrap")
    def _only_the_one(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}

    def __str__(self) -> str:
        name = next(iter(self.model_fields_set))
        return f"{name.replace('_', ' ')}: {getattr(self, name)}"


# --- steps -------------------------------------------------------------------------------------


class Step(_Model):
    """One call inside a phase, told apart by its key: ``- pause: {node: …}``.

    ``shorthand`` names the field that a bare value fills (``- hold: 5s``). ``fault`` says whether the
    step breaks something that must be healed in its phase; ``needs`` lists runtime capabilities.
    """

    key: ClassVar[str]
    shorthand: ClassVar[str | None] = None
    fault: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, value: object) -> object:
        if cls.shorthand and not isinstance(value, dict):
            return {cls.shorthand: value}
        return value

    @model_serializer(mode="wrap")
    def _keyed(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {self.key: {name: value for name, value in handler(self).items() if value is not None}}

    @property
    def targets(self) -> list[Target]:
        """The targets that it names, its condition's included."""
        named = [condition.out_of_isr for condition in self._conditions]
        return [value for value in (*dict(self).values(), *named) if isinstance(value, Target)]

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that it names beside those of its targets; a topic stands for its first one."""
        return [TopicPartition(c.topic, 0) for c in self._conditions if c.topic]

    @property
    def _conditions(self) -> list[Condition]:
        return [value for _, value in self if isinstance(value, Condition)]

    def __str__(self) -> str:
        named = ((name, getattr(self, name)) for name in type(self).model_fields)
        return f"{self.key} " + ", ".join(f"{name} {value}" for name, value in named if value is not None)


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

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        return {self.key: {"for": self.condition.model_dump(), "limit": self.limit}}


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
    node: Node


class Resume(Step):
    """Let a paused node run on."""

    key = "resume"
    shorthand = "node"
    needs = frozenset({"pause"})
    node: Node


class Kill(Step):
    """SIGKILL."""

    key = "kill"
    shorthand = "node"
    fault = True
    needs = frozenset({"kill"})
    node: Node


class Stop(Step):
    """SIGTERM: a controlled shutdown."""

    key = "stop"
    shorthand = "node"
    fault = True
    needs = frozenset({"kill"})
    node: Node


class Start(Step):
    """Start a node that was killed or stopped."""

    key = "start"
    shorthand = "node"
    node: Node


class Heal(Step):
    """End every fault of this phase that is still in force, and prove it."""

    key = "heal"
    shorthand = "what"
    what: Literal["all"]


class Elect(Step):
    """Give leadership back to the preferred leader of every partition."""

    key = "elect"
    shorthand = "who"
    who: Literal["preferred"]


class DropCache(Step):
    """Take every broker's log segments out of the host's page cache."""

    key = "drop_cache"
    shorthand = "of"
    of: Literal["all"]


class Write(Step):
    """Send a fixed batch of records to a named broker with its own acks, beside or instead of the load."""

    key = "write"
    to: Node
    topic: str
    partition: int = Field(default=0, ge=0)
    records: int = Field(gt=0)
    acks: Acks = "all"
    record_bytes: int = Field(default=100, ge=64)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, self.partition)]


STEPS: dict[str, type[Step]] = {
    step.key: step
    for step in (Hold, Offer, Wait, Lag, Slow, Pause, Resume, Kill, Stop, Start, Heal, Elect, DropCache, Write)
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

# --- the scenario ------------------------------------------------------------------------------


class Allowance(_Model):
    """What each broker may use of its host; the CPU sets are shared, one by all brokers, one by all other nodes."""

    cpus: float | None = Field(default=None, ge=0.05, allow_inf_nan=False)  # CPU seconds a second
    cpu_set: CpuSet | None = None
    clients_cpu_set: CpuSet | None = None
    network: BytesPerSecond | None = None  # what it sends
    disk_read: BytesPerSecond | None = None  # what is not in the page cache


def cpus_of(cpu_set: str) -> set[int]:
    """``0,2-3`` → {0, 2, 3}."""
    ends = (part.partition("-") for part in cpu_set.split(","))
    return {cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)}


class Cluster(_Model):
    """``session_timeout`` becomes broker.session.timeout.ms (KRaft) or zookeeper.session.timeout.ms.

    ``jvm``: quick starts within seconds and is no basis for a benchmark; stock is what Kafka's own scripts give.
    """

    brokers: int = Field(ge=1, le=26)
    mode: Literal["kraft", "zookeeper"] | None = None  # None: by version
    session_timeout: Seconds = 9.0
    jvm: Literal["quick", "stock"] = "quick"
    heap: str | None = Field(default=None, pattern=r"^[1-9]\d*[mMgG]$")  # of a broker; None: by jvm
    allowance: Allowance | None = None
    metrics: bool = False  # brokers tell of their requests and garbage collection
    config: Settings = Field(default_factory=dict)

    @property
    def broker_ids(self) -> dict[str, int]:
        """Letter → broker id: A is 1."""
        return {chr(ord("A") + index): index + 1 for index in range(self.brokers)}


class Topic(_Model):
    """``replicas`` names the brokers of partition 0, preferred leader first; partition p starts p further."""

    partitions: int = Field(default=1, ge=1)
    replicas: list[str] = Field(min_length=1)
    config: Settings = Field(default_factory=dict)

    def assignment(self, broker_ids: dict[str, int]) -> dict[int, list[int]]:
        ids = [broker_ids[name] for name in self.replicas]
        turn = len(ids)
        return {p: ids[p % turn :] + ids[: p % turn] for p in range(self.partitions)}


class Transaction(_Model):
    """Records go out in transactions of so many, one after the other; every ``abort_every``th is aborted on purpose."""

    records: int = Field(default=20, gt=0)
    abort_every: int | None = Field(default=None, ge=2)
    timeout: Seconds = 60.0  # transaction.timeout.ms


class Load(_Model):
    """The open-loop producer and its live consumer, running through all phases."""

    topic: str
    rate: PerSecond = 1000.0
    record_bytes: int = Field(default=100, ge=64)
    acks: Acks = "all"
    idempotence: bool = True
    retries: int = Field(default=2_147_483_647, ge=0)
    request_timeout: Seconds = 10.0
    delivery_timeout: Seconds = 30.0
    linger: Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(_seconds)] = 0.005
    batch_bytes: int = Field(default=900_000, ge=100, le=900_000)  # below the brokers' message.max.bytes
    compression: Literal["none", "gzip"] = "none"
    engine: Literal["kafka-python", "confluent-kafka"] = "kafka-python"
    transaction: Transaction | None = None
    p99_limit: Seconds | None = None  # up to this p99 a rate counts as sustained

    @property
    def isolation(self) -> str:
        """How the load's readers read; what a transaction wrote counts once it is committed."""
        return "read_committed" if self.transaction else "read_uncommitted"

    @model_validator(mode="after")
    def _transactions_need(self) -> Load:
        if self.transaction is None:
            return self
        if self.engine != "confluent-kafka":
            raise ValueError(
                f"transaction needs engine: confluent-kafka; {self.engine} cannot give up a commit in time"
            )
        if not self.idempotence:
            raise ValueError("transaction needs idempotence: true, not idempotence: false")
        if self.transaction.timeout < self.delivery_timeout:
            raise ValueError(
                f"transaction has timeout {self.transaction.timeout:g}s, below delivery_timeout "
                f"{self.delivery_timeout:g}s; a record must not outlive its transaction"
            )
        return self

    @model_validator(mode="after")
    def _idempotence_needs_all(self) -> Load:
        if self.idempotence and (self.acks != "all" or self.retries == 0):
            raise ValueError(
                f"idempotence needs acks: all and retries above 0, not acks: {self.acks} and retries: {self.retries}; "
                "set idempotence: false"
            )
        return self


class Phase(_Model):
    """A named list of steps; one Airflow task."""

    name: str = Field(min_length=1)
    steps: list[AnyStep] = Field(min_length=1)


def _phase(value: object) -> object:
    if isinstance(value, dict) and len(value) == 1 and "name" not in value:
        name, steps = next(iter(value.items()))
        return {"name": name, "steps": steps}
    return value


AnyPhase = Annotated[
    Phase,
    BeforeValidator(_phase),
    PlainSerializer(lambda phase: {phase.name: [step.model_dump() for step in phase.steps]}),
]


class Scenario(_Model):
    """What to set up, what to break, and nothing about what should hold."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]{0,40}$")
    why: str
    cluster: Cluster
    topics: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")], Topic] = Field(min_length=1)
    load: Load | None = None
    phases: list[AnyPhase] = Field(min_length=1)
    control: Literal["lost_write", "duplicate"] | None = None  # the anomaly that a sound checker must see here

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        for name, topic in self.topics.items():
            self._check_topic(name, topic)
        if self.load and self.load.topic not in self.topics:
            raise ValueError(f"load names topic {self.load.topic!r}, which is not under topics")
        names = ["before", "after", *(phase.name for phase in self.phases)]  # the labels of captures
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the phase name {twice[0]!r} is taken; each differs from the others, before and after")
        for phase in self.phases:
            for step in phase.steps:
                self._check_step(phase.name, step)
        return self

    def _check_topic(self, name: str, topic: Topic) -> None:
        known = self.cluster.broker_ids
        replication_factor = len(topic.replicas)
        if replication_factor > self.cluster.brokers:
            raise ValueError(
                f"topic {name} asks for replication factor {replication_factor}, above {self.cluster.brokers} brokers"
            )
        if unknown := [letter for letter in topic.replicas if letter not in known]:
            raise ValueError(f"topic {name} names broker {unknown[0]!r}; this cluster has {', '.join(known)}")
        if len(set(topic.replicas)) != replication_factor:
            raise ValueError(f"topic {name} names a broker twice in replicas")
        setting = "min.insync.replicas"
        min_isr = topic.config.get(setting, self.cluster.config.get(setting, "1"))
        if not re.fullmatch("[1-9][0-9]*", min_isr):
            raise ValueError(f"topic {name} has {setting} {min_isr}, which is no number from 1 on")
        if int(min_isr) > replication_factor:
            raise ValueError(f"topic {name} has {setting} {min_isr}, above its replication factor {replication_factor}")

    def _check_step(self, phase: str, step: Step) -> None:
        where = f"phase {phase!r}, step {step.key}"
        targets = step.targets
        for topic, partition in [target.of for target in targets if target.of] + step.partitions:
            if topic not in self.topics or partition >= self.topics[topic].partitions:
                raise ValueError(f"{where}: there is no partition {topic}-{partition}")
        if isinstance(step, Offer) and self.load is None:
            raise ValueError(f"{where}: there is no load whose rate it could change")
        letters = self.cluster.broker_ids
        for target in targets:
            if target.name and target.name not in letters:
                raise ValueError(f"{where}: there is no broker {target.name}; this cluster has {', '.join(letters)}")
            if target.of and target.role.startswith("follower") and len(self.topics[target.of.topic].replicas) == 1:
                raise ValueError(f"{where}: {target.of} has one replica, so it has no follower")

    @property
    def aims_at_controller(self) -> bool:
        """Whether some step means the broker that is the controller; KRaft's controller is a node of its own."""
        targets = (target for phase in self.phases for step in phase.steps for target in step.targets)
        return any(target.role == "controller" for target in targets)

    @property
    def faults(self) -> list[str]:
        """Keys of the fault steps, in order."""
        return [step.key for phase in self.phases for step in phase.steps if step.fault]

    @property
    def needs(self) -> frozenset[str]:
        """Runtime capabilities that the cluster and the steps need."""
        of_cluster = frozenset({"allowance"} if self.cluster.allowance else ())
        return of_cluster.union(*(step.needs for phase in self.phases for step in phase.steps))

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()


def parse_scenario(text: str, where: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario from YAML, with ``changes`` merged into it first (``merge_patch``).

    Raises:
        BadInput: it is no YAML or no scenario; the message names the first thing wrong.
    """
    try:
        told = yaml.safe_load(text)
        return Scenario.model_validate(merge_patch(told, changes) if changes else told)
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is no YAML: {' '.join(str(error).split())}.") from error
    except ValidationError as error:
        changed = ", as changed" if changes else ""
        raise BadInput(f"{where}{changed}: {first_wrong(error)}.") from error


def merge_patch(told: object, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch (RFC 7396): mappings are merged, null drops a key, anything else is replaced whole."""
    merged = dict(told) if isinstance(told, Mapping) else {}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value) if isinstance(value, Mapping) else value
    return merged


def scenario_names() -> list[str]:
    """The scenarios that come with the project, sorted."""
    return sorted(path.stem for path in SCENARIOS.glob("*.yaml"))


def load_scenario(name_or_path: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Load ``scenarios/<name>.yaml``, or a file by its path, with changes merged into it.

    Raises:
        BadInput: there is no such scenario, or it is wrong.
    """
    path = Path(name_or_path) if name_or_path.endswith((".yaml", ".yml")) else SCENARIOS / f"{name_or_path}.yaml"
    if not path.is_file():
        known = ", ".join(scenario_names())
        raise BadInput(f"There is no scenario {name_or_path!r}; known: {known}, or give a path to a .yaml file.")
    return parse_scenario(path.read_text(), str(name_or_path), changes)
