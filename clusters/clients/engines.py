"""The producer libraries behind one face: hand over neighbouring records, later take their answers as columns."""

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

BLOCK_MS = 20  # the longest that handing over one record may take

START_LIMIT_S = 30.0
ANSWERS = 16  # of batches, taken at a time: after a stall there are many, and records are due meanwhile
SMALL_BYTES = 1 << 16  # of a value that is far from what a producer may send at most
CHOOSE = -1  # a partition: the library chooses one (librdkafka's RD_KAFKA_PARTITION_UA)


class Batch(NamedTuple):
    """Neighbouring records: the number of the first, and the partition (``CHOOSE``: the library chooses), value and key
    of each.
    """

    first: int
    partitions: Ints
    values: Block


class Taken(NamedTuple):
    """When each of the first records of a batch was handed over, ``NOT_SEEN`` if it was refused and no byte of it will
    be sent; those behind were not tried. All of them are in one transaction, or in none.
    """

    sent_ns: Ints
    transaction: int | None = None
    trouble: str = ""


class Answers(NamedTuple):
    """What the library said about records in the end: the number of each, when, its partition and offset (``NOT_SEEN``:
    it said none), and the error's name, null when the broker acknowledged it.
    """

    seqs: Ints
    done_ns: Ints
    partitions: Ints
    offsets: Ints
    errors: pa.StringArray


class Engine(Protocol):
    """A producer library."""

    @property
    def ready(self) -> bool:
        """False: records have to wait, as a transaction is coming to its end."""

    def send(self, batch: Batch) -> Taken:
        """Hand over records without waiting."""

    def answers(self) -> Answers | None:
        """What was answered since the last time, None if nothing was."""

    def finish(self) -> None:
        """No record will follow: what is open may end."""

    def give_up(self) -> None:
        """Answer what is still in flight, soon, with ``NO_ANSWER``: nobody but the library may know its partition."""

    def close(self) -> None:
        """Let go of the library."""


# --- libraries that take a record at a time ----------------------------------------------------------

Answer = tuple[int, int, int, int, str | None]  # a row of ``Answers``


class NotTakenError(Exception):
    """The library refused the record on the spot: no byte of it will be sent."""


class Library(Protocol):
    """A producer library that takes one record after the other; answers come into ``answers`` from any thread."""

    answers: deque[Answer]

    @property
    def ready(self) -> bool:
        """As ``Engine``."""

    def send(self, partition: int, value: bytes, key: bytes | None, seq: int) -> int | None:
        """Hand over a record without waiting; returns the number of its transaction, if it is in one.

        Raises:
            NotTakenError: it was not taken.
        """

    def poll(self) -> None:
        """Give the library a chance to report answers."""

    def finish(self) -> None:
        """As ``Engine``."""

    def give_up(self) -> None:
        """As ``Engine``."""

    def close(self) -> None:
        """As ``Engine``."""


class OneByOne:
    """A library that takes a record at a time, as an engine."""

    def __init__(self, library: Library) -> None:
        self._library = library

    @property
    def ready(self) -> bool:
        return self._library.ready

    def send(self, batch: Batch) -> Taken:
        """Up to the first that is not taken, or until the library is not ready."""
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
    """Where the answer to one record of kafka-python will stand: place ``index`` of a batch's ``result``.

    It takes the place of the library's own, which takes a third of the time of sending. A batch that is too large for
    the broker is split, and its records move; the ``result`` that they leave is never answered.
    """

    __slots__ = ("index", "result", "seq")
    moved: ClassVar[deque[tuple[RecordFuture, FutureProduceResult, int]]] = deque()  # and where to

    def __init__(self, result: FutureProduceResult, index: int, *_: Any) -> None:
        self.result, self.index, self.seq = result, index, NOT_SEEN

    def rebind(self, result: FutureProduceResult, index: int) -> None:
        """As the library calls it."""
        self.moved.append((self, result, index))


class _Held(NamedTuple):
    """Neighbouring records of a batch, which kafka-python answers together; ``first`` is the place of the first."""

    result: FutureProduceResult
    first: int
    seqs: list[int]

    @property
    def partition(self) -> int:
        """``NOT_SEEN``: the record was refused before one was chosen."""
        partition: int | None = self.result.topic_partition.partition
        return NOT_SEEN if partition is None else partition


class BatchAnswers:
    """The answers to records that were given to kafka-python, which answers a batch at a time.

    One callback takes the answers of all records of a batch; a callback for each would take half as long as the library
    itself does. Records are held and answers are taken in one thread, so that a batch is complete when it is taken.
    """

    def __init__(self, acks: str) -> None:
        self.given_up = False
        self._acks = acks
        self._open: dict[int, _Held] = {}  # the newest of each partition
        self._answered: deque[tuple[_Held, int]] = deque()

    def hold(self, future: RecordFuture, seq: int) -> None:
        """Wait for the answer of a record. Those of a partition lie in its log in the order in which they are held."""
        future.seq = seq
        result = future.result
        held = self._open.get(result.topic_partition.partition)
        if held is None or held.result is not result:
            held = self._open[result.topic_partition.partition] = self._wait_for(_Held(result, future.index, []))
        held.seqs.append(seq)

    def refused(self, future: FutureRecordMetadata, seq: int) -> None:
        """The library said at once that it will not send a record."""
        result = FutureProduceResult(future._produce_future.topic_partition)  # noqa: SLF001  # to which it was to go
        self._wait_for(_Held(result, 0, [seq]))
        result.success((NOT_SEEN, NOT_SEEN, lambda _: future.exception))

    def _wait_for(self, held: _Held) -> _Held:
        held.result.add_callback(self._done, held)
        return held

    def _done(self, held: _Held, _: Any) -> None:
        self._answered.append((held, time.monotonic_ns()))

    def take(self) -> Answers | None:
        """What was answered since the last time, None if nothing was."""
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
        else:  # a broker may refuse one record of a batch, and the others for its sake (KIP-467)
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
    """kafka-python; a background thread sends and answers."""

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
            **(config.access.kafka_python() if config.access else {}),
        )
        wait_until(
            lambda: self._producer.partitions_for(config.topic),
            limit_s=START_LIMIT_S,
            what=f"the partitions of {config.topic}",
            ignoring=(KafkaError,),
        )

    def send(self, batch: Batch) -> Taken:
        """Up to the first that is not taken."""
        sent_ns = list[int]()
        for at, (partition, value) in enumerate(zip(batch.partitions.tolist(), batch.values.cut(), strict=True)):
            now_ns = time.monotonic_ns()
            try:
                # Everything that is raised, is raised before the record enters the library's buffer.
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
        """The library's ``send``, which takes a third of its time to check what is the same for all our records: small
        ones whose partition is given skip that part of it.
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
        """Nothing is open."""

    def give_up(self) -> None:
        self._batches.given_up = True
        self.close()

    def close(self) -> None:
        with suppress(KafkaError):  # it complains of records in flight, which the ledger holds already
            self._producer.close(timeout=0)


def _kafka_python_error(error: BaseException) -> str:
    code = getattr(error, "errno", None)
    return (error_name(code) if isinstance(code, int) else None) or type(error).__name__


# --- librdkafka --------------------------------------------------------------------------------------


class ConfluentKafka:
    """confluent-kafka's library, librdkafka."""

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
        """Nothing is open."""

    def give_up(self) -> None:
        self._producer.purge()

    def close(self) -> None:
        """Nothing to do: librdkafka ends with its process."""


def connection_settings(config: ProducerConfig | MemberConfig | ShareMemberConfig) -> dict[str, Any]:
    """The settings that all clients of librdkafka share: how they find brokers, get in, and come back."""
    return {
        "bootstrap.servers": ",".join(config.bootstrap),
        **(config.access.librdkafka() if config.access else {}),
        "client.id": config.client_id,
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
    }


def confluent_settings(config: ProducerConfig) -> dict[str, Any]:
    """The settings of a producer of librdkafka."""
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
        "partitioner": "murmur2_random",  # as Kafka's own; without keys a partition for sticky.partitioning.linger.ms
        "queue.buffering.max.messages": config.room + 1000,
        "allow.auto.create.topics": False,
        "retry.backoff.ms": 50,
    }


def librdkafka_error(code: int) -> str:
    """Brokers' codes are positive; librdkafka's own are negative and have names such as ``_MSG_TIMED_OUT``."""
    return error_name(code) or "" if code > 0 else librdkafka.error_name(code)


ENGINES: dict[str, Callable[[ProducerConfig], Engine]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
}
