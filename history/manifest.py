"""``manifest.json``: everything about a run that is known before its first record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from history.errors import EvidenceError
from history.folder import write_atomically
from history.product import Product
from history.traits import Trait

FORMAT: Final = 3
Origin = Literal["recorded", "operations", "verifiable", "ledger", "jepsen"]

# What a broker calls the settings of topics that it names otherwise, with the unit of each name; the first one counts.
_OF_BROKERS = {
    "cleanup.policy": {"log.cleanup.policy": 1},
    "retention.bytes": {"log.retention.bytes": 1},
    "retention.ms": {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": 3_600_000},
}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeInfo(_Model):
    """A node as it was started: the effective configuration file and the JVM's flags of a broker or controller."""

    name: str
    role: Literal["broker", "controller", "zookeeper", "producer", "consumer", "prober"]
    address: str
    node_id: int | None = None
    config: dict[str, str] = Field(default_factory=dict)
    jvm_flags: list[str] = Field(default_factory=list)


class JavaInfo(_Model):
    """The Java of a run's servers; ``released`` is a day (ISO 8601)."""

    version: str
    vendor: str
    released: str


class Incarnation(_Model):
    """One start of a server, by the run's count of that server's starts, and the Kafka that it ran."""

    node: str
    incarnation: int
    kafka_version: str
    started_ns: int


class TopicInfo(_Model):
    """A topic as it was created; ``assignment`` maps a partition to broker ids, preferred leader first."""

    assignment: dict[int, list[int]]
    config: dict[str, str] = Field(default_factory=dict)


class ProducerInfo(_Model):
    """What a producer (or a ``write`` step) promised and was told; ``load`` names the load that it is of, if any."""

    producer_id: str
    load: str | None = None
    topic: str
    acks: Literal["0", "1", "all"]
    idempotence: bool
    retries: int
    engine: Literal["kafka-python", "confluent-kafka", "java", "copier", "raw", "foreign"]
    client: str | None = None  # the release of Kafka whose client it is; None: not Kafka's own
    rate_per_s: float | None = None
    record_bytes: int
    transaction_timeout_ms: int | None = None  # None: it has no transactions, or nobody knows
    offsets: Literal["in_transaction", "apart"] | None = None  # of a copier: how it commits what it has read


class Manifest(_Model):
    """The run as it was asked for and set up.

    ``scenario`` is the scenario file fully resolved (defaults filled in); ``faults`` lists the kinds of fault steps in
    it, in order, and ``traits`` what each step may do, by its key; ``control`` names the anomaly that a positive
    control must produce.
    ``kafka_version`` is what Kafka reports of itself, ``kafka_origin`` the folder, archive or image that it came from,
    None for a released version. ``java`` is what every server ran on; nobody knows that of an imported history.
    ``incarnations``, added when the run is collected, say which version each start of a server ran.
    ``features`` are those that a broker reported as finalised before the first record, in ZooKeeper mode its
    inter.broker.protocol.version.
    ``patience_s`` is for how long a reader may stand still short of the end once the cluster is at rest, before the
    judge takes it for stuck; None: nothing is read, or the run is older than the table of positions.
    ``origin`` is how the history came to be: recorded by a run, or imported from a file of that format; nobody
    knows the mode and the runtime of an imported one. ``labels`` say what the run is for, as its campaign named it.
    ``plimsoll`` is what recorded or imported the run, None in manifests that were written before it was noted.
    """

    format: Literal[3] = FORMAT
    origin: Origin = "recorded"
    run_id: str
    scenario_name: str
    scenario: dict[str, Any]
    scenario_digest: str
    control: str | None = None
    faults: list[str]
    traits: dict[str, frozenset[Trait]]
    kafka_version: str
    kafka_jars_digest: str
    kafka_origin: str | None = None
    java: JavaInfo | None = None
    features: dict[str, str] = Field(default_factory=dict)
    mode: Literal["kraft", "zookeeper"] | None = None
    runtime: Literal["docker", "process"] | None = None
    seed: int
    started_at: str
    started_ns: int
    boot_id: str
    probe_hz: float
    patience_s: float | None = None
    nodes: list[NodeInfo]
    incarnations: list[Incarnation] = Field(default_factory=list)
    topics: dict[str, TopicInfo]
    producers: list[ProducerInfo]
    host: dict[str, Any]
    plimsoll: Product | None = None
    labels: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _recorded_runs_name_their_cluster(self) -> Self:
        if not self.foreign and (self.mode is None or self.runtime is None):
            raise ValueError("a recorded run names its mode and its runtime")
        return self

    @property
    def foreign(self) -> bool:
        """Whether the history was imported: no probe, no drain and no segments belong to it."""
        return self.origin != "recorded"

    @property
    def kafka_versions(self) -> list[str]:
        """Every version that some server of the run ran, the one that it began with first."""
        return list(dict.fromkeys([self.kafka_version, *(start.kafka_version for start in self.incarnations)]))

    @property
    def brokers(self) -> list[NodeInfo]:
        return [node for node in self.nodes if node.role == "broker"]

    def topic_setting(self, topic: str, name: str, default: str) -> str:
        """A topic's effective setting: its own, else the brokers', else Kafka's default as given.

        A topic of Kafka's own has none in the manifest.
        """
        own = self.topics[topic].config.get(name) if topic in self.topics else None
        of_brokers = {value for node in self.brokers if (value := _of_broker(name, node.config)) is not None}
        if own is not None:
            return own
        return of_brokers.pop() if len(of_brokers) == 1 else default

    def has(self, step: str, *traits: Trait) -> bool:
        """Whether a step, by its key, has one of these traits."""
        return not self.traits.get(step, frozenset()).isdisjoint(traits)

    @property
    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """The scenario's steps in order, each by its key and with its settings."""
        phases = self.scenario.get("phases", [])
        return [next(iter(step.items())) for phase in phases for steps in phase.values() for step in steps]

    @property
    def loads(self) -> dict[str, dict[str, Any]]:
        """The settings of the scenario's loads by name; ``load`` is one that is called producer."""
        one = self.scenario.get("load")
        return {"producer": one} if one else self.scenario.get("loads", {})

    @property
    def grouped(self) -> dict[str, Any] | None:
        """The settings of the load whose topic a consumer group reads, if one does."""
        return next((load for load in self.loads.values() if load.get("group")), None)

    @property
    def group(self) -> dict[str, Any] | None:
        """The settings of the consumer group, if there is one."""
        return self.grouped["group"] if self.grouped else None

    @property
    def shares(self) -> bool:
        """Whether that is a share group."""
        return (self.group or {}).get("protocol") == "share"

    def topic_settings(self, topic: str, name: str, default: str) -> set[str]:
        """Every value that a topic's setting may have had at some time: ``configure`` steps change it for a while, and
        a broker may be restarted with another one.
        """
        return {self.topic_setting(topic, name, default), *self._changed(topic, name)}

    def _changed(self, topic: str, name: str) -> Iterator[str]:
        for key, told in self.steps:
            value: str | None = None
            if key == "configure" and told.get("topic") == topic:
                value = told["set"].get(name)
            elif key == "configure" and told.get("topic") is None:
                value = _of_broker(name, told["set"])
            elif key == "restart":
                value = _of_broker(name, told.get("with", {}))
            if value is not None:
                yield value

    def write(self, path: Path) -> None:
        write_atomically(path, self.model_dump_json(indent=1))


def _of_broker(name: str, config: Mapping[str, str]) -> str | None:
    """A topic's setting as a broker's configuration gives it, which may name it otherwise, and in another unit."""
    for own, unit in _OF_BROKERS.get(name, {name: 1}).items():
        if own in config:
            value = config[own]
            return value if unit == 1 or int(value) < 0 else str(int(value) * unit)
    return None


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        EvidenceError: the file is missing, or is no manifest of this format.
    """
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise EvidenceError(f"{path.parent} is no run folder: manifest.json is missing.") from None
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("format",):
            raise EvidenceError(
                f"{path.parent} was recorded in format {first['input']} and this version reads format {FORMAT}; "
                "record it again."
            ) from error
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise EvidenceError(f"{path} is no manifest of this format: {where}: {first['msg']}.") from error
