"""The copier: what one turn does, and how it continues after an error."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from clusters.clients import copier
from clusters.clients.configs import CopierConfig
from history.payload import decode

EOF, NO_OFFSET = -191, -168  # librdkafka's _PARTITION_EOF and _NO_OFFSET


class Kafka:
    """A topic with records in partition 0, a group, and the produced records; transactions are atomic."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.committed = 0
        self.output: list[tuple[int, bytes]] = []
        self.log: list[str] = []
        self.fails: list[str] = []  # calls that fail once
        self.commits_by_itself = False  # enable.auto.commit, whose interval has passed by the next call

    def act(self, what: str) -> None:
        self.log.append(what)
        if what in self.fails:
            self.fails.remove(what)
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))


def message(offset: int, code: int | None = None) -> Any:
    """Return a record of partition 0, or an error."""
    error = SimpleNamespace(code=lambda: code) if code is not None else None
    said = {"error": error, "offset": offset, "partition": 0, "topic": "orders", "value": bytes(64 + offset)}
    return SimpleNamespace(**{name: partial(said.get, name) for name in said})


class FakeConsumer:
    """Reads on from the group's committed offset; like librdkafka it auto-commits the stored offsets."""

    def __init__(self, kafka: Kafka, settings: dict[str, Any]) -> None:
        self.kafka, self.settings, self.at = kafka, settings, kafka.committed
        self.stored: int | None = None

    def subscribe(self, topics: list[str]) -> None:
        assert topics == ["orders"]

    def consume(self, count: int, _timeout: float) -> list[Any]:
        offsets = range(self.at, min(self.at + count, self.kafka.records))
        self.at = offsets.stop
        return [message(offset) for offset in offsets] or [message(self.at, EOF)]

    def consumer_group_metadata(self) -> str:
        return "group"

    def store_offsets(self, offsets: list[Any]) -> None:
        self.stored = offsets[0].offset
        if self.kafka.commits_by_itself:
            self.commit(asynchronous=False)

    def commit(self, *, asynchronous: bool) -> None:
        assert not asynchronous
        self.kafka.act("commit offsets")
        if self.stored is None:
            raise KafkaException(KafkaError(NO_OFFSET))
        self.kafka.committed, self.stored = self.stored, None

    def committed(self, wanted: list[Any], _timeout: float) -> list[Any]:
        return [SimpleNamespace(topic="orders", partition=w.partition, offset=self.kafka.committed) for w in wanted]

    def close(self) -> None:
        self.kafka.log.append("close")


class FakeProducer:
    """A producer whose records become visible with the commit."""

    def __init__(self, kafka: Kafka, settings: dict[str, Any]) -> None:
        self.kafka, self.settings = kafka, settings
        self.open: list[tuple[int, bytes]] = []
        self.offset: int | None = None

    def init_transactions(self, _timeout: float) -> None:
        self.kafka.act("init")

    def begin_transaction(self) -> None:
        self.kafka.act("begin")
        self.open, self.offset = [], None

    def produce(self, topic: str, value: bytes, partition: int) -> None:
        assert topic == "copies"
        self.open.append((partition, value))

    def send_offsets_to_transaction(self, positions: list[Any], group: str, _timeout: float) -> None:
        assert group == "group"
        self.offset = positions[0].offset

    def commit_transaction(self, _timeout: float) -> None:
        self.kafka.act("commit")
        self.kafka.output += self.open
        if self.offset is not None:
            self.kafka.committed = self.offset


def config(tmp_path: Path, offsets: str) -> CopierConfig:
    """Return a configuration with two records per transaction and one partition."""
    return CopierConfig(
        client_id="copier",
        out=str(tmp_path),
        summary=str(tmp_path / "copier.json"),
        bootstrap=["a:9092"],
        topic="orders",
        to="copies",
        partitions=1,
        offsets=offsets,
        records=2,
        transaction_timeout_ms=1000,
    )


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """A topic with three records, and fakes of the library's two clients on it."""
    found = Kafka(3)
    monkeypatch.setattr(copier, "Consumer", lambda settings: FakeConsumer(found, settings))
    monkeypatch.setattr(copier, "Producer", lambda settings: FakeProducer(found, settings))
    monkeypatch.setattr(copier, "AGAIN_S", 0.0)
    return found


def ran(tmp_path: Path, offsets: str = "in_transaction") -> dict[str, Any]:
    """Run the copier with its stop event set; return its summary."""
    stop = threading.Event()
    stop.set()
    copier.run(config(tmp_path, offsets), stop)
    return dict(json.loads((tmp_path / "copier.json").read_text()))


@pytest.mark.parametrize("offsets", ["in_transaction", "apart"])
def test_it_copies_to_the_end_and_says_how_far_its_group_is(kafka: Kafka, tmp_path: Path, offsets: str) -> None:
    """A copier with its stop event set copies to the end, and its summary has the group's offset."""
    summary = ran(tmp_path, offsets)

    assert [(partition, decode(value)[:2]) for partition, value in kafka.output] == [
        (0, ("copier-0", 0)),
        (0, ("copier-0", 1)),
        (0, ("copier-0", 2)),
    ]
    assert [len(value) for _, value in kafka.output] == [64, 65, 66]
    assert (summary["clean"], summary["rows"], summary["committed"]) == (True, 3, {"orders-0": 3})
    own = ["commit offsets"] if offsets == "apart" else []
    assert kafka.log == ["init", "begin", "commit", "begin", "commit", *own, "close"]


def test_nothing_is_left_to_commit_after_an_automatic_commit(kafka: Kafka, tmp_path: Path) -> None:
    """If nothing is left to commit, librdkafka raises ``_NO_OFFSET`` and the copier still ends cleanly."""
    kafka.commits_by_itself = True
    told = threading.Event()
    told.set()
    with suppress(KafkaException):
        copier.run(config(tmp_path, "apart"), told)
    summary = json.loads((tmp_path / "copier.json").read_text())

    assert (summary.get("clean"), summary.get("committed")) == (True, {"orders-0": 3})


def test_a_last_commit_that_fails_is_tried_again(kafka: Kafka, tmp_path: Path) -> None:
    """If the last commit fails, the copier starts again from the committed offset and copies those records twice."""
    kafka.fails = ["commit offsets"]
    told = threading.Event()
    told.set()
    with suppress(KafkaException):
        copier.run(config(tmp_path, "apart"), told)
    summary = json.loads((tmp_path / "copier.json").read_text())

    assert (summary.get("clean"), summary.get("committed")) == (True, {"orders-0": 3})
    assert [decode(value).seq for _, value in kafka.output] == [0, 1, 2, 0, 1, 2]


def test_after_an_error_it_begins_anew_from_what_is_committed(kafka: Kafka, tmp_path: Path) -> None:
    """A failed transaction shows no record and commits no offset, so the copier copies its records once."""
    kafka.fails = ["commit"]
    summary = ran(tmp_path)

    assert [decode(value).seq for _, value in kafka.output] == [0, 1, 2]
    assert kafka.log[:5] == ["init", "begin", "commit", "close", "init"]
    assert summary["committed"] == {"orders-0": 3}


def test_offsets_that_are_committed_apart_lag_behind(kafka: Kafka, tmp_path: Path) -> None:
    """A second copier copies uncommitted records again, unless offsets are committed in the transaction."""
    for offsets, copied in (("apart", [0, 1, 0, 1]), ("in_transaction", [0, 1, 2])):
        kafka.output, kafka.committed = [], 0
        for _ in range(2):
            copier.Turns(config(tmp_path, offsets)).turn()

        assert [decode(value).seq for _, value in kafka.output] == copied


def test_an_error_of_the_consumer_is_no_record(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error from the consumer raises an exception; the end of a partition does not."""
    turns = copier.Turns(config(tmp_path, "in_transaction"))
    monkeypatch.setattr(turns._consumer, "consume", lambda *_: [message(0, KafkaError.UNKNOWN_TOPIC_OR_PART)])

    with pytest.raises(KafkaException):
        turns.turn()
    assert kafka.output == []
    monkeypatch.setattr(turns._consumer, "consume", lambda *_: [message(0, EOF)])
    assert (turns.turn(), turns.at_end) == (0, True)
