"""A scenario: one YAML file with cluster, load and faults (docs/scenarios.md)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationError, model_validator

from clusters.paths import ROOT, is_file
from clusters.scenario.copier import Copier
from clusters.scenario.groups import AnyGroup, Group, ShareGroup
from clusters.scenario.producers import PRODUCER, Producer, producers_of, wrong_names
from clusters.scenario.shapes import MAX_BATCH_BYTES, Keys, Rate, Sizes, as_written, peak, shared, usual
from clusters.scenario.steps.catalog import AnyStep
from clusters.scenario.steps.disks import FailLogDir, FillDisk, FlipBit, ReadOnlyDisk, SlowDisk
from clusters.scenario.steps.flow import Read, SetRate, Wait
from clusters.scenario.steps.network import Lag, Slow
from clusters.scenario.steps.processes import KillCopier, Restart
from clusters.scenario.steps.step import Step
from clusters.scenario.steps.topology import ChurnLeadership, Configure
from clusters.scenario.targets import Letter, Target
from clusters.scenario.values import (
    Acks,
    Bytes,
    BytesPerSecond,
    Control,
    CpuSet,
    JavaVersion,
    JvmFlag,
    KafkaRelease,
    MetadataVersion,
    Model,
    Rack,
    Seconds,
    Settings,
    Share,
    seconds,
)
from history import draws
from history.errors import BadInput
from history.kafka_settings import Kind, unknown_setting
from history.kafka_versions import Version
from history.partition import TopicPartition
from history.refusals import Place, dotted, first_wrong
from history.yaml_files import parse, read_text

CONTROLLERS = ("active controller", "controllers")  # separate in KRaft mode
SCENARIOS = ROOT / "scenarios"


class Allowance(Model):
    """A broker's limits; CPU sets are for all brokers, or all other nodes."""

    cpus: float | None = Field(default=None, ge=0.05, allow_inf_nan=False)  # seconds per second
    cpu_set: CpuSet | None = None
    clients_cpu_set: CpuSet | None = None
    network: BytesPerSecond | None = None  # sent bytes
    disk_read: BytesPerSecond | None = None  # reads outside the page cache


def cpus_of(cpu_set: str) -> set[int]:
    """Parse ``0,2-3`` to {0, 2, 3}."""
    ends = (part.partition("-") for part in cpu_set.split(","))
    return {cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)}


class Security(Model):
    """TLS and SASL on all broker listeners, with new secrets for each run."""

    tls: Literal["one_way", "mutual"] | None = None
    sasl: Literal["PLAIN", "SCRAM-SHA-512"] | None = None

    @model_validator(mode="after")
    def _something(self) -> Security:
        if self.tls is None and self.sasl is None:
            raise ValueError("security has neither tls nor sasl; set one of them, or leave it out")
        return self


def _is_none(value: object) -> bool:
    """Omit new fields, to keep old scenarios' digests."""
    return value is None


SettingName = Annotated[str, Field(pattern=r"^[\w.-]+$")]


class Cluster(Model):
    """A cluster (docs/scenarios.md).

    A ``metadata_version`` older than the brokers' is the state before an upgrade is finalised.
    """

    brokers: int = Field(ge=1, le=26)
    mode: Literal["kraft", "zookeeper"] | None = None
    controllers: Literal[1, 3] = Field(default=1, exclude_if=lambda number: number == 1)  # voters
    elr: bool | None = Field(default=None, exclude_if=_is_none)  # eligible leader replicas
    metadata_version: MetadataVersion | None = Field(default=None, exclude_if=_is_none)  # None: the version's
    security: Security | None = Field(default=None, exclude_if=_is_none)
    session_timeout: Seconds = 9.0
    jvm: Literal["fast_start", "production"] = "fast_start"
    java: JavaVersion | None = Field(default=None, exclude_if=_is_none)  # of servers
    heap: str | None = Field(default=None, pattern=r"^[1-9]\d*[mMgG]$")  # of a broker; None: by jvm
    jvm_flags: list[JvmFlag] | None = Field(default=None, exclude_if=_is_none)
    resource_limits: Allowance | None = None
    disks: dict[Letter, Bytes] = Field(default_factory=dict)  # small disks of their own
    log_dirs: int = Field(default=1, ge=1, le=8, exclude_if=lambda number: number == 1)  # per broker, on one disk
    # Consumers may read from a replica in their rack (KIP-392).
    racks: dict[Letter, Rack] = Field(default_factory=dict, exclude_if=lambda racks: not racks)
    metrics: bool = False  # of requests and garbage collection
    debug: list[str] = Field(default_factory=list)  # such as kafka.cluster.Partition
    config: Settings = Field(default_factory=dict)
    allow_unknown: list[SettingName] = Field(default_factory=list, exclude_if=lambda names: not names)  # of plug-ins

    @model_validator(mode="after")
    def _no_debug_in_benchmarks(self) -> Cluster:
        if self.debug and (self.jvm == "production" or self.resource_limits or self.metrics):
            raise ValueError(
                f"debug: {self.debug} slows brokers down, so no benchmark may have it; "
                "leave out jvm: production, resource_limits and metrics, or debug"
            )
        return self

    @model_validator(mode="after")
    def _one_log_dir_on_a_small_disk(self) -> Cluster:
        if self.disks and self.log_dirs > 1:
            raise ValueError(f"disks gives a broker one log directory; leave it out, or log_dirs: {self.log_dirs}")
        return self

    @model_validator(mode="after")
    def _a_rack_for_each_broker(self) -> Cluster:
        if self.racks and self.racks.keys() != self.broker_ids.keys():
            raise ValueError(f"racks names {', '.join(self.racks)}; name each broker: {', '.join(self.broker_ids)}")
        return self

    @property
    def broker_ids(self) -> dict[str, int]:
        return {chr(ord("A") + index): index + 1 for index in range(self.brokers)}


class Topic(Model):
    """A topic; ``replicas`` are partition 0's, preferred leader first. Partition p starts p places further."""

    partitions: int = Field(default=1, ge=1)
    replicas: list[str] = Field(min_length=1)
    config: Settings = Field(default_factory=dict)

    def assigned(self, partition: int, broker_ids: dict[str, int]) -> list[int]:
        ids = [broker_ids[name] for name in self.replicas]
        turn = partition % len(ids)
        return ids[turn:] + ids[:turn]

    def assignment(self, broker_ids: dict[str, int]) -> dict[int, list[int]]:
        return {partition: self.assigned(partition, broker_ids) for partition in range(self.partitions)}


class Transaction(Model):
    """Consecutive transactions of ``records``; every ``abort_every``th is aborted on purpose."""

    records: int = Field(default=20, gt=0)
    abort_every: int | None = Field(default=None, ge=2)
    timeout: Seconds = 60.0  # transaction.timeout.ms


def _in_project(path: object) -> object:
    """Resolve from the project's folder: Airflow's tasks run elsewhere."""
    return str(ROOT / path) if isinstance(path, str | Path) else path  # a plan is JSON


def _as_told(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


class Payload(Model):
    """The content of records: padding that compresses to a share, or parts of a file."""

    compresses_to: Share | None = None
    file: Annotated[Path, BeforeValidator(_in_project), PlainSerializer(_as_told)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Payload:
        if (self.compresses_to is None) == (self.file is None):
            raise ValueError("payload takes either compresses_to, such as 50%, or file")
        return self


MAX_MESSAGE_BYTES = 1_048_588
BATCH_OVERHEAD = 100  # batch header and record framing, at most
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class Load(Model):
    """An open-loop producer during all phases; its ``processes`` share the rate."""

    topic: str
    rate: Rate = 1000.0
    processes: int = Field(default=1, ge=1, le=8, exclude_if=lambda number: number == 1)
    record_bytes: Sizes = 100
    acks: Acks = "all"
    idempotence: bool = True
    retries: int = Field(default=2_147_483_647, ge=0)
    request_timeout: Seconds = 10.0
    delivery_timeout: Seconds = 30.0
    linger: Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(seconds)] = 0.005
    batch_bytes: int = Field(default=MAX_BATCH_BYTES, ge=100, le=MAX_BATCH_BYTES)
    compression: Codec = "none"
    payload: Payload | None = Field(default=None, exclude_if=_is_none)  # None: repetitive padding
    engine: Literal["kafka-python", "confluent-kafka", "java"] = "kafka-python"
    client: KafkaRelease | None = Field(default=None, exclude_if=_is_none)  # of engine java; None: the brokers'
    transaction: Transaction | None = None
    group: AnyGroup | None = Field(default=None, exclude_if=_is_none)
    p99_limit: Seconds | None = None  # of a sustained rate
    keys: Keys | None = Field(default=None, exclude_if=_is_none)
    # None: the client if there are keys, else in turn.
    partitioner: Literal["in_turn", "client"] | None = Field(default=None, exclude_if=_is_none)

    @property
    def sizes(self) -> draws.Sizes:
        return draws.Sizes.of(as_written(self.record_bytes))

    @property
    def usual_rate(self) -> float:
        return usual(self.rate)

    @property
    def peak_rate(self) -> float:
        return peak(self.rate)

    @property
    def client_partitions(self) -> bool:
        return self.partitioner == "client" or (self.partitioner is None and self.keys is not None)

    @model_validator(mode="after")
    def _payload_is_there(self) -> Load:
        file = self.payload.file if self.payload else None
        if file and (not is_file(file) or file.stat().st_size < self.sizes.largest):
            raise ValueError(f"payload.file: {file} is no file of at least {self.sizes.largest} bytes, a record's")
        return self

    @model_validator(mode="after")
    def _java_needs(self) -> Load:
        if self.payload and self.engine == "java":
            raise ValueError("engine: java has no payload; VerifiableProducer sends its numbers")
        if self.client and self.engine != "java":
            raise ValueError(f"client: {self.client} needs engine: java; {self.engine} has no such release")
        if self.engine == "java" and self.record_bytes != 100:
            raise ValueError(
                f"engine: java has no record_bytes: {self.record_bytes}; VerifiableProducer sends its numbers"
            )
        share = shared(self.rate, self.processes)
        if self.engine == "java" and (isinstance(share, Model) or share < 1 or share % 1):
            told = "a rate that changes" if isinstance(share, Model) else f"{share:g}"
            each = f" in each of {self.processes} processes" if self.processes > 1 else ""
            raise ValueError(f"engine: java takes a whole number of records a second, not {told}{each}")
        if self.engine == "java" and (self.keys or self.partitioner):
            raise ValueError("engine: java has neither keys nor partitioner; VerifiableProducer uses its own")
        return self

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
        if self.client_partitions and not self.keys:
            raise ValueError(
                "transaction with partitioner: client needs keys; otherwise its records' partitions are unknown "
                "if it fails"
            )
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


class Phase(Model):
    """A named list of steps; one Airflow task."""

    name: str = Field(min_length=1)
    steps: list[AnyStep] = Field(min_length=1)

    @property
    def is_warm_up(self) -> bool:
        """Return whether the phase waits for a steady state; its metrics are not reported."""
        return any(isinstance(step, Wait) and step.condition.steady_state for step in self.steps)


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


def _no_folder(name: str) -> str:
    """Reject . and .., as Kafka does."""
    if name in (".", ".."):
        raise ValueError(f"{name!r} is not a topic name; use letters, digits, dots, dashes or underscores")
    return name


TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$"), AfterValidator(_no_folder)]


def _names(topic: str, told: Topic) -> list[str]:
    return [str(TopicPartition(topic, partition)) for partition in range(told.partitions)]


class Scenario(Model):
    """The cluster, the load and the faults of a run; ``named_loads`` has ``load`` or ``loads``."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]{0,40}$")
    why: str
    cluster: Cluster
    topics: dict[TopicName, Topic] = Field(min_length=1)
    load: Load | None = None
    loads: dict[str, Load] = Field(default_factory=dict, exclude_if=lambda loads: not loads)
    phases: list[AnyPhase] = Field(min_length=1)
    copier: Copier | None = Field(default=None, exclude_if=_is_none)
    control: Control | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        for name, topic in self.topics.items():
            self._check_topic(name, topic)
        self._check_loads()
        self._check_copier()
        names = ["before", "after", *(phase.name for phase in self.phases)]  # captures' labels
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the phase name {twice[0]!r} is taken; each differs from the others, before and after")
        if unknown := sorted(self.cluster.disks.keys() - self.cluster.broker_ids.keys()):
            raise ValueError(f"disks names broker {unknown[0]}; this cluster has {', '.join(self.cluster.broker_ids)}")
        for phase in self.phases:
            for number, step in enumerate(phase.steps):
                self._check_step(phase.name, step)
                self._check_disk(phase.name, step)
                if step.of_dead and not any(before.key in ("kill", "stop") for before in phase.steps[:number]):
                    raise ValueError(
                        f"phase {phase.name!r}, step {step.key}: needs a broker that is down; kill or stop it first"
                    )
        if why := self.unknown_setting():
            raise ValueError(why)
        return self

    def _check_loads(self) -> None:
        if self.load and self.loads:
            raise ValueError("there are both load and loads; put all of them under loads")
        if wrong := next(wrong_names(self.producers), None):
            raise ValueError(wrong)
        for name, load in self.named_loads.items():
            where = "load" if self.load else f"loads.{name}"
            if load.topic not in self.topics:
                raise ValueError(f"{where} names topic {load.topic!r}, which is not under topics")
            self._check_sizes(where, load)
            partitions = self.topics[load.topic].partitions
            if isinstance(load.group, Group) and load.group.members > partitions:
                raise ValueError(
                    f"{where}.group has {load.group.members} members for the {partitions} partitions of {load.topic}; "
                    "some would have none"
                )
            if load.p99_limit and len(self.named_loads) > 1:
                raise ValueError(f"{where} has p99_limit, and latencies are those of all loads; leave it out")
        if len(grouped := [name for name, load in self.named_loads.items() if load.group]) > 1:
            raise ValueError(f"a run has one group at most; take it out of loads.{grouped[1]}")

    def _check_copier(self) -> None:
        if self.copier is None:
            if any(isinstance(step, KillCopier) for phase in self.phases for step in phase.steps):
                raise ValueError("a step is kill_copier, and there is no copier")
            return
        source = self._load_for("copier", self.copier.load).topic if self.named_loads else ""
        inputs = self.loads_of(source)
        if not inputs or not all(load.transaction for load in inputs):
            raise ValueError("copier needs a load with transaction, whose readers see only committed records")
        if self.copier.to not in self.topics or self.loads_of(self.copier.to):
            raise ValueError(
                f"copier writes to topic {self.copier.to!r}, which must be another one under topics than the loads'"
            )
        if self.topics[self.copier.to].partitions != self.topics[source].partitions:
            raise ValueError(f"copier needs as many partitions of {self.copier.to} as of {source}")

    def _load_for(self, where: str, name: str | None) -> Load:
        if name is None and len(self.named_loads) > 1:
            raise ValueError(f"{where}: name the load; this scenario has {', '.join(self.named_loads)}")
        if name is not None and name not in self.named_loads:
            raise ValueError(f"{where}: there is no load {name!r}; this scenario has {', '.join(self.named_loads)}")
        return self.named_loads[self.load_name(name)]

    def _check_sizes(self, where: str, load: Load) -> None:
        default = self.cluster.config.get("message.max.bytes", str(MAX_MESSAGE_BYTES))
        limit = self.topics[load.topic].config.get("max.message.bytes", default)
        largest = load.sizes.largest
        if not limit.isdecimal() or largest + BATCH_OVERHEAD > int(limit):
            raise ValueError(
                f"{where}.record_bytes: the largest record has {largest} bytes; with {BATCH_OVERHEAD} of its batch "
                f"it does not fit in max.message.bytes {limit} of {load.topic}"
            )

    def _check_disk(self, phase: str, step: Step) -> None:
        disks, named = self.cluster.disks, {target.name for target in step.targets if target.name}
        if isinstance(step, FillDisk) and not (disks.keys() >= (named or self.cluster.broker_ids.keys())):
            who = ", ".join(sorted(named)) or "every broker"
            raise ValueError(f"phase {phase!r}, step fill_disk: give {who} a disk under cluster.disks")
        if isinstance(step, FailLogDir) and self.cluster.log_dirs == 1:
            raise ValueError(
                f"phase {phase!r}, step fail_log_dir: its broker has no other log directory and would exit; set "
                "cluster.log_dirs, or use read_only_disk"
            )
        if isinstance(step, ReadOnlyDisk) and self.cluster.log_dirs > 1:
            raise ValueError(
                f"phase {phase!r}, step read_only_disk: its broker would continue with its other log directories; "
                "use fail_log_dir"
            )
        if isinstance(step, SlowDisk) and not self._flushes:
            raise ValueError(
                f"phase {phase!r}, step slow_disk: brokers write to the page cache, so that a slow disk "
                "has no effect; set flush.messages on a topic"
            )
        on_host = step.of_dead or isinstance(step, FlipBit | ReadOnlyDisk | SlowDisk)
        if on_host and disks.keys() & (named or disks.keys()):
            raise ValueError(
                f"phase {phase!r}, step {step.key}: cannot reach into a disk of cluster.disks; aim at another broker"
            )
        if isinstance(step, Lag | Slow) and disks:
            self._check_rate_seen(f"phase {phase!r}, step {step.key}", step.node)

    @property
    def _flushes(self) -> bool:
        topics = any("flush.messages" in topic.config for topic in self.topics.values())
        return topics or "log.flush.interval.messages" in self.cluster.config

    def _check_rate_seen(self, where: str, follower: Target) -> None:
        """Require another replica on the host's disk, whose files show the growth."""
        topic = self.topics[follower.of.topic] if follower.of else next(iter(self.topics.values()))
        on_host = set(topic.replicas) - self.cluster.disks.keys() - {follower.name}
        if len(on_host) < (1 if follower.name else 2):  # a role may be bound to one of them
            raise ValueError(
                f"{where}: the rate is measured at another replica, on the host's disk; take one that cannot be "
                f"{follower} out of cluster.disks"
            )

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
            raise ValueError(f"topic {name} has {setting} {min_isr}, which is not a number from 1 on")
        if int(min_isr) > replication_factor:
            raise ValueError(f"topic {name} has {setting} {min_isr}, above its replication factor {replication_factor}")

    def unknown_setting(self, versions: Collection[Version] = ()) -> str | None:
        """Return why a setting that none of these versions has is rejected; default: all known versions."""
        for where, kind, names in self._settings():
            for name in names:
                if why := unknown_setting(kind, name, versions, self.cluster.allow_unknown):
                    return f"{where}: {why}"
        return None

    def _settings(self) -> Iterator[tuple[str, Kind, Iterable[str]]]:
        yield "cluster.config", "broker", self.cluster.config
        for name, topic in self.topics.items():
            yield f"topics.{name}.config", "topic", topic.config
        for step in (step for phase in self.phases for step in phase.steps):
            if isinstance(step, Configure):
                yield "configure.set", "topic" if step.topic else "broker", step.set
            elif isinstance(step, Restart):
                yield "restart.with", "broker", step.settings

    def _check_step(self, phase: str, step: Step) -> None:
        where = f"phase {phase!r}, step {step.key}"
        targets = step.targets
        for topic, partition in [target.of for target in targets if target.of] + step.partitions:
            if topic not in self.topics or partition >= self.topics[topic].partitions:
                raise ValueError(f"{where}: there is no partition {topic}-{partition}")
        self._check_conditions(where, step)
        if isinstance(step, SetRate) and not self.named_loads:
            raise ValueError(f"{where}: there is no load whose rate it could change")
        if isinstance(step, SetRate) and self._load_for(where, step.load).engine == "java":
            raise ValueError(f"{where}: engine: java cannot change its rate; use another engine")
        if isinstance(step, Read) and step.rack and not self.cluster.racks:
            raise ValueError(f"{where}: rack {step.rack} needs brokers with racks; name them under cluster.racks")
        self._check_letters(where, step)
        self._check_members(where, step)
        if (wrong := next((t for t in targets if t.role in CONTROLLERS), None)) and not step.of_controllers:
            raise ValueError(f"{where}: it cannot be aimed at {wrong}; name a broker")
        for target in targets:
            if target.of and target.role.startswith("follower") and len(self.topics[target.of.topic].replicas) == 1:
                raise ValueError(f"{where}: {target.of} has one replica, so it has no follower")
            if target.of and target.role == "uninvolved broker" and len(self.topics[target.of.topic].replicas) < 3:
                raise ValueError(
                    f"{where}: {target.of} needs three replicas, so that one is neither leader nor controller"
                )

    def _check_conditions(self, where: str, step: Step) -> None:
        known = {name for topic, told in self.topics.items() for name in (topic, *_names(topic, told))}
        if unknown := [each.about for each in step.conditions if each.about and each.about not in known]:
            raise ValueError(f"{where}: there is no topic or partition {unknown[0]}")
        if any(each.steady_state for each in step.conditions) and not self.named_loads:
            raise ValueError(f"{where}: there is no load that could be in steady_state")

    def _check_members(self, where: str, step: Step) -> None:
        members = self.group.members if self.group else 0
        for target in (target for target in step.targets if target.of_members):
            if not step.of_members:
                raise ValueError(f"{where}: it cannot be aimed at {target}; name a broker")
            if (target.member or 1) > members:
                raise ValueError(f"{where}: there is no {target}; the group has {members} members")
            if isinstance(step, Restart) and step.settings:
                raise ValueError(f"{where}: a member takes no settings of brokers; leave out with")

    def _check_letters(self, where: str, step: Step) -> None:
        known, named = self.cluster.broker_ids, step.letters + [target.name for target in step.targets if target.name]
        if unknown := [letter for letter in named if letter not in known]:
            raise ValueError(f"{where}: there is no broker {unknown[0]}; this cluster has {', '.join(known)}")
        if len(set(step.letters)) != len(step.letters):
            raise ValueError(f"{where}: names a broker twice in {step.letters}")
        if isinstance(step, ChurnLeadership) and (
            odd := set(step.letters) - set(self.topics[step.partition.topic].replicas)
        ):
            raise ValueError(f"{where}: {sorted(odd)[0]} has no replica of {step.partition} that could lead")

    @property
    def named_loads(self) -> dict[str, Load]:
        return {PRODUCER: self.load} if self.load else self.loads

    def load_name(self, asked: str | None) -> str:
        return asked or next(iter(self.named_loads))

    def loads_of(self, topic: str) -> list[Load]:
        return [load for load in self.named_loads.values() if load.topic == topic]

    def rate_of(self, topic: str) -> float:
        """Return a topic's records per second, from loads or a copier."""
        copied = self.copied if self.copier and self.copier.to == topic else ()
        return math.fsum(load.usual_rate for load in (*self.loads_of(topic), *copied))

    @property
    def copied(self) -> list[Load]:
        return self.loads_of(self.named_loads[self.load_name(self.copier.load)].topic) if self.copier else []

    @property
    def producers(self) -> list[Producer]:
        return producers_of(self.named_loads)

    @property
    def isolation(self) -> str:
        transactional = any(load.transaction for load in self.named_loads.values())
        return "read_committed" if transactional else "read_uncommitted"

    @property
    def grouped(self) -> Load | None:
        return next((load for load in self.named_loads.values() if load.group), None)

    @property
    def group(self) -> Group | ShareGroup | None:
        return self.grouped.group if self.grouped else None

    @property
    def aims_at_controller(self) -> bool:
        """Return whether a step targets the broker that is the controller; KRaft's is a separate node."""
        targets = (target for phase in self.phases for step in phase.steps for target in step.targets)
        return any(target.role == "controller" for target in targets)

    @property
    def faults(self) -> list[str]:
        return [fault for phase in self.phases for step in phase.steps for fault in step.breaks]

    @property
    def needs(self) -> frozenset[str]:
        of_cluster = frozenset({"resource_limits"} if self.cluster.resource_limits else ())
        of_cluster |= frozenset({"disks"} if self.cluster.disks else ())
        return of_cluster.union(*(step.needs for phase in self.phases for step in phase.steps))

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()


def parse_scenario(text: str, where: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario from YAML and merge ``changes`` into it (``merge_patch``).

    Raises:
        BadInput: it is not a scenario; the message names the first error.
    """
    told = parse(text, where)
    merged = merge_patch(told, changes) if changes else told
    try:
        return Scenario.model_validate(merged)
    except ValidationError as error:
        changed = ", as changed" if changes else ""
        raise BadInput(f"{where}{changed}: {first_wrong(error, partial(_named, merged))}.") from error


def _named(document: Any, place: Place) -> str:
    match place:
        case ("phases", int(phase), "steps", int(step), *more):
            of: Any = _phase(document["phases"][phase])
            written = of["steps"][step]
            key = f" ({next(iter(written))})" if isinstance(written, dict) and written else ""
            return ": ".join([f"phase {of['name']!r}, step {step + 1}{key}", *filter(None, [dotted(more)])])
    return dotted(place)


def merge_patch(told: object, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7396): null removes a key."""
    merged = dict(told) if isinstance(told, Mapping) else {}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value) if isinstance(value, Mapping) else value
    return merged


def scenario_names() -> list[str]:
    """Return the shipped scenarios' names."""
    return sorted(path.stem for path in SCENARIOS.glob("*.yaml"))


def load_scenario(name_or_path: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Load ``scenarios/<name>.yaml`` or a path; see ``parse_scenario``."""
    path = Path(name_or_path) if name_or_path.endswith((".yaml", ".yml")) else SCENARIOS / f"{name_or_path}.yaml"
    escapes = not name_or_path.endswith((".yaml", ".yml")) and "/" in name_or_path  # a name is not a path
    if escapes or not is_file(path):
        known = ", ".join(scenario_names())
        raise BadInput(f"There is no scenario {name_or_path!r}; known: {known}, or give a path to a .yaml file.")
    return parse_scenario(read_text(path, "The scenario"), str(name_or_path), changes)
