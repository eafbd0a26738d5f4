"""A member of a share group, on a scripted library."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException
from confluent_kafka import TopicPartition as At

from clusters.clients import share_member
from clusters.clients.configs import ShareMemberConfig
from clusters.clients.share_member import ShareMember, share_settings
from clusters.clients.summary import Summary
from history.partition import TopicPartition
from history.streams import RowWriter, read_stream
from history.tables import SHARE_ACKS, SHARE_READS

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Message:
    """A polled record."""

    def __init__(self, partition: int, offset: int, count: int | None = 1, error: str | None = None) -> None:
        self.topic, self.partition, self.offset = (lambda: "orders"), (lambda: partition), (lambda: offset)
        self.delivery_count, self.error = (lambda: count), (lambda: error)


class Library:
    """Polls the records that it was given, and notes what is on disk when records are acknowledged."""

    def __init__(self, _settings: dict[str, Any]) -> None:
        self.batches: list[list[Message] | KafkaException] = []
        self.acknowledged: list[tuple[int, Any]] = []
        self.on_disk: Any = lambda: None
        self.seen: list[Any] = []
        self.commits = 0
        self.closed = False

    def set_acknowledgement_commit_callback(self, answer: Any) -> None:
        self.answer = answer

    def subscribe(self, topics: list[str]) -> None:
        self.topics = topics

    def poll(self, timeout: float) -> list[Message]:
        assert timeout
        batch = self.batches.pop(0) if self.batches else []
        if isinstance(batch, KafkaException):
            raise batch
        return batch

    def acknowledge(self, message: Message, kind: Any) -> None:
        self.acknowledged.append((message.offset(), kind))
        self.seen.append(self.on_disk())

    def commit_async(self) -> None:
        self.commits += 1

    def close(self) -> None:
        self.closed = True


class Played:
    """A member with its library and its output files."""

    def __init__(self, folder: Path, **change: Any) -> None:
        own = {"client_id": "member-1.1", "out": str(folder), "summary": str(folder / "s.json"), "bootstrap": ["b:1"]}
        settings = {"topic": "orders", "group_id": "g", "alive": str(folder / "alive"), "processing_s": 0.0}
        self.config = ShareMemberConfig(**{**own, **settings, **change})
        self.reads = RowWriter(self.config.stream("share_reads"), SHARE_READS)
        self.acks = RowWriter(self.config.stream("share_acks"), SHARE_ACKS)
        summary = Summary(self.config, "member")
        self.member = ShareMember(self.config, summary, threading.Event(), self.reads, self.acks)
        self.library: Any = self.member._consumer
        self.library.on_disk = lambda: (len(self.rows("share_reads")), len(self.rows("share_acks")))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows written to disk so far."""
        batches = list(read_stream(self.config.stream(table)))
        return pa.Table.from_batches(batches).to_pylist() if batches else []


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_member, "ShareConsumer", Library)


def test_what_is_acknowledged_was_written_before(tmp_path: Path) -> None:
    """Records and acknowledgement requests are on disk before the acknowledgement is sent, so a kill loses neither."""
    played = Played(tmp_path)
    played.library.batches = [[Message(0, 0), Message(0, 1), Message(0, 2, 2), Message(1, 7)]]
    played.member.step()

    assert played.library.seen == [(3, 2)] * 4
    assert played.library.commits == 1
    read = played.rows("share_reads")
    assert [(row["partition"], row["first_offset"], row["last_offset"], row["delivery_count"]) for row in read] == [
        (0, 0, 1, 1),
        (0, 2, 2, 2),
        (1, 7, 7, 1),
    ]
    asked = [(row["partition"], row["first_offset"], row["last_offset"]) for row in played.rows("share_acks")]
    assert asked == [(0, 0, 2), (1, 7, 7)]


def test_a_poll_tells_when_the_eighth_before_was_done(tmp_path: Path) -> None:
    """``since_ns`` is the time of the eighth poll before; empty polls count, and a missing delivery count is null."""
    played = Played(tmp_path)
    played.library.batches = [[Message(0, 0, None)], *[[] for _ in range(7)], [Message(0, 1)], [Message(0, 2)]]
    for _ in range(10):
        played.member.step()

    first, ninth, tenth = played.rows("share_reads")
    assert first["delivery_count"] is None
    assert first["since_ns"] < first["received_ns"] == ninth["since_ns"] < tenth["since_ns"] < ninth["received_ns"]


def test_every_nth_record_is_released(tmp_path: Path) -> None:
    """A record is released if its offset is a multiple of n, at each delivery."""
    played = Played(tmp_path, release_every=2)
    played.library.batches = [[Message(0, offset) for offset in (1, 2, 3)]]
    played.member.step()

    accept, release = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
    assert played.library.acknowledged == [(1, accept), (2, release), (3, accept)]
    assert [row["kind"] for row in played.rows("share_acks")] == ["accept", "release", "accept"]


def test_answers_are_written_with_their_errors(tmp_path: Path) -> None:
    """Acknowledgement results are written in stretches with their errors, whatever their order."""
    played = Played(tmp_path)
    played.library.answer({At("orders", 0): {3, 1, 2, 9}}, None)
    played.library.answer({At("orders", 1): {5}}, KafkaException(KafkaError(121)))
    played.acks.flush()

    rows = played.rows("share_acks")
    assert [(row["partition"], row["first_offset"], row["last_offset"], row["error"]) for row in rows] == [
        (0, 1, 3, None),
        (0, 9, 9, None),
        (1, 5, 5, "INVALID_RECORD_STATE"),
    ]
    assert all(row["asked_ns"] is None and row["answered_ns"] for row in rows)


def test_a_poll_that_failed_is_tried_again(tmp_path: Path) -> None:
    """A poll that fails, or that returns an error, is tried again."""
    played = Played(tmp_path)
    played.library.batches = [KafkaException(KafkaError(-195)), [Message(0, 0, error="down")], [Message(0, 1)]]
    for _ in range(3):
        played.member.step()

    assert played.member.received == 1
    assert [offset for offset, _ in played.library.acknowledged] == [1]


def test_settings_are_known_to_the_library(tmp_path: Path) -> None:
    """librdkafka accepts each setting of a share consumer, so a misspelling fails here."""
    from confluent_kafka import ShareConsumer

    ShareConsumer(share_settings(Played(tmp_path).config)).close()
