"""Produce without retries (Produce v7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecordsBuilder

from clusters.kafka.connection import TIMEOUT, UNREACHABLE, Connection, error_name, known, transport_error_name

NEVER_SENT = "never_sent"
ACKS = {"0": 0, "1": 1, "all": -1}


@dataclass(frozen=True)
class Produced:
    """An answer to one produce request; ``base_offset`` is None if none was returned."""

    sent_ns: int | None
    done_ns: int | None
    base_offset: int | None
    error: str | None


def record_batch(values: Sequence[bytes | None], timestamp_ms: int, key: bytes | None = None) -> bytes:
    """Encode an uncompressed record batch v2 without a producer id."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 30)
    for value in values:
        builder.append(timestamp_ms, key, value)
    builder.close()
    return bytes(builder.buffer())


def produce(
    connection: Connection,
    topic: str,
    partition: int,
    batches: Sequence[Sequence[bytes | None]],
    acks: str,
    *,
    key: bytes | None = None,
    timeout_ms: int = 10_000,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[Produced]:
    """Send each batch in its own request (Produce v7), without retries.

    After an error (``timeout``, ``unreachable``) or a False ``go_on``, the rest is ``never_sent``.
    """
    ended = False
    for values in batches:
        ended = ended or not go_on()
        if ended:
            yield Produced(None, None, None, NEVER_SENT)
            continue
        records = record_batch(values, time.time_ns() // 1_000_000, key)
        produced = _produce_one(connection, _produce_request(topic, partition, records, acks, timeout_ms))
        ended = produced.error in (TIMEOUT, UNREACHABLE)
        yield produced


def _produce_request(topic: str, partition: int, records: bytes, acks: str, timeout_ms: int) -> Any:
    data_of = ProduceRequest.TopicProduceData
    data = data_of.PartitionProduceData(index=partition, records=records)
    topics = [data_of(name=topic, partition_data=[data])]
    return ProduceRequest[7](transactional_id=None, acks=ACKS[acks], timeout_ms=timeout_ms, topic_data=topics)


def _produce_one(connection: Connection, request: Any) -> Produced:
    sent_ns = time.monotonic_ns()
    try:
        answers = connection.exchange([request])
    except OSError as error:
        return Produced(sent_ns, None, None, transport_error_name(error))
    done_ns = time.monotonic_ns()
    if not answers:
        return Produced(sent_ns, done_ns, None, None)
    of_partitions = [answer for topic in answers[0].responses or () for answer in topic.partition_responses or ()]
    if not of_partitions:  # unknown whether it was written
        return Produced(sent_ns, None, None, UNREACHABLE)
    answer = of_partitions[0]
    return Produced(sent_ns, done_ns, known(answer.base_offset), error_name(answer.error_code))
