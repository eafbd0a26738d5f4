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


class FakeProducer:
    """kafka-python's producer with a batch for each record in partition 2."""

    def __init__(self, **settings: object) -> None:
        self.batches: list[FutureProduceResult] = []
        self.partitions: list[int | None] = []

    def partitions_for(self, topic: str) -> set[int]:
        return {0, 1, 2}

    def send(self, topic: str, value: bytes, key: bytes | None, partition: int | None) -> FutureRecordMetadata:
        if value == b"full":
            raise kafka.errors.KafkaTimeoutError("no buffer")
        self.partitions.append(partition)
        self.batches.append(FutureProduceResult(TopicPartition("t", 2)))
        return FutureRecordMetadata(self.batches[-1], 0, 0, None, -1, 100, -1)

    def close(self, timeout: float) -> None:
        for batch in self.batches:
            batch.failure(kafka.errors.KafkaConnectionError("closed"))


class Leaders:
    """A client that nothing asks."""

    client = None

    def __init__(self, **settings: object) -> None:
        pass


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> engines.KafkaPython:
    """Return our engine on top of a producer that is answered by the test; the parameter is its acks."""
    monkeypatch.setattr(engines, "KafkaProducer", FakeProducer)
    monkeypatch.setattr(engines, "NewestLeaders", Leaders)
    common = {"client_id": "p1", "out": "out", "summary": "out/summary.json", "bootstrap": ["h:1"]}
    acks = getattr(request, "param", "all")
    config = ProducerConfig(**common, topic="t", partitions=3, rate_per_s=1, record_bytes=100, linger_ms=0, acks=acks)
    return engines.KafkaPython(config)


def answered(engine: engines.KafkaPython) -> list[tuple[int, int, int, str | None]]:
    """Return number, partition, offset and error of each answer."""
    return [(seq, partition, offset, error) for seq, _, partition, offset, error in engine.answered]


@pytest.mark.parametrize(
    ("engine", "offset", "expected"),
    [
        ("all", 7, (3, 2, 7, None)),
        ("all", -1, (3, 2, NOT_SEEN, None)),
        ("0", -1, (3, 2, NOT_SEEN, "no_acknowledgement")),
    ],
    indirect=["engine"],
)
def test_a_record_is_answered_with_its_partition_and_offset(
    engine: engines.KafkaPython, offset: int, expected: tuple[int, int, int, str | None]
) -> None:
    """The library's choice of partition is reported; -1 is an unknown offset; acks=0 is no acknowledgement."""
    engine.send_one(engines.CHOOSE, b"value", b"key", 3)
    assert answered(engine) == []

    engine._producer.batches[0].success((offset, -1, None))

    assert answered(engine) == [expected]
    assert engine._producer.partitions == [None]


def test_each_record_of_a_batch_has_its_own_error(engine: engines.KafkaPython) -> None:
    """A broker may reject a batch because of one record (KIP-467); a partition that the load chose is known anyway."""
    engine.send_one(1, b"value", None, 3)
    engine.send_one(engines.CHOOSE, b"value", None, 4)
    engine._producer.batches[0].success((-1, -1, lambda _: kafka.errors.InvalidTimestampError()))
    engine._producer.batches[1].failure(kafka.errors.KafkaTimeoutError())

    assert answered(engine) == [(3, 1, NOT_SEEN, "INVALID_TIMESTAMP"), (4, NOT_SEEN, NOT_SEEN, "KafkaTimeoutError")]


def test_a_record_without_buffer_is_not_taken(engine: engines.KafkaPython) -> None:
    """kafka-python raises before it buffers, so that the record is certainly not sent."""
    with pytest.raises(engines.NotTakenError, match="no buffer"):
        engine.send_one(1, b"full", None, 3)

    assert answered(engine) == []


def test_what_was_given_up_has_no_answer(engine: engines.KafkaPython) -> None:
    """Records in flight fail as the producer closes, which is not an answer; an earlier failure is one."""
    engine.send_one(1, b"value", None, 3)
    engine._producer.batches[0].failure(kafka.errors.KafkaTimeoutError())
    engine.send_one(1, b"value", None, 4)
    engine._producer.batches.pop(0)
    engine.give_up()

    assert [(seq, error) for seq, *_, error in engine.answered] == [(3, "KafkaTimeoutError"), (4, "no_answer")]
    assert engine.answered[1][1] == NOT_SEEN


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
