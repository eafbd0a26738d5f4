"""The manifest's producers."""

from __future__ import annotations

from pathlib import Path

from clusters.kafka.builds import Build
from clusters.run.manifest import producers
from tests.clusters.fakes import scenario

TOPIC = {"partitions": 2, "replicas": ["A", "B", "C"]}
COMMITTED = {"topic": "orders", "engine": "confluent-kafka", "transaction": {"records": 5, "timeout": "40s"}}


def test_every_process_of_every_load_is_a_producer() -> None:
    """Every process of every load is a producer with its share of the rate; ``write`` steps follow without a load."""
    loads = {
        "web": {"topic": "orders", "rate": "90/s", "processes": 2, "record_bytes": 200},
        "ledger": {"topic": "payments", "engine": "java", "rate": "50/s"},
        "bank": {**COMMITTED, "rate": "5/s"},
    }
    write = {"write": {"to": "leader of orders-0", "topic": "orders", "records": 1, "acks": 1}}
    told = scenario([write], topics={"orders": TOPIC, "payments": TOPIC}, loads=loads)

    found = producers(told, {"ledger": Build(version="3.9.1", jars=Path("/tools"))})

    names = ("producer_id", "load", "topic", "rate_per_s", "record_bytes", "client", "transaction_timeout_ms")
    assert [tuple(getattr(each, name) for name in names) for each in found] == [
        ("web-1", "web", "orders", 45.0, 200, None, None),
        ("web-2", "web", "orders", 45.0, 200, None, None),
        ("verifiable-1", "ledger", "payments", 50.0, 0, "3.9.1", None),
        ("bank", "bank", "orders", 5.0, 100, None, 40_000),
        ("write-1", None, "orders", None, 100, None, None),
    ]


def test_copies_are_as_long_as_the_longest_input() -> None:
    """Copies have the largest record size of the loads on the copied topic, and one producer id per partition."""
    loads = {"a": {**COMMITTED, "record_bytes": 300}, "b": COMMITTED, "c": {"topic": "logs", "record_bytes": 900}}
    topics = {"orders": TOPIC, "copies": TOPIC, "logs": TOPIC}
    told = scenario([{"hold": 1}], topics=topics, loads=loads, copier={"to": "copies", "load": "b"})

    copies = [each for each in producers(told, {}) if each.engine == "copier"]

    assert [(each.producer_id, each.topic, each.record_bytes) for each in copies] == [
        ("copier-0", "copies", 300),
        ("copier-1", "copies", 300),
    ]
