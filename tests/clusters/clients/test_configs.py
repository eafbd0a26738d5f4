"""The configuration files of client nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.clients.configs import ClientConfig, ConsumerConfig, DrainConfig, ProberConfig, ProducerConfig
from history.errors import BadInput

PRODUCER = ProducerConfig(
    client_id="p1",
    out="/out",
    summary="/clients/p1.json",
    bootstrap=["a:9092"],
    topic="orders",
    partitions=2,
    rate_per_s=1000.0,
    record_bytes=100,
)
CONSUMER = ConsumerConfig(client_id="c1", out="o", summary="s", bootstrap=["a:9092"], topics={"orders": 2})
DRAIN = DrainConfig(client_id="d", out="o", summary="s", bootstrap=["a:9092"], topics={"orders": 2}, limit_s=9.0)
PROBER = ProberConfig(
    client_id="pr",
    out="o",
    summary="s",
    brokers={1: "a:9094", 2: "b:9094"},
    assignment={"orders": {0: [1, 2], 10: [2]}},
)


@pytest.mark.parametrize("config", [PRODUCER, CONSUMER, DRAIN, PROBER, replace(PRODUCER, access="/run/p1.properties")])
def test_a_configuration_survives_its_file(config: ClientConfig) -> None:
    """A client reads the configuration that the harness wrote, with broker ids and partitions as numbers."""
    assert type(config).from_json(config.to_json()) == config


def test_credentials_are_those_of_its_client_properties(tmp_path: Path) -> None:
    """``access`` is a path, which is read when the client starts; None means plaintext."""
    file = tmp_path / "p1.properties"
    config = replace(PRODUCER, access=str(file))
    file.write_text("security.protocol=SSL")

    assert config.credentials
    assert config.credentials.protocol == "SSL"
    assert PRODUCER.credentials is None


@pytest.mark.parametrize(
    ("told", "records"),
    [
        ({}, 200_000),
        ({"record_bytes": 1000}, 128_000),
        ({"record_bytes": {"mix": {500: 0.5, 1500: 0.5}}}, 128_000),
        ({"record_bytes": 900_000}, 20_000),
        ({"max_in_flight": 7}, 7),
        ({"engine": "kafka-python"}, 10_000),
        ({"engine": "kafka-python", "record_bytes": 900_000}, 10_000),
    ],
)
def test_there_is_room_by_the_size_of_records(told: dict[str, Any], records: int) -> None:
    """The in-flight limit is 128 MB of records within bounds, lower with kafka-python, unless the scenario sets it."""
    assert replace(PRODUCER, **{"engine": "confluent-kafka", **told}).limit_in_flight == records


@pytest.mark.parametrize(
    "text",
    [
        PRODUCER.to_json().replace("rate_per_s", "rate"),
        CONSUMER.to_json(),
        PROBER.to_json().replace('"brokers"', '"borkers"'),
        "[1]",
        "no json",
    ],
)
@pytest.mark.parametrize("kind", [ProducerConfig, ProberConfig])
def test_another_file_is_refused(kind: type[ClientConfig], text: str) -> None:
    """A misspelt setting, another client's file, a JSON array and invalid JSON are each rejected with the reason."""
    with pytest.raises(BadInput, match=f"This is not a valid {kind.__name__} in JSON"):
        kind.from_json(text)


def test_streams_are_named_by_table_and_client() -> None:
    """A stream's file name has the table and the client, so two clients can share an output folder."""
    assert str(PRODUCER.stream("sends")) == "/out/sends-p1.arrow"
