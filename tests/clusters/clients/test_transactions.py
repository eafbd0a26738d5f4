"""Consecutive transactions, with a scripted library."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from clusters.clients import transactions
from clusters.clients.configs import ProducerConfig
from clusters.clients.engines import NotTakenError, librdkafka_error
from clusters.clients.ledger import NOT_SEEN
from clusters.clients.transactions import Transactional
from clusters.waiting import wait_until

CONFIG = ProducerConfig(
    client_id="p1",
    out="",
    summary="",
    bootstrap=[],
    topic="t",
    partitions=1,
    rate_per_s=1.0,
    record_bytes=100,
    transaction_records=2,
    abort_every=3,
)


class Failure:
    """An error of librdkafka."""

    def __init__(self, code: int, *, retriable: bool = False, abort: bool = False) -> None:
        self._said = code, retriable, abort

    def code(self) -> int:
        return self._said[0]

    def retriable(self) -> bool:
        return self._said[1]

    def txn_requires_abort(self) -> bool:
        return self._said[2]


class FakeProducer:
    """Acknowledges at offset 10 + n; each call consumes one failure under its name in ``failures``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.calls: list[str] = []
        self.failures: dict[str, list[Failure]] = {}
        self.count = 0

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.failures.get(name):
            raise KafkaException(self.failures[name].pop(0))

    def init_transactions(self, timeout: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def commit_transaction(self) -> None:
        self._call("commit")

    def abort_transaction(self) -> None:
        self._call("abort")

    def flush(self, timeout: float) -> None:
        self._call("flush")

    def poll(self, timeout: float) -> None:
        """Has nothing to do."""

    def produce(self, topic: str, value: bytes, key: bytes | None, partition: int, *, on_delivery: Any) -> None:
        self._call("produce")
        self.count += 1
        at = 9 + self.count
        on_delivery(None, SimpleNamespace(offset=lambda: at, partition=lambda: partition))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers created so far."""
    found: list[FakeProducer] = []

    def make(settings: dict[str, Any]) -> FakeProducer:
        found.append(FakeProducer(settings))
        return found[-1]

    monkeypatch.setattr(transactions, "Producer", make)
    monkeypatch.setattr(transactions, "AGAIN_S", 0.001)
    return found


def sent(engine: Transactional, *seqs: int) -> list[int]:
    """Send the records, each once the engine is ready; return their transactions after the last one ended."""
    numbers = []
    for seq in seqs:
        wait_until(lambda: engine.ready, limit_s=5, what="the engine to be ready", every_s=0.001)
        numbers.append(engine.send_one(0, b"", None, seq))
    wait_until(lambda: engine.ready, limit_s=5, what="the end", every_s=0.001)
    return numbers


def answered(engine: Transactional) -> list[tuple[int, int | None, str | None]]:
    """Return number, offset and error of every answer."""
    return [(seq, None if offset == NOT_SEEN else offset, error) for seq, _, _, offset, error in engine.answered]


def test_records_are_answered_when_their_transaction_ends(made: list[FakeProducer]) -> None:
    """Records are answered when their transaction ends; the third transaction is flushed and aborted on purpose."""
    engine = Transactional(CONFIG)
    assert sent(engine, 0, 1, 2) == [0, 0, 1]
    assert answered(engine) == [(0, 10, None), (1, 11, None)]

    assert sent(engine, 3, 4, 5) == [1, 2, 2]
    assert answered(engine)[4:] == [(4, 14, "transaction_aborted"), (5, 15, "transaction_aborted")]
    assert made[0].calls[-2:] == ["flush", "abort"]
    assert made[0].settings["transactional.id"] == "p1"


@pytest.mark.parametrize(("timeout_ms", "socket_ms"), [(5_000, 5_000), (60_000, 11_000)])
def test_no_answer_is_awaited_for_longer_than_a_transaction(
    made: list[FakeProducer], timeout_ms: int, socket_ms: int
) -> None:
    """``socket.timeout.ms`` never exceeds the transaction time-out, since librdkafka rejects larger values."""
    Transactional(dataclasses.replace(CONFIG, transaction_timeout_ms=timeout_ms))

    assert made[0].settings["socket.timeout.ms"] == socket_ms


def test_an_open_transaction_is_committed_at_the_end(made: list[FakeProducer]) -> None:
    """The open transaction is committed at the end, full or not; without one there is nothing to end."""
    engine = Transactional(CONFIG)
    engine.finish()
    assert made[0].calls == ["init"]

    sent(engine, 0)
    engine.finish()
    sent(engine)
    assert answered(engine) == [(0, 10, None)]


def test_what_timed_out_is_resumed(made: list[FakeProducer]) -> None:
    """A commit that timed out and may be called again is called again."""
    engine = Transactional(CONFIG)
    made[0].failures["commit"] = [Failure(-185, retriable=True)] * 2
    sent(engine, 0, 1)

    assert [error for *_, error in answered(engine)] == [None, None]


def test_a_failed_transaction_that_is_aborted_is_known(made: list[FakeProducer]) -> None:
    """If a failed transaction is aborted, its records fail, and the producer continues."""
    engine = Transactional(CONFIG)
    made[0].failures["commit"] = [Failure(-192, abort=True)]
    sent(engine, 0, 1)

    assert [error for *_, error in answered(engine)] == ["transaction_aborted"] * 2
    assert len(made) == 1


@pytest.mark.parametrize(
    "failures",
    [
        {"commit": [Failure(-144)]},
        {"commit": [Failure(-192, abort=True)], "abort": [Failure(-144)]},
    ],
)
def test_a_commit_that_nobody_answers_is_unknown(made: list[FakeProducer], failures: dict[str, list[Failure]]) -> None:
    """If neither commit nor abort is answered, the outcome is unknown, and a new producer takes over the same id."""
    engine = Transactional(CONFIG)
    made[0].failures |= failures
    error = f"commit {librdkafka_error(failures['commit'][0].code())}"
    sent(engine, 0, 1, 2, 3)

    assert [error for *_, error in answered(engine)] == [error, error, None, None]
    assert [producer.settings["transactional.id"] for producer in made] == ["p1", "p1"]


def test_a_refused_record_ends_its_transaction(made: list[FakeProducer]) -> None:
    """A rejected record ends its transaction; the records before it are answered, and the next one begins a new one."""
    engine = Transactional(CONFIG)
    sent(engine, 0)
    made[0].failures["produce"] = [Failure(-172)]
    with pytest.raises(NotTakenError):
        engine.send_one(0, b"", None, 1)

    assert sent(engine, 2) == [1]
    assert answered(engine) == [(0, 10, None)]
