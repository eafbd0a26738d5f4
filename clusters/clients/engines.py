"""Adapt producer libraries to one interface; answers are columns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.producer.future import RecordMetadata

from clusters.clients import librdkafka
from clusters.clients.configs import MemberConfig, ProducerConfig, ShareMemberConfig
from clusters.clients.leaders import NewestLeaders
from clusters.clients.ledger import NO_ACKNOWLEDGEMENT, NO_ANSWER, NOT_SEEN, Ints, error_names, same_error
from clusters.clients.librdkafka import PURGED, Producer
from clusters.clients.payloads import Block
from clusters.kafka.connection import error_name
from clusters.waiting import wait_until

BLOCK_MS = 20

START_LIMIT_S = 30.0
ANSWERS = 16  # batches at a time, since records are due
CHOOSE = -1


class Batch(NamedTuple):
    """Consecutive records with partition (or ``CHOOSE``), value and key."""

    first: int
    partitions: Ints
    values: Block


class Taken(NamedTuple):
    """Hold when each of the first records was handed over; ``NOT_SEEN``: rejected.

    Later records were not tried. All or none are in one transaction.
    """

    sent_ns: Ints
    transaction: int | None = None
    trouble: str = ""


class Answers(NamedTuple):
    """Final answers (``NOT_SEEN``: unknown); an acknowledged record's error is null."""

    seqs: Ints
    done_ns: Ints
    partitions: Ints
    offsets: Ints
    errors: pa.StringArray


class Engine:
    """A producer library."""

    @property
    def ready(self) -> bool:
        """Return False while a transaction is ending: records must wait."""
        return True

    def send(self, batch: Batch) -> Taken:
        """Hand over records without waiting."""
        raise NotImplementedError

    def answers(self) -> Answers | None:
        """Return new answers, or None."""
        raise NotImplementedError

    def finish(self) -> None:
        """End an open transaction: no record will follow."""

    def give_up(self) -> None:
        """Answer records in flight with ``NO_ANSWER`` soon: only the library may know their partitions."""

    def close(self) -> None:
        """Release the library."""


Answer = tuple[int, int, int, int, str | None]


class NotTakenError(Exception):
    """The library rejected the record: no byte of it will be sent."""


class OneByOne(Engine):
    """A library that takes one record at a time; any thread may append to ``answered``."""

    answered: deque[Answer]

    def send_one(self, partition: int, value: bytes, key: bytes | None, seq: int) -> int | None:
        """Hand over a record without waiting; return its transaction's number.

        Raises:
            NotTakenError: the record was rejected.
        """
        raise NotImplementedError

    def poll(self) -> None:
        """Let the library report answers."""

    def send(self, batch: Batch) -> Taken:
        sent_ns, transaction, trouble = list[int](), None, ""
        records = zip(batch.partitions.tolist(), batch.values.cut(), strict=True)
        for at, (partition, value) in enumerate(records):
            if not self.ready:
                break
            now_ns = time.monotonic_ns()
            key = batch.values.key_of(at)
            try:
                transaction = self.send_one(partition, value, key, batch.first + at)
            except NotTakenError as error:
                sent_ns.append(NOT_SEEN)
                trouble = str(error)
                break
            sent_ns.append(now_ns)
        return Taken(np.array(sent_ns, np.int64), transaction, trouble)

    def answers(self) -> Answers | None:
        self.poll()
        if not self.answered:
            return None
        *columns, errors = zip(*(self.answered.popleft() for _ in range(len(self.answered))), strict=True)
        seqs, done_ns, partitions, offsets = map(np.array, columns)
        return Answers(seqs, done_ns, partitions, offsets, error_names(errors))


class KafkaPython(OneByOne):
    """Produce with kafka-python; its sender thread calls back for each record."""

    def __init__(self, config: ProducerConfig) -> None:
        self.answered = deque[Answer]()
        self._given_up = False
        self._topic = config.topic
        self._success = NO_ACKNOWLEDGEMENT if config.acks == "0" else None
        leaders = NewestLeaders(bootstrap_servers=config.bootstrap, metadata_max_age_ms=1000)
        self._producer = KafkaProducer(
            kafka_client=leaders.client,
            bootstrap_servers=config.bootstrap,
            client_id=config.id_on_cluster,
            acks=config.acks if config.acks == "all" else int(config.acks),
            enable_idempotence=config.idempotence,  # kafka-python silently turns it off unless set
            retries=config.retries,
            request_timeout_ms=config.request_timeout_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
            linger_ms=config.linger_ms,
            compression_type=None if config.compression == "none" else config.compression,
            # With idempotence kafka-python keeps one batch in flight: small ones would cap the rate.
            batch_size=config.batch_bytes,
            max_block_ms=BLOCK_MS,
            allow_auto_create_topics=False,
            retry_backoff_ms=50,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            metrics_enabled=False,
            **(config.credentials.kafka_python() if config.credentials else {}),
        )
        wait_until(
            lambda: self._producer.partitions_for(config.topic),
            limit_s=START_LIMIT_S,
            what=f"the partitions of {config.topic}",
            ignoring=(KafkaError,),
        )

    def send_one(self, partition: int, value: bytes, key: bytes | None, seq: int) -> None:
        try:
            future = self._producer.send(self._topic, value, key, partition=None if partition == CHOOSE else partition)
        except (KafkaError, ValueError) as error:  # raised before the record is buffered
            raise NotTakenError(str(error)) from error
        future.add_callback(self._acknowledged, seq)
        future.add_errback(self._failed, seq, partition)

    def _acknowledged(self, seq: int, metadata: RecordMetadata) -> None:
        self.answered.append((seq, time.monotonic_ns(), metadata.partition, metadata.offset, self._success))

    def _failed(self, seq: int, partition: int, error: BaseException) -> None:
        done_ns, name = time.monotonic_ns(), _kafka_python_error(error)
        if self._given_up:
            done_ns, name = NOT_SEEN, NO_ANSWER
        self.answered.append((seq, done_ns, partition, NOT_SEEN, name))

    def give_up(self) -> None:
        self._given_up = True
        self.close()

    def close(self) -> None:
        with suppress(KafkaError):  # the ledger has the records in flight
            self._producer.close(timeout=0)


def _kafka_python_error(error: BaseException) -> str:
    code = getattr(error, "errno", None)
    return (error_name(code) if isinstance(code, int) else None) or type(error).__name__


class ConfluentKafka(Engine):
    """Produce with librdkafka, which ends with its process."""

    def __init__(self, config: ProducerConfig) -> None:
        self._acks = config.acks
        self._producer = Producer(confluent_settings(config), config.topic)

    def send(self, batch: Batch) -> Taken:
        now_ns = time.monotonic_ns()
        errors = self._producer.produce(batch.first, batch.partitions, *batch.values)
        rejected = errors != 0
        codes = np.unique(errors[rejected]).tolist() if rejected.any() else []
        return Taken(np.where(rejected, NOT_SEEN, now_ns), trouble=", ".join(map(librdkafka_error, codes)))

    def answers(self) -> Answers | None:
        delivered = self._producer.delivered(ANSWERS)
        if delivered is None:
            return None
        seqs, codes, offsets, partitions = delivered
        done_ns = np.full(seqs.size, time.monotonic_ns())
        if codes.any():
            done_ns[np.isin(codes, PURGED)] = NOT_SEEN
        seen = (codes == 0) & (offsets >= 0) & (self._acks != "0")
        return Answers(seqs, done_ns, partitions, np.where(seen, offsets, NOT_SEEN), self._errors(codes))

    def _errors(self, codes: Ints) -> pa.StringArray:
        success = NO_ACKNOWLEDGEMENT if self._acks == "0" else None
        if not codes.any():
            return same_error(success, codes.size)
        names = {0: success, **dict.fromkeys(PURGED, NO_ANSWER)}
        return error_names([names[code] if code in names else librdkafka_error(code) for code in codes.tolist()])

    def give_up(self) -> None:
        self._producer.purge()


def connection_settings(config: ProducerConfig | MemberConfig | ShareMemberConfig) -> dict[str, Any]:
    """Return the settings of all librdkafka clients."""
    return {
        "bootstrap.servers": ",".join(config.bootstrap),
        **(config.credentials.librdkafka() if config.credentials else {}),
        "client.id": config.id_on_cluster,
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
    }


def confluent_settings(config: ProducerConfig) -> dict[str, Any]:
    """Return a librdkafka producer's settings."""
    return {
        **connection_settings(config),
        "acks": config.acks,
        "enable.idempotence": config.idempotence,
        "retries": config.retries,
        "request.timeout.ms": config.request_timeout_ms,
        "socket.timeout.ms": config.request_timeout_ms + 1000,
        "delivery.timeout.ms": config.delivery_timeout_ms,
        "linger.ms": config.linger_ms,
        "batch.size": config.batch_bytes,
        "compression.type": config.compression,
        "partitioner": "murmur2_random",  # like Kafka's
        "queue.buffering.max.messages": config.limit_in_flight + 1000,
        "allow.auto.create.topics": False,
        "retry.backoff.ms": 50,
    }


def librdkafka_error(code: int) -> str:
    """Return an error's name: brokers' codes are positive, librdkafka's negative."""
    return error_name(code) or "" if code > 0 else librdkafka.error_name(code)


ENGINES: dict[str, Callable[[ProducerConfig], Engine]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
}
