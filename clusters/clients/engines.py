"""Adapt the producer libraries to one interface: send consecutive records, later take their answers as columns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError
from kafka.producer import producer_batch
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from clusters.clients import librdkafka
from clusters.clients.configs import MemberConfig, ProducerConfig, ShareMemberConfig
from clusters.clients.leaders import NewestLeaders
from clusters.clients.ledger import NO_ACKNOWLEDGEMENT, NO_ANSWER, NOT_SEEN, Ints, error_names, same_error
from clusters.clients.librdkafka import PURGED, Producer
from clusters.clients.payloads import Block
from clusters.kafka.wire import error_name
from clusters.waiting import wait_until

BLOCK_MS = 20  # longest time to hand over one record

START_LIMIT_S = 30.0
ANSWERS = 16  # batches taken at a time: after a stall there are many, while records are due
SMALL_BYTES = 1 << 16  # a value far below any producer's size limit
CHOOSE = -1  # the library chooses the partition (librdkafka's RD_KAFKA_PARTITION_UA)


class Batch(NamedTuple):
    """Hold consecutive records: the first number, and each one's partition (or ``CHOOSE``), value and key."""

    first: int
    partitions: Ints
    values: Block


class Taken(NamedTuple):
    """Hold the time at which each of the first records was handed over, or ``NOT_SEEN`` if rejected and never sent.

    Later records were not tried. Either all of them or none are in one transaction.
    """

    sent_ns: Ints
    transaction: int | None = None
    trouble: str = ""


class Answers(NamedTuple):
    """Hold the library's final answers: number, time, partition and offset (``NOT_SEEN``: unknown), and error name.

    The error is null if the broker acknowledged the record.
    """

    seqs: Ints
    done_ns: Ints
    partitions: Ints
    offsets: Ints
    errors: pa.StringArray


class Engine(Protocol):
    """Define the interface of a producer library."""

    @property
    def ready(self) -> bool:
        """Return False while a transaction is ending and records have to wait."""

    def send(self, batch: Batch) -> Taken:
        """Hand over records without waiting."""

    def answers(self) -> Answers | None:
        """Return new answers, or None."""

    def finish(self) -> None:
        """End an open transaction: no record will follow."""

    def give_up(self) -> None:
        """Answer records in flight with ``NO_ANSWER`` soon: only the library may know their partitions."""

    def close(self) -> None:
        """Release the library."""


# --- libraries that take one record at a time --------------------------------------------------------

Answer = tuple[int, int, int, int, str | None]  # a row of ``Answers``


class NotTakenError(Exception):
    """The library rejected the record at once: no byte of it will be sent."""


class Library(Protocol):
    """Define a producer library that takes one record at a time; any thread may append to ``answers``."""

    answers: deque[Answer]

    @property
    def ready(self) -> bool:
        """See ``Engine``."""

    def send(self, partition: int, value: bytes, key: bytes | None, seq: int) -> int | None:
        """Hand over a record without waiting; return the number of its transaction, if any.

        Raises:
            NotTakenError: the record was rejected.
        """

    def poll(self) -> None:
        """Let the library report answers."""

    def finish(self) -> None:
        """See ``Engine``."""

    def give_up(self) -> None:
        """See ``Engine``."""

    def close(self) -> None:
        """See ``Engine``."""


class OneByOne:
    """Adapt a ``Library`` to the ``Engine`` interface."""

    def __init__(self, library: Library) -> None:
        self._library = library

    @property
    def ready(self) -> bool:
        return self._library.ready

    def send(self, batch: Batch) -> Taken:
        sent_ns, transaction, trouble = list[int](), None, ""
        records = zip(batch.partitions.tolist(), batch.values.cut(), strict=True)
        for at, (partition, value) in enumerate(records):
            if not self._library.ready:
                break
            now_ns = time.monotonic_ns()
            key = batch.values.key_of(at)
            try:
                transaction = self._library.send(partition, value, key, batch.first + at)
            except NotTakenError as error:
                sent_ns.append(NOT_SEEN)
                trouble = str(error)
                break
            sent_ns.append(now_ns)
        return Taken(np.array(sent_ns, np.int64), transaction, trouble)

    def answers(self) -> Answers | None:
        self._library.poll()
        answers = self._library.answers
        if not answers:
            return None
        *columns, errors = zip(*(answers.popleft() for _ in range(len(answers))), strict=True)
        seqs, done_ns, partitions, offsets = map(np.array, columns)
        return Answers(seqs, done_ns, partitions, offsets, error_names(errors))

    def finish(self) -> None:
        self._library.finish()

    def give_up(self) -> None:
        self._library.give_up()

    def close(self) -> None:
        self._library.close()


class RecordFuture:
    """Replace kafka-python's future of a record: its answer is at ``index`` of a batch's ``result``.

    The library's own future takes a third of the sending time. A batch too large for the broker is split and its
    records move; their old ``result`` is never answered.
    """

    __slots__ = ("index", "result", "seq")
    moved: ClassVar[deque[tuple[RecordFuture, FutureProduceResult, int]]] = deque()  # and their new places

    def __init__(self, result: FutureProduceResult, index: int, *_: Any) -> None:
        self.result, self.index, self.seq = result, index, NOT_SEEN

    def rebind(self, result: FutureProduceResult, index: int) -> None:
        """Record a move; kafka-python calls this."""
        self.moved.append((self, result, index))


class _Held(NamedTuple):
    """Hold consecutive records of a batch, which kafka-python answers together; ``first`` is the first one's index."""

    result: FutureProduceResult
    first: int
    seqs: list[int]

    @property
    def partition(self) -> int:
        """Return the partition, or ``NOT_SEEN`` if the record was rejected before one was chosen."""
        partition: int | None = self.result.topic_partition.partition
        return NOT_SEEN if partition is None else partition


class BatchAnswers:
    """Collect kafka-python's answers, one callback per batch.

    A callback per record would take half as long as the library itself. Records are held and answers taken in one
    thread, so that a batch is complete when taken.
    """

    def __init__(self, acks: str) -> None:
        self.given_up = False
        self._acks = acks
        self._open: dict[int, _Held] = {}  # the newest of each partition
        self._answered: deque[tuple[_Held, int]] = deque()

    def hold(self, future: RecordFuture, seq: int) -> None:
        """Wait for a record's answer; a partition's records must be held in the order of its log."""
        future.seq = seq
        result = future.result
        held = self._open.get(result.topic_partition.partition)
        if held is None or held.result is not result:
            held = self._open[result.topic_partition.partition] = self._wait_for(_Held(result, future.index, []))
        held.seqs.append(seq)

    def refused(self, future: FutureRecordMetadata, seq: int) -> None:
        result = FutureProduceResult(future._produce_future.topic_partition)  # noqa: SLF001  # the intended partition
        self._wait_for(_Held(result, 0, [seq]))
        result.success((NOT_SEEN, NOT_SEEN, lambda _: future.exception))

    def _wait_for(self, held: _Held) -> _Held:
        held.result.add_callback(self._done, held)
        return held

    def _done(self, held: _Held, _: Any) -> None:
        self._answered.append((held, time.monotonic_ns()))

    def take(self) -> Answers | None:
        moved = RecordFuture.moved
        for future, result, index in [moved.popleft() for _ in range(len(moved))]:
            self._wait_for(_Held(result, index, [future.seq]))
        found = [self._of_batch(*self._answered.popleft()) for _ in range(len(self._answered))]
        if not found:
            return None
        *columns, errors = zip(*found, strict=True)
        seqs, done_ns, partitions, offsets = map(np.concatenate, columns)
        return Answers(seqs, done_ns, partitions, offsets, pa.concat_arrays(errors))

    def _of_batch(self, held: _Held, done_ns: int) -> Answers:
        offset, _, error_of = held.result.value
        records = len(held.seqs)
        places = held.first + np.arange(records)
        if error_of is None:
            errors = same_error(NO_ACKNOWLEDGEMENT if self._acks == "0" else None, records)
        elif self.given_up:
            errors, done_ns = same_error(NO_ANSWER, records), NOT_SEEN
        else:  # a broker may reject a batch because of one record (KIP-467)
            errors = error_names([_kafka_python_error(error_of(place)) for place in places.tolist()])
        acknowledged = error_of is None and self._acks != "0" and offset >= 0
        return Answers(
            np.array(held.seqs),
            np.full(records, done_ns),
            np.full(records, held.partition),
            offset + places if acknowledged else np.full(records, NOT_SEEN),
            errors,
        )


class KafkaPython:
    """Produce with kafka-python, whose background thread sends and answers."""

    ready = True

    def __init__(self, config: ProducerConfig) -> None:
        producer_batch.FutureRecordMetadata = RecordFuture
        self._topic = config.topic
        self._batches = BatchAnswers(config.acks)
        self._places = [KafkaPartition(config.topic, partition) for partition in range(config.partitions)]
        leaders = NewestLeaders(bootstrap_servers=config.bootstrap, metadata_max_age_ms=1000)
        self._producer = KafkaProducer(
            kafka_client=leaders.client,
            bootstrap_servers=config.bootstrap,
            client_id=config.client_id,
            acks=config.acks if config.acks == "all" else int(config.acks),
            enable_idempotence=config.idempotence,  # set explicitly: kafka-python silently turns it off
            retries=config.retries,
            request_timeout_ms=config.request_timeout_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
            linger_ms=config.linger_ms,
            compression_type=None if config.compression == "none" else config.compression,
            # With idempotence kafka-python keeps one batch in flight: small batches would cap the rate while HW lags.
            batch_size=config.batch_bytes,
            max_block_ms=BLOCK_MS,
            allow_auto_create_topics=False,
            retry_backoff_ms=50,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            metrics_enabled=False,
            **(config.access.kafka_python() if config.access else {}),
        )
        wait_until(
            lambda: self._producer.partitions_for(config.topic),
            limit_s=START_LIMIT_S,
            what=f"the partitions of {config.topic}",
            ignoring=(KafkaError,),
        )

    def send(self, batch: Batch) -> Taken:
        sent_ns = list[int]()
        for at, (partition, value) in enumerate(zip(batch.partitions.tolist(), batch.values.cut(), strict=True)):
            now_ns = time.monotonic_ns()
            try:
                # All exceptions are raised before the record enters the library's buffer.
                future = self._hand_over(partition, batch.values.key_of(at), value)
            except (KafkaError, ValueError) as error:
                return Taken(np.array([*sent_ns, NOT_SEEN], np.int64), trouble=str(error))
            if isinstance(future, RecordFuture):
                self._batches.hold(future, batch.first + at)
            else:
                self._batches.refused(future, batch.first + at)
            sent_ns.append(now_ns)
        return Taken(np.array(sent_ns, np.int64))

    def _hand_over(self, partition: int, key: bytes | None, value: bytes) -> Any:
        """Call the library's ``send``, or for small records with a given partition only its accumulator.

        A third of ``send`` checks what is the same for all records.
        """
        if partition == CHOOSE or len(value) > SMALL_BYTES:
            return self._producer.send(self._topic, value, key, partition=None if partition == CHOOSE else partition)
        inner = self._producer
        appended = inner._accumulator.append(self._places[partition], None, key, value, [])  # noqa: SLF001
        future, is_full, is_new, _ = appended
        if is_full or is_new:
            inner._sender.wakeup()  # noqa: SLF001
        return future

    def answers(self) -> Answers | None:
        return self._batches.take()

    def finish(self) -> None:
        """Do nothing: there are no transactions."""

    def give_up(self) -> None:
        self._batches.given_up = True
        self.close()

    def close(self) -> None:
        with suppress(KafkaError):  # it warns of records in flight, which the ledger already has
            self._producer.close(timeout=0)


def _kafka_python_error(error: BaseException) -> str:
    code = getattr(error, "errno", None)
    return (error_name(code) if isinstance(code, int) else None) or type(error).__name__


# --- librdkafka --------------------------------------------------------------------------------------


class ConfluentKafka:
    """Produce with librdkafka, the library within confluent-kafka."""

    ready = True

    def __init__(self, config: ProducerConfig) -> None:
        self._acks = config.acks
        self._producer = Producer(confluent_settings(config), config.topic)

    def send(self, batch: Batch) -> Taken:
        now_ns = time.monotonic_ns()
        errors = self._producer.produce(batch.first, batch.partitions, *batch.values)
        refused = errors != 0
        codes = np.unique(errors[refused]).tolist() if refused.any() else []
        return Taken(np.where(refused, NOT_SEEN, now_ns), trouble=", ".join(map(librdkafka_error, codes)))

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

    def finish(self) -> None:
        """Do nothing: there are no transactions."""

    def give_up(self) -> None:
        self._producer.purge()

    def close(self) -> None:
        """Do nothing: librdkafka ends with its process."""


def connection_settings(config: ProducerConfig | MemberConfig | ShareMemberConfig) -> dict[str, Any]:
    """Return the settings of all librdkafka clients: bootstrap, access and reconnection."""
    return {
        "bootstrap.servers": ",".join(config.bootstrap),
        **(config.access.librdkafka() if config.access else {}),
        "client.id": config.client_id,
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
    }


def confluent_settings(config: ProducerConfig) -> dict[str, Any]:
    """Return the settings of a librdkafka producer."""
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
        "partitioner": "murmur2_random",  # like Kafka's; without keys one partition per sticky.partitioning.linger.ms
        "queue.buffering.max.messages": config.room + 1000,
        "allow.auto.create.topics": False,
        "retry.backoff.ms": 50,
    }


def librdkafka_error(code: int) -> str:
    """Return an error's name: brokers' codes are positive, librdkafka's negative (such as ``_MSG_TIMED_OUT``)."""
    return error_name(code) or "" if code > 0 else librdkafka.error_name(code)


ENGINES: dict[str, Callable[[ProducerConfig], Engine]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
}
