"""A scenario's loads: producers at a rate, with their settings and records; and its copier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from clusters.paths import ROOT, is_file
from clusters.scenario.groups import AnyGroup
from clusters.scenario.shapes import MAX_BATCH_BYTES, Keys, Rate, Sizes, as_written, peak, shared, usual
from clusters.scenario.values import Acks, KafkaRelease, Model, Seconds, Share, is_none, seconds
from history import draws


class Transaction(Model):
    """Consecutive transactions of ``records``; every ``abort_every``th is aborted on purpose."""

    records: int = Field(default=20, gt=0)
    abort_every: int | None = Field(default=None, ge=2)
    timeout: Seconds = 60.0  # transaction.timeout.ms


def _in_project(path: object) -> object:
    """Resolve from the project's folder: Airflow's tasks run elsewhere."""
    return str(ROOT / path) if isinstance(path, str | Path) else path  # a plan is JSON


def _as_written(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


class Payload(Model):
    """The content of records: padding that compresses to a share, or parts of a file."""

    compresses_to: Share | None = None
    file: Annotated[Path, BeforeValidator(_in_project), PlainSerializer(_as_written)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Payload:
        if (self.compresses_to is None) == (self.file is None):
            raise ValueError("payload takes either compresses_to, such as 50%, or file")
        return self


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
    payload: Payload | None = Field(default=None, exclude_if=is_none)  # None: repetitive padding
    engine: Literal["kafka-python", "confluent-kafka", "java"] = "kafka-python"
    client: KafkaRelease | None = Field(default=None, exclude_if=is_none)  # of engine java; None: the brokers'
    transaction: Transaction | None = None
    group: AnyGroup | None = Field(default=None, exclude_if=is_none)
    p99_limit: Seconds | None = None  # of a sustained rate
    keys: Keys | None = Field(default=None, exclude_if=is_none)
    # None: the client if there are keys, else in turn.
    partitioner: Literal["in_turn", "client"] | None = Field(default=None, exclude_if=is_none)

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
            rate = "a rate that changes" if isinstance(share, Model) else f"{share:g}"
            each = f" in each of {self.processes} processes" if self.processes > 1 else ""
            raise ValueError(f"engine: java takes a whole number of records a second, not {rate}{each}")
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


class Copier(Model):
    """A copier from the load's topic to ``to``; ``offsets``: docs/scenarios.md."""

    to: str
    offsets: Literal["in_transaction", "apart"] = "in_transaction"
    records: int = Field(default=50, gt=0)  # per transaction
    timeout: Seconds = 20.0
    load: str | None = Field(default=None, exclude_if=is_none)
