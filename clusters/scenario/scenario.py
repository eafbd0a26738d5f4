"""A scenario: one YAML file with cluster, load and faults (docs/scenarios.md)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationError, model_validator

from clusters.paths import ROOT, is_file
from clusters.scenario.groups import Group, ShareGroup
from clusters.scenario.load import Copier, Load
from clusters.scenario.producers import PRODUCER, Producer, producers_of, wrong_names
from clusters.scenario.steps.catalog import AnyStep
from clusters.scenario.steps.flow import Wait
from clusters.scenario.steps.processes import KillCopier, Start
from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Letter, Target
from clusters.scenario.values import (
    Bytes,
    BytesPerSecond,
    Control,
    CpuSet,
    JavaVersion,
    JvmFlag,
    MetadataVersion,
    Model,
    Rack,
    Seconds,
    Settings,
    is_none,
)
from history.errors import BadInput
from history.kafka_settings import Kind, unknown_setting
from history.kafka_versions import Version
from history.partition import TopicPartition
from history.refusals import Place, dotted, first_wrong
from history.yaml_files import parse, read_text

SCENARIOS = ROOT / "scenarios"
MAX_MESSAGE_BYTES = 1_048_588
BATCH_OVERHEAD = 100  # batch header and record framing, at most


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


SettingName = Annotated[str, Field(pattern=r"^[\w.-]+$")]


class Cluster(Model):
    """A cluster (docs/scenarios.md).

    A ``metadata_version`` older than the brokers' is the state before an upgrade is finalised.
    """

    brokers: int = Field(ge=1, le=26)
    mode: Literal["kraft", "zookeeper"] | None = None
    controllers: Literal[1, 3] = Field(default=1, exclude_if=lambda number: number == 1)  # voters
    elr: bool | None = Field(default=None, exclude_if=is_none)  # eligible leader replicas
    metadata_version: MetadataVersion | None = Field(default=None, exclude_if=is_none)  # None: the version's
    security: Security | None = Field(default=None, exclude_if=is_none)
    session_timeout: Seconds = 9.0
    jvm: Literal["fast_start", "production"] = "fast_start"
    java: JavaVersion | None = Field(default=None, exclude_if=is_none)  # of servers
    heap: str | None = Field(default=None, pattern=r"^[1-9]\d*[mMgG]$")  # of a broker; None: by jvm
    jvm_flags: list[JvmFlag] | None = Field(default=None, exclude_if=is_none)
    resource_limits: Allowance | None = None
    disks: dict[Letter, Bytes] = Field(default_factory=dict)  # small disks of their own
    log_dirs: int = Field(default=1, ge=1, le=8, exclude_if=lambda number: number == 1)  # per broker, on one disk
    # Consumers may read from a replica in their rack (KIP-392).
    racks: dict[Letter, Rack] = Field(default_factory=dict, exclude_if=lambda racks: not racks)
    metrics: bool = False  # of requests and garbage collection
    debug: list[str] = Field(default_factory=list)  # such as kafka.cluster.Partition
    config: Settings = Field(default_factory=dict)
    allow_unknown: list[SettingName] = Field(default_factory=list, exclude_if=lambda names: not names)  # of plug-ins
    ids: list[int] | None = Field(default=None, exclude_if=is_none)  # of a cluster that somebody else runs

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
        return {chr(ord("A") + index): number for index, number in enumerate(self.ids or range(1, self.brokers + 1))}


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


@contextmanager
def _at(place: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


class Scenario(Model):
    """The cluster, the load and the faults of a run; ``named_loads`` has ``load`` or ``loads``."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]{0,40}$")
    why: str
    cluster: Cluster
    topics: dict[TopicName, Topic] = Field(min_length=1)
    load: Load | None = None
    loads: dict[str, Load] = Field(default_factory=dict, exclude_if=lambda loads: not loads)
    phases: list[AnyPhase] = Field(min_length=1)
    copier: Copier | None = Field(default=None, exclude_if=is_none)
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
                with _at(f"phase {phase.name!r}, step {step.key}"):
                    self._check_step(step, phase.steps[:number])
        if why := self.unknown_setting():
            raise ValueError(why)
        return self

    def _check_step(self, step: Step, earlier: Sequence[Step]) -> None:
        self._check_aims(step)
        step.check(self)
        if step.target_is_down and not any(each.key in Start.ends for each in earlier):
            raise ValueError("needs a broker that is down; kill or stop it first")

    def _check_aims(self, step: Step) -> None:
        for topic, partition in [target.of for target in step.targets if target.of] + step.partitions:
            if topic not in self.topics or partition >= self.topics[topic].partitions:
                raise ValueError(f"there is no partition {topic}-{partition}")
        self._check_conditions(step)
        self._check_letters(step)
        for target in step.targets:
            if target.kind not in step.may_target:
                raise ValueError(f"it cannot be aimed at {target}; name a broker")
            self._check_role(target)

    def _check_conditions(self, step: Step) -> None:
        partitions = {
            str(TopicPartition(name, number))
            for name, topic in self.topics.items()
            for number in range(topic.partitions)
        }
        named = [condition.about for condition in step.conditions if condition.about]
        if unknown := [name for name in named if name not in self.topics.keys() | partitions]:
            raise ValueError(f"there is no topic or partition {unknown[0]}")
        if any(condition.steady_state for condition in step.conditions) and not self.named_loads:
            raise ValueError("there is no load that could be in steady_state")

    def _check_letters(self, step: Step) -> None:
        known, named = self.cluster.broker_ids, step.letters + [target.name for target in step.targets if target.name]
        if unknown := [letter for letter in named if letter not in known]:
            raise ValueError(f"there is no broker {unknown[0]}; this cluster has {', '.join(known)}")
        if len(set(step.letters)) != len(step.letters):
            raise ValueError(f"names a broker twice in {step.letters}")

    def _check_role(self, target: Target) -> None:
        members = self.group.members if self.group else 0
        if target.kind == "member" and (target.member or 1) > members:
            raise ValueError(f"there is no {target}; the group has {members} members")
        replicas = len(self.topics[target.of.topic].replicas) if target.of else 0
        if target.of and target.role.startswith("follower") and replicas == 1:
            raise ValueError(f"{target.of} has one replica, so it has no follower")
        if target.of and target.role == "uninvolved broker" and replicas < 3:
            raise ValueError(f"{target.of} needs three replicas, so that one is neither leader nor controller")

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
            if KillCopier.key in self.faults:
                raise ValueError("a step is kill_copier, and there is no copier")
            return
        with _at("copier"):
            source = self.load_for(self.copier.load).topic if self.named_loads else ""
        inputs = self.loads_of(source)
        if not inputs or not all(load.transaction for load in inputs):
            raise ValueError("copier needs a load with transaction, whose readers see only committed records")
        if self.copier.to not in self.topics or self.loads_of(self.copier.to):
            raise ValueError(
                f"copier writes to topic {self.copier.to!r}, which must be another one under topics than the loads'"
            )
        if self.topics[self.copier.to].partitions != self.topics[source].partitions:
            raise ValueError(f"copier needs as many partitions of {self.copier.to} as of {source}")

    def _check_sizes(self, where: str, load: Load) -> None:
        default = self.cluster.config.get("message.max.bytes", str(MAX_MESSAGE_BYTES))
        limit = self.topics[load.topic].config.get("max.message.bytes", default)
        largest = load.sizes.largest
        if not limit.isdecimal() or largest + BATCH_OVERHEAD > int(limit):
            raise ValueError(
                f"{where}.record_bytes: the largest record has {largest} bytes; with {BATCH_OVERHEAD} of its batch "
                f"it does not fit in max.message.bytes {limit} of {load.topic}"
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
        yield from (step.settings_changed for step in self.steps if step.settings_changed)

    @property
    def steps(self) -> list[Step]:
        return [step for phase in self.phases for step in phase.steps]

    def id_of(self, step: Step) -> str:
        """Return ``write-1`` for the first ``write`` step."""
        alike = [each for each in self.steps if each.key == step.key]
        return f"{step.key}-{next(number for number, each in enumerate(alike, 1) if each is step)}"

    @property
    def named_loads(self) -> dict[str, Load]:
        return {PRODUCER: self.load} if self.load else self.loads

    def load_for(self, name: str | None) -> Load:
        """Return the load with this name, or else the only one; raise ValueError without one."""
        if name is None and len(self.named_loads) > 1:
            raise ValueError(f"name the load; this scenario has {', '.join(self.named_loads)}")
        if name is not None and name not in self.named_loads:
            raise ValueError(f"there is no load {name!r}; this scenario has {', '.join(self.named_loads)}")
        return self.named_loads[self.load_name(name)]

    def load_name(self, name: str | None) -> str:
        return name or next(iter(self.named_loads))

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
        return any(target.role == "controller" for step in self.steps for target in step.targets)

    @property
    def faults(self) -> list[str]:
        return [fault for step in self.steps for fault in step.breaks]

    @property
    def needs(self) -> frozenset[str]:
        of_cluster = frozenset({"resource_limits"} if self.cluster.resource_limits else ())
        of_cluster |= frozenset({"disks"} if self.cluster.disks else ())
        return of_cluster.union(*(step.required for step in self.steps))

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()


def parse_scenario(text: str, where: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario from YAML and merge ``changes`` into it (``merge_patch``).

    Raises:
        BadInput: it is not a scenario; the message names the first error.
    """
    document = parse(text, where)
    merged = merge_patch(document, changes) if changes else document
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


def merge_patch(document: object, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7396): null removes a key."""
    merged = dict(document) if isinstance(document, Mapping) else {}
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
    return parse_scenario(read_text(file_of(name_or_path), "The scenario"), str(name_or_path), changes)


def file_of(name_or_path: str) -> Path:
    """Return a scenario's file; raise BadInput if there is none."""
    path = Path(name_or_path) if name_or_path.endswith((".yaml", ".yml")) else SCENARIOS / f"{name_or_path}.yaml"
    escapes = not name_or_path.endswith((".yaml", ".yml")) and "/" in name_or_path  # a name is not a path
    if escapes or not is_file(path):
        known = ", ".join(scenario_names())
        raise BadInput(f"There is no scenario {name_or_path!r}; known: {known}, or give a path to a .yaml file.")
    return path
