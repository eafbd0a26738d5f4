"""The figures of the clients' benchmark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bench import clients, targets

S = 10**9
RATES = [
    {clients.PRODUCER_TOOL: 100.0, "confluent-kafka": ours, "kafka-python": 10.0}
    | {clients.SAME_BATCHES: 90.0}
    | {clients.CONSUMER_TOOL: 200.0, "drain": 160.0, "consumer": 220.0}
    for ours in (90.0, 110.0, 120.0)
]


def sends(*rows: tuple[float | None, float | None, float | None, str]) -> pa.Table:
    """Return sends of records with due, sent and done in seconds, and the outcome."""
    due, sent, done, outcome = zip(*rows, strict=True)
    columns: dict[str, Any] = {
        name: pa.array([None if at is None else round(at * S) for at in times], pa.int64())
        for name, times in (("due_ns", due), ("sent_ns", sent), ("done_ns", done))
    }
    return pa.table({**columns, "outcome": pa.array(outcome)})


def test_each_program_is_held_against_kafkas_own_tool() -> None:
    """Each program is compared with Kafka's tool by the median of the rounds' ratios; the rates are kept."""
    found = {row["target"]: row for row in clients.rows_of(1000, RATES)}

    ours = found["confluent_kafka_1_kB"]
    assert (ours["figure"], ours["met"], ours["rounds"]) == (1.1, True, [0.9, 1.1, 1.2])
    assert ours["records_per_s"]["kafka-producer-perf-test"] == [100, 100, 100]
    assert {name: row["figure"] for name, row in found.items()} == {
        "confluent_kafka_1_kB": 1.1,
        "kafka_python_1_kB": 0.1,
        "drain_1_kB": 0.8,
        "consumer_1_kB": 1.1,
    }
    assert all(row["met"] for row in found.values())
    assert found.keys() <= targets.TARGETS.keys()


def test_only_what_was_acknowledged_after_the_warm_up_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only records acknowledged after the warm-up count, from the first acknowledgement on, without failed ones."""
    monkeypatch.setattr(clients, "WARM_S", 2.0)
    monkeypatch.setattr(clients, "MEASURED_S", 4.0)
    rows = [(1.0, 1.0, done, "ok") for done in (10.0, 11.9, 12.0, 13.0, 15.9, 16.0)]

    assert clients.acknowledged_per_s(sends(*rows, (1.0, 1.0, 13.0, "fail"), (1.0, None, None, "info"))) == 3 / 4


def test_what_was_never_sent_is_late_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unsent record counts as infinitely late, so that two of a thousand decide the percentile above 99 %."""
    monkeypatch.setattr(clients, "WARM_S", 1.0)
    cold = (0.0, 0.5, 0.6, "ok")
    warm = [(2.0 + at / 1000, 2.0 + at / 1000 + (0.003 if at < 7 else 0.0), 9.0, "ok") for at in range(998)]
    never = (3.5, None, None, "fail")

    assert clients.late_ms(sends(cold, *warm, never, never)) == pytest.approx((0.0, float("inf")), abs=0.001)
    assert clients.late_ms(sends(cold, *warm)) == pytest.approx((0.0, 3.0), abs=0.001)
