"""How errors and answers of the two client libraries are translated."""

from __future__ import annotations

import kafka.errors
import pytest
from kafka import TopicPartition
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from clusters.clients import engines
from clusters.clients.configs import ProducerConfig
from clusters.clients.ledger import NOT_SEEN


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (kafka.errors.NotLeaderForPartitionError(), "NOT_LEADER_OR_FOLLOWER"),
        (kafka.errors.NotEnoughReplicasAfterAppendError(), "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        (kafka.errors.KafkaTimeoutError("batch expired"), "KafkaTimeoutError"),
        (kafka.errors.KafkaConnectionError("reset"), "KafkaConnectionError"),
    ],
)
def test_kafka_python_errors(error: Exception, name: str) -> None:
    """A broker's error has the protocol's name; an error of kafka-python itself has the name of its class."""
    assert engines._kafka_python_error(error) == name


@pytest.mark.parametrize(
    ("code", "name"),
    [(6, "NOT_LEADER_OR_FOLLOWER"), (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"), (-192, "_MSG_TIMED_OUT")],
)
def test_confluent_kafka_errors(code: int, name: str) -> None:
    """A broker's error code has the same name in both libraries; librdkafka's own codes are negative."""
    assert engines.librdkafka_error(code) == name


class Sent:
    """Records that kafka-python holds as one batch of partition 2, as objects of that library."""

    def __init__(self, acks: str = "all") -> None:
        self.batches = engines.BatchAnswers(acks)
        self.result = FutureProduceResult(TopicPartition("t", 2))
        self.futures: list[engines.RecordFuture] = []

    def send(self, *seqs: int) -> Sent:
        for seq in seqs:
            self.futures.append(engines.RecordFuture(self.result, len(self.futures), 0, None, -1, 100, -1))
            self.batches.hold(self.futures[-1], seq)
        return self

    def answers(self) -> list[tuple[int, int, int, str | None]]:
        """Return number, partition, offset and error of each record answered since the last call."""
        taken = self.batches.take()
        if taken is None:
            return []
        numbers = (taken.seqs.tolist(), taken.partitions.tolist(), taken.offsets.tolist())
        return list(zip(*numbers, taken.errors.to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("acks", "offset", "said"),
    [
        ("all", 7, [(3, 2, 7, None), (9, 2, 8, None)]),
        ("all", -1, [(3, 2, NOT_SEEN, None), (9, 2, NOT_SEEN, None)]),
        ("0", -1, [(3, 2, NOT_SEEN, "no_acknowledgement"), (9, 2, NOT_SEEN, "no_acknowledgement")]),
    ],
)
def test_a_batch_is_answered_at_once(acks: str, offset: int, said: list[tuple[int, int, int, str | None]]) -> None:
    """Records of a batch get consecutive offsets; -1 is an unknown offset, and acks=0 never yields ok."""
    sent = Sent(acks).send(3, 9)
    assert sent.answers() == []

    sent.result.success((offset, -1, None))

    assert sent.answers() == said
    assert sent.answers() == []


def test_a_record_that_is_held_while_its_batch_is_answered_is_among_its_records() -> None:
    """A record that arrives while its batch is answered is answered too: the library's thread may be faster."""
    sent = Sent().send(3)
    sent.result.success((7, -1, None))
    sent.send(4)

    assert sent.answers() == [(3, 2, 7, None), (4, 2, 8, None)]


def test_each_record_of_a_batch_has_its_own_error() -> None:
    """If a broker rejects one record of a batch, each record of the batch has its own error (KIP-467)."""
    sent = Sent().send(3, 4)
    errors = [kafka.errors.InvalidTimestampError(), kafka.errors.KafkaTimeoutError()]
    sent.result.success((-1, -1, errors.__getitem__))

    assert sent.answers() == [(3, 2, NOT_SEEN, "INVALID_TIMESTAMP"), (4, 2, NOT_SEEN, "KafkaTimeoutError")]


def test_a_batch_that_was_split_is_answered_record_by_record() -> None:
    """A batch that is too large is sent again in parts, and each record is answered by its new batch."""
    sent = Sent().send(3, 4, 5)
    one, other = (FutureProduceResult(TopicPartition("t", 2)) for _ in range(2))
    for future, (result, index) in zip(sent.futures, [(one, 0), (other, 0), (other, 1)], strict=True):
        future.rebind(result, index)
    one.success((7, -1, None))

    assert sent.answers() == [(3, 2, 7, None)]
    other.success((20, -1, None))
    assert sent.answers() == [(4, 2, 20, None), (5, 2, 21, None)]


def test_a_record_that_moves_twice_is_answered_once() -> None:
    """A record whose batch is split twice is answered once."""
    sent = Sent().send(3)
    half, quarter = (FutureProduceResult(TopicPartition("t", 2)) for _ in range(2))
    sent.futures[0].rebind(half, 0)
    sent.futures[0].rebind(quarter, 0)
    quarter.success((7, -1, None))

    assert sent.answers() == [(3, 2, 7, None)]
    assert sent.answers() == []


def test_a_record_that_is_refused_at_once_has_its_error() -> None:
    """A record that the library rejects at once has its error, while an accepted record waits for its answer."""
    sent = Sent().send(3)
    nowhere = FutureProduceResult(TopicPartition("t", None))
    refused = FutureRecordMetadata(nowhere, -1, None, None, -1, 100, -1)
    sent.batches.refused(refused.failure(kafka.errors.KafkaTimeoutError()), 4)

    assert sent.answers() == [(4, NOT_SEEN, NOT_SEEN, "KafkaTimeoutError")]
    sent.result.success((7, -1, None))
    assert sent.answers() == [(3, 2, 7, None)]


def test_what_was_given_up_has_no_answer() -> None:
    """Records that are given up have no answer, even if the library completes them with an error later."""
    sent = Sent().send(3)
    sent.batches.given_up = True
    sent.result.success((-1, -1, lambda _: kafka.errors.KafkaConnectionError("closed")))
    taken = sent.batches.take()

    assert taken is not None
    assert (taken.errors.to_pylist(), taken.done_ns.tolist()) == (["no_answer"], [NOT_SEEN])


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_the_load_says_of_batches_reaches_librdkafka(compression: str) -> None:
    """The batch settings of a load reach librdkafka under librdkafka's names."""
    config = ProducerConfig(
        client_id="p1",
        out="",
        summary="",
        bootstrap=["a:1", "b:2"],
        topic="t",
        partitions=1,
        rate_per_s=1.0,
        record_bytes=100,
        batch_bytes=8000,
        linger_ms=25,
        compression=compression,
    )
    settings = engines.confluent_settings(config)

    assert (settings["batch.size"], settings["linger.ms"], settings["compression.type"]) == (8000, 25, compression)
    assert settings["bootstrap.servers"] == "a:1,b:2"
