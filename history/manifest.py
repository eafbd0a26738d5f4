"""``manifest.json``: what is known before a run's first record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from history.errors import EvidenceError
from history.folder import write_atomically
from history.kafka_versions import RELEASES
from history.product import Product
from history.traits import Trait
from history.words import listed

FORMAT: Final = 3
UNKNOWN: Final = "unknown"  # a Kafka version that no broker reports
Origin = Literal["recorded", "attached", "watched", "operations", "verifiable", "ledger", "jepsen"]

# Sources (``evidence.sources``); without "followers" if only leaders answer, with what hooks deliver.
ATTACHED: Final = frozenset(
    {
        *("sends", "polls", "seeks", "positions", "rest", "replicas", "followers", "isr", "offsets"),
        *("group_reads", "rebalances", "commits", "share_reads", "share_acks"),
    }
)

# Broker settings of a topic setting, with unit factor, by precedence.
_OF_BROKERS = {
    "cleanup.policy": {"log.cleanup.policy": 1},
    "retention.bytes": {"log.retention.bytes": 1},
    "retention.ms": {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": 3_600_000},
}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeInfo(_Model):
    """A started node."""

    name: str
    role: Literal["broker", "controller", "zookeeper", "producer", "consumer", "prober"]
    address: str
    node_id: int | None = None
    config: dict[str, str] = Field(default_factory=dict)
    jvm_flags: list[str] = Field(default_factory=list)


class JavaInfo(_Model):
    """The servers' Java; ``released`` is ISO 8601."""

    version: str
    vendor: str
    released: str


class Incarnation(_Model):
    """One start of a server."""

    node: str
    incarnation: int
    kafka_version: str
    started_ns: int


class TopicInfo(_Model):
    """A topic; ``assignment`` maps a partition to brokers, preferred leader first."""

    assignment: dict[int, list[int]]
    config: dict[str, str] = Field(default_factory=dict)


class ProducerInfo(_Model):
    """The settings of a producer or a ``write`` step."""

    producer_id: str
    load: str | None = None
    topic: str
    acks: Literal["0", "1", "all"]
    idempotence: bool
    retries: int
    engine: Literal["kafka-python", "confluent-kafka", "java", "copier", "raw", "foreign"]
    client: str | None = None  # None: not Kafka's own
    rate_per_s: float | None = None
    record_bytes: int
    transaction_timeout_ms: int | None = None  # None: none, or unknown
    offsets: Literal["in_transaction", "apart"] | None = None  # copiers


class Manifest(_Model):
    """A run's request and setup.

    ``scenario`` has defaults filled in. ``faults`` lists fault kinds, ``traits`` each step's possible effects,
    ``control`` a positive control's anomaly. ``kafka_origin`` is a build's source. ``features`` are finalised before
    the first record; in ZooKeeper mode the inter.broker.protocol.version. A reader that pauses longer than
    ``patience_s`` is stuck (None: no readers, or an older run). ``plimsoll`` recorded or imported the run. ``evidence``
    are the sources that could be recorded (None: all of the origin's).
    """

    format: Literal[3] = FORMAT
    origin: Origin = "recorded"
    evidence: frozenset[str] | None = None
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
    cluster_id: str | None = None  # of a cluster that somebody else runs
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
        if self.origin in ("recorded", "attached") and (self.mode is None or self.runtime is None):
            raise ValueError("a recorded run names its mode and its runtime")
        if (self.evidence is not None) != self.attached:
            raise ValueError("a run on a cluster of others names its evidence, and only such a run")
        return self

    @property
    def foreign(self) -> bool:
        return self.origin not in ("recorded", "attached", "watched")

    @property
    def watched(self) -> bool:
        return self.origin == "watched"

    @property
    def attached(self) -> bool:
        """Return whether somebody else runs the cluster, under which the run had clients."""
        return self.origin == "attached"

    @property
    def kafka_versions(self) -> list[str]:
        """Return the versions that brokers ran, or the oldest and the newest if one is unknown."""
        found = list(dict.fromkeys([self.kafka_version, *(start.kafka_version for start in self.incarnations)]))
        return [str(RELEASES[0]), str(RELEASES[-1])] if self.watched or UNKNOWN in found else found

    @property
    def brokers(self) -> list[NodeInfo]:
        return [node for node in self.nodes if node.role == "broker"]

    def topic_setting(self, topic: str, name: str, default: str) -> str:
        own = self.topics[topic].config.get(name) if topic in self.topics else None
        of_brokers = {value for node in self.brokers if (value := _of_broker(name, node.config)) is not None}
        if own is not None:
            return own
        return of_brokers.pop() if len(of_brokers) == 1 else default

    def has(self, step: str, *traits: Trait) -> bool:
        return not self.traits.get(step, frozenset()).isdisjoint(traits)

    @property
    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        phases = self.scenario.get("phases", [])
        return [next(iter(step.items())) for phase in phases for steps in phase.values() for step in steps]

    @property
    def loads(self) -> dict[str, dict[str, Any]]:
        one = self.scenario.get("load")
        return {"producer": one} if one else self.scenario.get("loads", {})

    @property
    def grouped(self) -> dict[str, Any] | None:
        return next((load for load in self.loads.values() if load.get("group")), None)

    @property
    def group(self) -> dict[str, Any] | None:
        return self.grouped["group"] if self.grouped else None

    @property
    def shares(self) -> bool:
        return (self.group or {}).get("protocol") == "share"

    def topic_settings(self, topic: str, name: str, default: str) -> set[str]:
        """Return all values a topic's setting may have had, since steps change it."""
        return {self.topic_setting(topic, name, default), *self._changed(topic, name)}

    def _changed(self, topic: str, name: str) -> Iterator[str]:
        for key, step in self.steps:
            value: str | None = None
            if key == "configure" and step.get("topic") == topic:
                value = step["set"].get(name)
            elif key == "configure" and step.get("topic") is None:
                value = _of_broker(name, step["set"])
            elif key == "restart":
                value = _of_broker(name, step.get("with", {}))
            if value is not None:
                yield value

    def write(self, path: Path) -> None:
        write_atomically(path, self.model_dump_json(indent=1))


def _of_broker(name: str, config: Mapping[str, str]) -> str | None:
    for own, unit in _OF_BROKERS.get(name, {name: 1}).items():
        if own in config:
            value = config[own]
            return value if unit == 1 or int(value) < 0 else str(int(value) * unit)
    return None


def words_of(evidence: Collection[str]) -> str:
    """Return an attached run's sources in words."""
    offsets = "the offsets of every replica" if "followers" in evidence else "leader offsets"
    named = {"sends": "clients", "replicas": offsets, "segments": "segments", "server logs": "server logs"}
    return listed([words for source, words in named.items() if source in evidence])


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises: EvidenceError.
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
