"""The two producer libraries behind one face: hand over a record, later find its answer in a queue."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from clusters.clients.configs import ProducerConfig
from clusters.clients.leaders import NewestLeaders
from clusters.clients.ledger import NO_ACKNOWLEDGEMENT, NOT_SEEN
from clusters.kafka.wire import error_name
from clusters.waiting import wait_until

BLOCK_MS = 20  # the longest that handing over one record may take

START_LIMIT_S = 30.0


# What the library said about a record in the end: its number, when (ns), its offset (``NOT_SEEN``: it said none), and
# the error's name, None when the broker acknowledged it. A plain tuple: some hundred thousand are made a second.
Answer = tuple[int, int, int, str | None]


class NotTakenError(Exception):
    """The library refused the record on the spot: no byte of it will be sent."""


class Engine(Protocol):
    """A producer library; answers come into ``answers`` from any thread."""

    answers: deque[Answer]

    @property
    def ready(self) -> bool:
        """False: records have to wait, as a transaction is coming to its end."""

    def send(self, partition: int, value: bytes, seq: int) -> int | None:
        """Hand over a record without waiting; returns the number of its transaction, if it is in one.

        Raises:
            NotTakenError: it was not taken.
        """

    def finish(self) -> None:
        """No record will follow: what is open may end."""

    def poll(self) -> None:
        """Give the library a chance to report answers."""

    def close(self) -> None:
        """Let go of the library; what is still in flight gets no answer."""


def _answer(seq: int, offset: int | None, error: str | None, acks: str) -> Answer:
    if error is None and acks == "0":
        error = NO_ACKNOWLEDGEMENT
    seen = offset if offset is not None and offset >= 0 and error is None else NOT_SEEN
    return seq, time.monotonic_ns(), seen, error


class KafkaPython:
    """kafka-python; a background thread sends and answers."""

    ready = True

    def __init__(self, config: ProducerConfig) -> None:
        self.answers: deque[Answer] = deque()
        self._topic = config.topic
        self._acks = config.acks
        leaders = NewestLeaders(bootstrap_servers=config.bootstrap, metadata_max_age_ms=1000)
        self._producer = KafkaProducer(
            kafka_client=leaders.client,
            bootstrap_servers=config.bootstrap,
            client_id=config.client_id,
            acks=config.acks if config.acks == "all" else int(config.acks),
            enable_idempotence=config.idempotence,  # never implied: kafka-python silently turns it off
            retries=config.retries,
            request_timeout_ms=config.request_timeout_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
            linger_ms=config.linger_ms,
            compression_type=None if config.compression == "none" else config.compression,
            # An idempotent kafka-python keeps one batch in flight: a small one would cap the rate while HW lags.
            batch_size=config.batch_bytes,
            max_block_ms=BLOCK_MS,
            allow_auto_create_topics=False,
            retry_backoff_ms=50,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            metrics_enabled=False,
        )
        wait_until(
            lambda: self._producer.partitions_for(config.topic),
            limit_s=START_LIMIT_S,
            what=f"the partitions of {config.topic}",
            ignoring=(KafkaError,),
        )

    def send(self, partition: int, value: bytes, seq: int) -> None:
        try:
            # Everything that send raises, it raises before the record enters its buffer.
            future = self._producer.send(self._topic, value, partition=partition)
        except (KafkaError, ValueError) as error:
            raise NotTakenError(str(error)) from error
        future.add_both(self._done, seq)

    def finish(self) -> None:
        """Nothing is open."""

    def _done(self, seq: int, result: Any) -> None:
        if isinstance(result, BaseException):
            self.answers.append(_answer(seq, None, _kafka_python_error(result), self._acks))
        else:
            self.answers.append(_answer(seq, result.offset, None, self._acks))

    def poll(self) -> None:
        """Nothing to do: the background thread reports."""

    def close(self) -> None:
        with suppress(KafkaError):  # it complains of records in flight, which the ledger holds already
            self._producer.close(timeout=0)


def _kafka_python_error(error: BaseException) -> str:
    code = getattr(error, "errno", None)
    return (error_name(code) if isinstance(code, int) else None) or type(error).__name__


class ConfluentKafka:
    """confluent-kafka (librdkafka)."""

    ready = True

    def __init__(self, config: ProducerConfig) -> None:
        self.answers: deque[Answer] = deque()
        self._topic = config.topic
        self._acks = config.acks
        self._producer = Producer(confluent_settings(config))

    def send(self, partition: int, value: bytes, seq: int) -> None:
        def done(error: Any, message: Any) -> None:
            name = confluent_error(error) if error else None
            self.answers.append(_answer(seq, None if error else message.offset(), name, self._acks))

        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=done)
        except (KafkaException, BufferError) as error:
            raise NotTakenError(str(error)) from error

    def finish(self) -> None:
        """Nothing is open."""

    def poll(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        """Nothing to do: librdkafka ends with its process."""


def confluent_settings(config: ProducerConfig) -> dict[str, Any]:
    """The settings of librdkafka."""
    return {
        "bootstrap.servers": ",".join(config.bootstrap),
        "client.id": config.client_id,
        "acks": config.acks,
        "enable.idempotence": config.idempotence,
        "retries": config.retries,
        "request.timeout.ms": config.request_timeout_ms,
        "socket.timeout.ms": config.request_timeout_ms + 1000,
        "delivery.timeout.ms": config.delivery_timeout_ms,
        "linger.ms": config.linger_ms,
        "batch.size": config.batch_bytes,
        "compression.type": config.compression,
        "queue.buffering.max.messages": config.max_in_flight + 1000,
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": 1000,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
    }


def confluent_error(error: Any) -> str:
    """Brokers' codes are positive; librdkafka's own are negative and have names such as ``_MSG_TIMED_OUT``."""
    return error_name(error.code()) or "" if error.code() > 0 else str(error.name())


ENGINES: dict[str, Callable[[ProducerConfig], Engine]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
}
