"""Each client node's configuration, a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from clusters.kafka.access import Access
from history.draws import Sizes
from history.errors import BadInput
from history.verifiable import PREFIX

OFFER = "offer.json"  # {"rate_per_s"}: the requested rate, written atomically
OFFERED = "offered.json"  # {"rate_per_s", "from_ns"}: due time of the first record at that rate
IN_FLIGHT_BYTES, LEAST_IN_FLIGHT, MOST_IN_FLIGHT = 128_000_000, 20_000, 200_000
KAFKA_PYTHON_IN_FLIGHT = 10_000  # with more it stalls for seconds at its own limit


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Settings of all clients; ``out`` is a folder, ``summary`` and ``access`` (a client.properties) are paths.

    ``id_prefix`` precedes ids on a cluster that has other clients.
    """

    client_id: str
    out: str
    summary: str
    access: str | None = None
    id_prefix: str = ""

    @cached_property
    def credentials(self) -> Access | None:
        return Access(Path(self.access)) if self.access else None

    @property
    def id_on_cluster(self) -> str:
        """Return the client.id, and the transactional.id or group.id if it has one."""
        return f"{self.id_prefix}{self.client_id}"

    def stream(self, table: str) -> Path:
        return Path(self.out) / f"{table}-{self.client_id}.arrow"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            return cls(**cls._revive(json.loads(text)))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise BadInput(f"This is not a valid {cls.__name__} in JSON: {error}.") from error

    @classmethod
    def _revive(cls, settings: dict[str, Any]) -> dict[str, Any]:
        return settings


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Configure an open-loop producer."""

    bootstrap: list[str]
    topic: str
    partitions: int
    rate_per_s: float | dict[str, Any]  # or a curve
    record_bytes: int | dict[str, Any]
    acks: str = "all"  # "0" | "1" | "all"
    idempotence: bool = True
    retries: int = 2_147_483_647
    request_timeout_ms: int = 10_000
    delivery_timeout_ms: int = 30_000
    linger_ms: int = 5
    batch_bytes: int = 900_000
    compresses_to: float | None = None  # compressed fraction; None: repeated padding
    payload_file: str | None = None
    compression: str = "none"  # or gzip, snappy, lz4, zstd
    engine: str = "kafka-python"  # or "confluent-kafka"
    control: str | None = None
    max_in_flight: int | None = None  # None: see ``limit_in_flight``
    transaction_records: int | None = None
    abort_every: int | None = None
    transaction_timeout_ms: int = 60_000
    keys: dict[str, Any] | None = None
    client_partitions: bool = False  # else round robin
    seed: int = 0

    @property
    def limit_in_flight(self) -> int:
        """Return the most records in flight, at least 1 s of a fast load; later ones are never sent."""
        if self.engine == "kafka-python":
            return self.max_in_flight or KAFKA_PYTHON_IN_FLIGHT
        fitting = int(IN_FLIGHT_BYTES / Sizes.of(self.record_bytes).mean)
        return self.max_in_flight or min(max(fitting, LEAST_IN_FLIGHT), MOST_IN_FLIGHT)

    @property
    def draws(self) -> str:
        return f"{self.seed} {self.client_id}"


@dataclass(frozen=True, kw_only=True)
class VerifiableProducerConfig(ProducerConfig):
    """Configure Kafka's VerifiableProducer."""

    rate_per_s: float
    java: str
    jars: str
    value_prefix: int = PREFIX


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Configure a consumer without a group; ``topics`` → partition count."""

    bootstrap: list[str]
    topics: dict[str, int]
    isolation: str = "read_uncommitted"  # or "read_committed"


@dataclass(frozen=True, kw_only=True)
class CopierConfig(ClientConfig):
    """Configure a copier (``clusters.scenario.load``)."""

    bootstrap: list[str]
    topic: str
    to: str
    partitions: int
    offsets: str
    records: int
    transaction_timeout_ms: int


@dataclass(frozen=True, kw_only=True)
class DrainConfig(ConsumerConfig):
    """Configure a final drain, at most ``limit_s`` long."""

    limit_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class MemberConfig(ClientConfig):
    """Configure one incarnation of a group member, which touches ``alive`` on each poll."""

    bootstrap: list[str]
    topic: str
    group_id: str
    alive: str
    protocol: str = "classic"  # or "consumer"
    assignor: str | None = None
    session_timeout_ms: int = 6_000
    commit_every_s: float = 1.0
    commit_ahead: bool = False
    isolation: str = "read_uncommitted"


@dataclass(frozen=True, kw_only=True)
class ShareMemberConfig(ClientConfig):
    """Configure a share group member."""

    bootstrap: list[str]
    topic: str
    group_id: str
    alive: str
    processing_s: float = 0.2
    release_every: int | None = None


@dataclass(frozen=True, kw_only=True)
class ProberConfig(ClientConfig):
    """Configure the wire probe; ``assignment``: topic → partition → broker ids.

    ``topic_ids``: see ``BrokerWatch``. ``busy`` is the largest share of the time in which a request is outstanding at a
    broker.
    """

    brokers: dict[int, str]  # "": unknown
    assignment: dict[str, dict[int, list[int]]]
    topic_ids: dict[str, str] = field(default_factory=dict)
    hz: float = 20.0
    isr_hz: float = 10.0
    timeout_ms: int = 250
    busy: float = 1.0

    @classmethod
    def _revive(cls, settings: dict[str, Any]) -> dict[str, Any]:
        brokers = {int(broker): address for broker, address in settings["brokers"].items()}
        assignment = {
            topic: {int(partition): ids for partition, ids in partitions.items()}
            for topic, partitions in settings["assignment"].items()
        }
        return super()._revive({**settings, "brokers": brokers, "assignment": assignment})
