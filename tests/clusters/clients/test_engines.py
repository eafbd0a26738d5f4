"""How the two libraries' words are translated."""

from __future__ import annotations

import kafka.errors
import pytest

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
    """A broker's answer carries the protocol's name, the client's own troubles their class."""
    assert engines._kafka_python_error(error) == name


@pytest.mark.parametrize(
    ("code", "name"),
    [(6, "NOT_LEADER_OR_FOLLOWER"), (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"), (-192, "_MSG_TIMED_OUT")],
)
def test_confluent_kafka_errors(code: int, name: str) -> None:
    """A broker's code has the same name with either library; librdkafka's own codes are negative."""
    assert engines.librdkafka_error(code) == name


@pytest.mark.parametrize(
    ("offset", "error", "acks", "seen"),
    [
        (7, None, "all", (7, None)),
        (0, None, "1", (0, None)),
        (-1, None, "all", (NOT_SEEN, None)),
        (-1, None, "0", (NOT_SEEN, "no_acknowledgement")),
        (None, "REQUEST_TIMED_OUT", "all", (NOT_SEEN, "REQUEST_TIMED_OUT")),
    ],
)
def test_answers(offset: int | None, error: str | None, acks: str, seen: tuple[int | None, str | None]) -> None:
    """Offset -1 means none was told; without acknowledgements nothing is ever ok."""
    answer = engines._answer(3, 1, offset, error, acks)

    seq, _, _, *said = answer
    assert (seq, *said) == (3, *seen)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_the_load_says_of_batches_reaches_librdkafka(compression: str) -> None:
    """Under the names that it knows."""
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
