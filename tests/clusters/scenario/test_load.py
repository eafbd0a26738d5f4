"""Loads with transactions, payloads and Java clients, and copiers."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.paths import ROOT
from clusters.scenario.scenario import (
    Load,
    Scenario,
)
from tests.clusters.scenario.plain import COPIED, ORDERS, TRANSACTIONAL, one_phase, plain, refusal


def test_a_transactional_load() -> None:
    """A transactional load has Kafka's defaults, and its readers are read_committed."""
    told = Scenario.model_validate(plain(load=TRANSACTIONAL))
    load = told.load

    assert load is not None
    assert load.transaction is not None
    assert (load.transaction.records, load.transaction.abort_every, load.transaction.timeout) == (5, 2, 60.0)
    assert (load.acks, load.idempotence, told.isolation) == ("all", True, "read_committed")
    assert Scenario.model_validate(plain()).isolation == "read_uncommitted"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"engine": "kafka-python"}, "transaction needs engine: confluent-kafka; kafka-python cannot give up a commit"),
        ({"idempotence": False}, "transaction needs idempotence: true"),
        ({"acks": 1}, "idempotence needs acks: all"),
        ({"transaction": {"timeout": "29s"}}, "transaction has timeout 29s, below delivery_timeout 30s"),
        ({"transaction": {"abort_every": 1}}, "greater than or equal to 2"),
        ({"transaction": {"records": 0}}, "greater than 0"),
    ],
)
def test_a_transactional_load_that_cannot_be(change: dict[str, Any], sentence: str) -> None:
    """Invalid transactional loads are rejected, each with its reason."""
    assert sentence in refusal(plain(load={**TRANSACTIONAL, **change}))


JAVA = {"topic": "orders", "engine": "java", "client": "3.9.1"}


def test_what_records_are_filled_with() -> None:
    """A payload is given as a compression ratio or as a file."""
    of_share = Scenario.model_validate(plain(load={"topic": "orders", "payload": {"compresses_to": "50%"}})).load
    of_file = Scenario.model_validate(plain(load={"topic": "orders", "payload": {"file": "README.md"}})).load

    assert of_share
    assert of_share.payload
    assert of_share.payload.compresses_to == 0.5
    assert of_file
    assert of_file.payload
    assert of_file.payload.file == ROOT / "README.md"
    assert "payload" not in Scenario.model_validate(plain(load={"topic": "orders"})).model_dump(mode="json")["load"]


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        ({}, "payload takes either compresses_to, such as 50%, or file"),
        ({"compresses_to": "50%", "file": "README.md"}, "payload takes either compresses_to, such as 50%, or file"),
        ({"compresses_to": "half"}, "'half' is not a share such as 50%"),
        ({"compresses_to": 1.5}, "less than or equal to 1"),
        ({"file": "no/such/file"}, "is no file of at least 100 bytes"),
    ],
)
def test_what_records_cannot_be_filled_with(payload: dict[str, Any], sentence: str) -> None:
    """Invalid payloads are rejected, each with its reason."""
    assert sentence in refusal(plain(load={"topic": "orders", "payload": payload}))


def test_a_java_load() -> None:
    """A Java load names the client's release; by default it is the brokers'."""
    assert Load.model_validate(JAVA).client == "3.9.1"
    assert Load.model_validate({**JAVA, "client": None}).client is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"engine": "kafka-python"}, "client: 3.9.1 needs engine: java"),
        ({"client": "latest"}, "client"),
        ({"record_bytes": 200}, "engine: java has no record_bytes: 200"),
        ({"rate": "0.5/s"}, "engine: java takes a whole number of records a second, not 0.5"),
        ({"rate": "100/s", "processes": 3}, "records a second, not 33.3333 in each of 3 processes"),
        ({"transaction": {"records": 5}}, "transaction needs engine: confluent-kafka"),
    ],
)
def test_a_java_load_that_cannot_be(change: dict[str, Any], sentence: str) -> None:
    """Invalid Java loads are rejected, each with its reason."""
    assert sentence in refusal(plain(load={**JAVA, **change}))


def test_a_java_load_keeps_its_rate() -> None:
    """``set_rate`` is rejected for a Java load and accepted for other engines."""
    step = one_phase({"set_rate": "200/s"})

    assert "engine: java cannot change its rate" in refusal({**step, "load": JAVA})
    assert Scenario.model_validate({**step, "load": {"topic": "orders"}})


def test_a_copier() -> None:
    """A copier commits offsets in its transactions by default; a scenario without one keeps its digest."""
    told = Scenario.model_validate(plain(**COPIED))

    assert told.copier is not None
    assert told.copier.offsets == "in_transaction"
    assert "copier" not in Scenario.model_validate(plain()).model_dump()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"load": {"topic": "orders"}}, "copier needs a load with transaction"),
        (
            {"copier": {"to": "orders"}},
            "copier writes to topic 'orders', which must be another one under topics than the loads'",
        ),
        ({"copier": {"to": "others"}}, "copier writes to topic 'others'"),
        ({"topics": {"orders": ORDERS, "copies": {**ORDERS, "partitions": 7}}}, "copier needs as many partitions"),
    ],
)
def test_a_copier_that_cannot_be(change: dict[str, Any], sentence: str) -> None:
    """Invalid copiers are rejected, each with its reason."""
    assert sentence in refusal(plain(**{**COPIED, **change}))


def test_only_a_copier_can_be_killed() -> None:
    """``kill_copier`` needs a copier."""
    step = one_phase({"kill_copier": 2})

    assert "a step is kill_copier, and there is no copier" in refusal(step)
    assert Scenario.model_validate({**step, **COPIED}).faults == ["kill_copier", "kill_copier"]
