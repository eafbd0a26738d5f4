"""Rates, sizes and keys of a load in the scenario language."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.scenario.durations import expected_records
from clusters.scenario.load import Load
from clusters.scenario.scenario import Scenario, parse_scenario
from clusters.scenario.shapes import as_written, shared
from history.errors import BadInput

RAMP = {"from": "500/s", "to": "5000/s", "over": "60s"}
WAVE = {"mean": "1000/s", "amplitude": "50%", "period": "60s"}
STEPS = {"steps": [["0s", "500/s"], ["30s", "2000/s"], ["1m", "100/s"]]}
ZIPF = {"count": 100, "distribution": "zipf", "exponent": 1.0}
LOGNORMAL = {"lognormal": {"median": 500, "p99": 20_000}}


def scenario(load: dict[str, Any], config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a scenario with a load and topic settings."""
    return {
        "name": "x",
        "why": "y",
        "cluster": {"brokers": 3},
        "topics": {"orders": {"replicas": ["A"], "config": config or {}}},
        "load": {"topic": "orders", **load},
        "phases": [{"one": [{"hold": "10s"}]}],
    }


def load_of(**settings: Any) -> Load:
    """Return the load with these settings."""
    found = Scenario.model_validate(scenario(settings)).load
    assert found
    return found


def refusal(load: dict[str, Any], config: dict[str, Any] | None = None) -> str:
    """Return the message with which a load is rejected."""
    with pytest.raises(BadInput) as refused:
        parse_scenario(str(scenario(load, config)), "x.yaml")
    return str(refused.value)


@pytest.mark.parametrize(
    ("rate", "usual", "peak"),
    [(250, 250, 250), ("250/s", 250, 250), (RAMP, 5000, 5000), (WAVE, 1000, 1500), (STEPS, 100, 2000)],
)
def test_a_rate_may_change_over_time(rate: Any, usual: float, peak: float) -> None:
    """A rate that changes over time has a mean and a peak; the peak bounds the number of records."""
    told = Scenario.model_validate(scenario({"rate": rate}))

    assert told.load
    assert (told.load.usual_rate, told.load.peak_rate) == (usual, peak)
    assert expected_records(told) == peak * 10


@pytest.mark.parametrize(
    ("rate", "quarter"),
    [
        (1000, 250.0),
        (RAMP, {"from": 125, "to": 1250, "over": 60}),
        (WAVE, {"mean": 250, "amplitude": 0.5, "period": 60}),
        (STEPS, {"steps": [(0, 125), (30, 500), (60, 25)]}),
    ],
)
def test_processes_share_a_rate_at_each_moment(rate: Any, quarter: Any) -> None:
    """Each of four processes has a quarter of the rate at every moment."""
    told = Load(topic="orders", rate=rate).rate

    assert as_written(shared(told, 4)) == as_written(Load(topic="orders", rate=quarter).rate)


@pytest.mark.parametrize(
    ("size", "largest", "mean"),
    [
        (100, 100, 100),
        ({"uniform": [100, 199]}, 199, 149.5),
        ({"mix": {100: "90%", 10_000: "10%"}}, 10_000, 1090),
        ({"lognormal": {"median": 500, "p99": 20_000, "max": 50_000}}, 50_000, 1688),
        (LOGNORMAL, 238_924, 1755.3),
    ],
)
def test_sizes_are_known_beforehand(size: Any, largest: int, mean: float) -> None:
    """The largest and the mean size follow from the distribution."""
    sizes = load_of(record_bytes=size).sizes

    assert (sizes.largest, sizes.mean) == (largest, pytest.approx(mean, abs=0.1))


@pytest.mark.parametrize(
    ("settings", "client"),
    [
        ({}, False),
        ({"keys": ZIPF}, True),
        ({"partitioner": "client"}, True),
        ({"keys": ZIPF, "partitioner": "in_turn"}, False),
    ],
)
def test_who_chooses_partitions(settings: dict[str, Any], client: bool) -> None:
    """The client chooses partitions if there are keys, unless ``partitioner`` is set."""
    assert load_of(**settings).client_partitions is client


@pytest.mark.parametrize(
    "load",
    [
        {"rate": RAMP, "record_bytes": {"uniform": [64, 99]}},
        {"rate": WAVE, "record_bytes": LOGNORMAL, "keys": ZIPF},
        {"rate": STEPS, "record_bytes": {"mix": {100: 0.5, 200: 0.5}}, "partitioner": "client"},
        {"keys": {"distribution": "hot", "hot": "50%"}},
        {"payload": {"file": "README.md"}},
    ],
)
def test_a_shaped_load_survives_being_written_out(load: dict[str, Any]) -> None:
    """A shaped load read back from JSON is equal and has the same digest."""
    told = Scenario.model_validate(scenario(load))
    from_json = Scenario.model_validate_json(told.model_dump_json())

    assert told == Scenario.model_validate(told.model_dump()) == from_json
    assert told.digest == from_json.digest


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        ({"rate": {"mean": 5}}, "load.rate: amplitude is missing"),
        ({"rate": {"to": 5}}, "load.rate: {'to': 5} is neither a rate such as 1000/s nor {from, to, over}, {mean"),
        ({"rate": {**WAVE, "amplitude": "100%"}}, "load.rate: amplitude: Input should be less than 1 (got '100%')"),
        ({"rate": {"steps": [["1s", 5]]}}, "load.rate: the times of steps begin with 0s and rise, unlike [1.0]"),
        ({"rate": {"steps": [[0, 5], [0, 6]]}}, "load.rate: the times of steps begin with 0s and rise"),
        ({"record_bytes": 63}, "load.record_bytes: Input should be greater than or equal to 64 (got 63)"),
        ({"record_bytes": 900_001}, "load.record_bytes: Input should be less than or equal to 900000 (got 900001)"),
        ({"record_bytes": {"uniform": [200, 100]}}, "load.record_bytes: uniform takes the smallest and the largest"),
        ({"record_bytes": {"mix": {100: "50%"}}}, "load.record_bytes: the shares of mix add up to 50.00%, not to 100%"),
        (
            {"record_bytes": {"lognormal": {"median": 500, "p99": 200}}},
            "load.record_bytes: lognormal: lognormal needs median < p99 <= max, not 500, 200 and 900000",
        ),
        (
            {"record_bytes": {"normal": 5}},
            "load.record_bytes: {'normal': 5} is neither a number of bytes nor {uniform}",
        ),
        ({"keys": {"distribution": "zipf"}}, "load.keys: distribution: zipf needs exponent"),
        ({"keys": {"hot": "50%"}}, "load.keys: distribution: hot needs hot, and no other distribution has it"),
        ({"keys": {"count": 1}}, "load.keys.count: Input should be greater than or equal to 2 (got 1)"),
        ({"keys": {}, "engine": "java"}, "engine: java has neither keys nor partitioner"),
        ({"rate": WAVE, "engine": "java"}, "engine: java takes a whole number of records a second, not a rate that"),
        ({"record_bytes": LOGNORMAL, "engine": "java"}, "engine: java has no record_bytes: "),
        (
            {"transaction": {}, "engine": "confluent-kafka", "partitioner": "client"},
            "transaction with partitioner: client needs keys",
        ),
        (
            {"record_bytes": LOGNORMAL, "payload": {"file": "README.md"}},
            "is no file of at least 238924 bytes, a record's",
        ),
    ],
)
def test_a_shape_that_cannot_be(load: dict[str, Any], sentence: str) -> None:
    """An invalid shape is rejected with its place, its value and the allowed forms."""
    assert sentence in refusal(load)


def test_the_largest_record_fits_the_brokers_limit() -> None:
    """The largest record must fit ``max.message.bytes`` with 100 bytes for its batch."""
    assert "largest record has 901 bytes; with 100 of its batch it does not fit in max.message.bytes 1000" in refusal(
        {"record_bytes": {"mix": {100: "99%", 901: "1%"}}}, {"max.message.bytes": 1000}
    )
    assert parse_scenario(str(scenario({"record_bytes": 900}, {"max.message.bytes": 1000})), "x.yaml")
