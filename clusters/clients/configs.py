"""What each client node is told: one JSON file, written by the recording half and read inside the node.

Every client writes its rows to ``<out>/<table>-<client_id>.arrow`` and how it fared to the file ``summary``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from clusters.kafka.security import Access
from history.draws import Sizes
from history.errors import BadInput
from history.verifiable import PREFIX

OFFER = "offer.json"  # {"rate_per_s"}, put there whole: the rate that is wanted from now on
OFFERED = "offered.json"  # {"rate_per_s", "from_ns"}, the producer's answer: its first record at that rate is due then
IN_FLIGHT_BYTES, LEAST_IN_FLIGHT, MOST_IN_FLIGHT = 128_000_000, 20_000, 200_000
KAFKA_PYTHON_IN_FLIGHT = 10_000  # with more of them it stands still for seconds at its own limit


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What all clients need; ``out`` is a folder, ``summary`` the path of ``<client_id>.json``.

    ``access`` is how it gets into the brokers, None where they are plaintext.
    """

    client_id: str
    out: str
    summary: str
    access: Access | None = None

    def stream(self, table: str) -> Path:
        """Where this client's Arrow stream of a table lies."""
        return Path(self.out) / f"{table}-{self.client_id}.arrow"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a configuration back.

        Raises:
            BadInput: it is no JSON object, or a setting is missing or unknown.
        """
        try:
            return cls(**cls._revive(json.loads(text)))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise BadInput(f"This is no {cls.__name__} in JSON: {error}.") from error

    @classmethod
    def _revive(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Turn back what JSON cannot say."""
        access = settings.get("access")
        return {**settings, "access": Access(**access)} if access else settings


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """An open-loop producer; ``bootstrap`` holds ``host:port``, ``partitions`` counts those of the topic."""

    bootstrap: list[str]
    topic: str
    partitions: int
    rate_per_s: float | dict[str, Any]  # or a curve, and
    record_bytes: int | dict[str, Any]  # or a distribution, as a scenario writes them
    acks: str = "all"  # "0" | "1" | "all"
    idempotence: bool = True
    retries: int = 2_147_483_647
    request_timeout_ms: int = 10_000
    delivery_timeout_ms: int = 30_000
    linger_ms: int = 5
    batch_bytes: int = 900_000
    compresses_to: float | None = None  # a share; None: the padding repeats itself
    payload_file: str | None = None  # whose bytes are the padding
    compression: str = "none"  # or gzip, snappy, lz4, zstd
    engine: str = "kafka-python"  # or "confluent-kafka"
    control: str | None = None  # a folder in which another rate may be asked for, see OFFER
    max_in_flight: int | None = None  # None: by their size, see ``room``
    transaction_records: int | None = None  # None: no transactions
    abort_every: int | None = None
    transaction_timeout_ms: int = 60_000
    keys: dict[str, Any] | None = None  # as a scenario writes them
    client_partitions: bool = False  # whether the library chooses partitions; else they take turns
    seed: int = 0  # of the run: which record has which key and size

    @property
    def room(self) -> int:
        """For how many records without an answer there is room; what is due beyond is never sent.

        A second of a fast load at least: brokers that pause for a moment are no limit of the generator.
        """
        if self.engine == "kafka-python":
            return self.max_in_flight or KAFKA_PYTHON_IN_FLIGHT
        fitting = int(IN_FLIGHT_BYTES / Sizes.of(self.record_bytes).mean)
        return self.max_in_flight or min(max(fitting, LEAST_IN_FLIGHT), MOST_IN_FLIGHT)

    @property
    def draws(self) -> str:
        """What keys and sizes are drawn by: another producer of the run has others."""
        return f"{self.seed} {self.client_id}"


@dataclass(frozen=True, kw_only=True)
class VerifiableProducerConfig(ProducerConfig):
    """Kafka's VerifiableProducer: ``java`` is the command, ``jars`` the folder with a release's kafka-tools.

    ``value_prefix`` stands in its values, by which they are told from those of other such producers.
    """

    rate_per_s: float
    java: str
    jars: str
    value_prefix: int = PREFIX


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """A consumer of all partitions (topic → how many) from their beginning, in no group."""

    bootstrap: list[str]
    topics: dict[str, int]
    isolation: str = "read_uncommitted"  # or "read_committed"


@dataclass(frozen=True, kw_only=True)
class CopierConfig(ClientConfig):
    """A copier from one topic to another of as many partitions; ``offsets`` as in ``clusters.scenario.copier``."""

    bootstrap: list[str]
    topic: str
    to: str
    partitions: int
    offsets: str
    records: int
    transaction_timeout_ms: int


@dataclass(frozen=True, kw_only=True)
class DrainConfig(ConsumerConfig):
    """A final drain; after ``limit_s`` it ends with what it has."""

    limit_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class MemberConfig(ClientConfig):
    """A member of a consumer group; ``client_id`` names one life of it. It touches the file ``alive`` as it polls."""

    bootstrap: list[str]
    topic: str
    group_id: str
    alive: str
    protocol: str = "classic"  # or "consumer"
    assignor: str | None = None  # None: the protocol's own
    session_timeout_ms: int = 6_000
    commit_every_s: float = 1.0
    commit_ahead: bool = False
    isolation: str = "read_uncommitted"  # or "read_committed"


@dataclass(frozen=True, kw_only=True)
class ShareMemberConfig(ClientConfig):
    """A member of a share group; ``client_id`` and ``alive`` as in ``MemberConfig``."""

    bootstrap: list[str]
    topic: str
    group_id: str
    alive: str
    processing_s: float = 0.2
    release_every: int | None = None  # None: it accepts every record


@dataclass(frozen=True, kw_only=True)
class ProberConfig(ClientConfig):
    """The wire probe: ``brokers`` maps ids to ``host:port``, ``assignment`` topic → partition → broker ids."""

    brokers: dict[int, str]
    assignment: dict[str, dict[int, list[int]]]
    hz: float = 20.0
    isr_hz: float = 10.0
    timeout_ms: int = 250

    @classmethod
    def _revive(cls, settings: dict[str, Any]) -> dict[str, Any]:
        brokers = {int(broker): address for broker, address in settings["brokers"].items()}
        assignment = {
            topic: {int(partition): ids for partition, ids in partitions.items()}
            for topic, partitions in settings["assignment"].items()
        }
        return super()._revive({**settings, "brokers": brokers, "assignment": assignment})
