"""A member of a consumer group, on a scripted library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as At

from clusters.clients import member
from clusters.clients.configs import MemberConfig
from clusters.clients.member import Member, Range, joined, member_settings
from clusters.clients.summary import Summary
from history.partition import TopicPartition
from history.streams import RowWriter, read_stream
from history.tables import COMMITS, GROUP_READS, REBALANCES

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Message:
    """A polled record."""

    def __init__(self, partition: int, offset: int) -> None:
        self.topic, self.partition, self.offset = (lambda: "orders"), (lambda: partition), (lambda: offset)
        self.error = lambda: None


class Library:
    """Polls the records that it was given, and accepts commits."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.answer = settings["on_commit"]
        self.messages: list[Message | None] = []
        self.commits: list[tuple[list[tuple[int, int]], bool]] = []
        self.closed = False

    def subscribe(self, _topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def poll(self, _limit_s: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def commit(self, offsets: list[At], asynchronous: bool) -> list[At] | None:  # the library's own
        self.commits.append(([(at.partition, at.offset) for at in offsets], asynchronous))
        return None if asynchronous else offsets

    def get_watermark_offsets(self, at: At, cached: bool) -> tuple[int, int]:  # the library's own
        assert cached
        return 0, {0: 30, 1: -1001}[at.partition]  # partition 1 has no fetch yet

    def close(self) -> None:
        self.closed = True


class Played:
    """A member with its library and its output files."""

    def __init__(self, folder: Path, **change: Any) -> None:
        own = {"client_id": "member-1.1", "out": str(folder), "summary": str(folder / "s.json"), "bootstrap": ["b:1"]}
        settings = {"topic": "orders", "group_id": "g", "alive": str(folder / "alive"), "commit_every_s": 0.0}
        self.config = MemberConfig(**{**own, **settings, **change})
        schemas = {"group_reads": GROUP_READS, "rebalances": REBALANCES, "commits": COMMITS}
        self.writers = [RowWriter(self.config.stream(name), schema) for name, schema in schemas.items()]
        self.member = Member(self.config, Summary(self.config, "member"), *self.writers)
        self.library: Any = self.member._consumer

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows written to disk so far."""
        batches = list(read_stream(self.config.stream(table)))
        return pa.Table.from_batches(batches).to_pylist() if batches else []

    def read(self) -> list[tuple[int, int]]:
        """Return the first and last offsets of the written stretches."""
        return [(row["first_offset"], row["last_offset"]) for row in self.rows("group_reads")]


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "Consumer", Library)


def test_what_is_committed_was_written_before(tmp_path: Path) -> None:
    """Records are on disk before their offset is committed; so are the commit request and its answer."""
    played = Played(tmp_path)
    played.library.messages = [Message(0, 0), Message(0, 1), Message(1, 7)]
    played.member.step()

    assert played.library.commits == [([(0, 2), (1, 8)], True)]
    assert played.read() == [(0, 1), (7, 7)]
    assert [(row["offset"], row["answered_ns"]) for row in played.rows("commits")] == [(2, None), (8, None)]

    played.library.answer(None, [At("orders", 0, 2), At("orders", 1, 8)])
    played.writers[2].flush()
    answers = [row for row in played.rows("commits") if row["answered_ns"] is not None]
    assert [(row["offset"], row["number"], row["error"]) for row in answers] == [(2, 0, None), (8, 0, None)]


def test_ahead_of_processing_what_is_committed_is_written_later(tmp_path: Path) -> None:
    """With ``commit_ahead`` offsets are committed before their records are written, so a kill skips those records."""
    played = Played(tmp_path, commit_ahead=True)
    played.library.messages = [Message(0, 0), None]
    played.member.step()
    assert (played.library.commits, played.read()) == ([([(0, 1)], True)], [])

    played.library.answer(None, [At("orders", 0, 1)])
    played.library.messages = [Message(0, 1), None]
    played.member.step()
    assert (played.library.commits[1:], played.read()) == ([([(0, 2)], True)], [(0, 0)])


def test_one_commit_at_a_time_is_under_way(tmp_path: Path) -> None:
    """One commit is in flight at a time; the next one covers the records read since."""
    played = Played(tmp_path)
    for offset in range(2):
        played.library.messages = [Message(0, offset)]
        played.member.step()
    assert played.library.commits == [([(0, 1)], True)]

    played.library.answer(None, [At("orders", 0, 1)])
    played.member.step()
    assert played.library.commits[1:] == [([(0, 2)], True)]


def test_what_is_revoked_is_committed_first(tmp_path: Path) -> None:
    """Revoked partitions are committed first; lost partitions are not committed."""
    played = Played(tmp_path, commit_every_s=100.0)
    played.library.callbacks["on_assign"](None, [At("orders", 0), At("orders", 1)])
    played.library.messages = [Message(0, 0), Message(1, 0)]
    played.member.step()
    played.library.callbacks["on_revoke"](None, [At("orders", 0)])
    played.library.callbacks["on_lost"](None, [At("orders", 1)])
    played.member.close()

    assert played.library.commits == [([(0, 1)], False)]
    assert [(row["partition"], row["change"]) for row in played.rows("rebalances")] == [
        (0, "assigned"),
        (1, "assigned"),
        (0, "revoked"),
        (1, "lost"),
    ]
    assert played.library.closed


def test_what_it_has_not_read_lies_behind(tmp_path: Path) -> None:
    """The lag counts up to the fetched high watermarks; a partition without one counts as zero."""
    played = Played(tmp_path)
    assert played.member.lag() == 0
    played.library.messages = [Message(0, 9), Message(1, 4)]
    played.member.step()

    assert played.member.lag() == 20


def test_a_range_is_unbroken() -> None:
    """A gap in the offsets begins a new range; records of another partition in between do not."""
    polled = [(P0, 0, 10), (P1, 5, 11), (P0, 1, 12), (P0, 3, 13), (P1, 6, 14)]
    ranges = joined(Range(where, offset, offset, received_ns) for where, offset, received_ns in polled)

    assert [(each.where, each.first, each.last, each.received_ns) for each in ranges] == [
        (P0, 0, 1, 10),
        (P1, 5, 6, 11),
        (P0, 3, 3, 13),
    ]


def test_a_range_is_of_one_kind() -> None:
    """Ranges have consecutive offsets of one kind; records of another partition in between do not break them."""
    given = [(P0, "a", 1), (P1, "a", 5), (P0, "a", 2), (P0, "b", 3), (P0, "a", 4)]
    ranges = joined(Range(where, offset, offset, kind=kind) for where, kind, offset in given)

    assert [(each.where, each.kind, each.first, each.last) for each in ranges] == [
        (P0, "a", 1, 2),
        (P1, "a", 5, 5),
        (P0, "b", 3, 3),
        (P0, "a", 4, 4),
    ]


def test_each_protocol_has_its_own_settings(tmp_path: Path) -> None:
    """A KIP-848 member gets its session time-out from the brokers; librdkafka rejects one in its settings."""
    classic = member_settings(Played(tmp_path, assignor="range").config)
    assert (classic["session.timeout.ms"], classic["partition.assignment.strategy"]) == (6000, "range")
    (tmp_path / "other").mkdir()
    consumer = member_settings(Played(tmp_path / "other", protocol="consumer", assignor="uniform").config)
    assert "session.timeout.ms" not in consumer
    assert consumer["group.remote.assignor"] == "uniform"


class End(Message):
    """librdkafka's event that a fetch reached the end of a partition."""

    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(partition, offset)
        self.error = lambda: KafkaError(KafkaError._PARTITION_EOF)


def test_a_member_knows_its_position_in_each_partition_that_it_owns(tmp_path: Path) -> None:
    """Positions include transaction markers; they are None before the first fetch and end with the assignment."""
    played = Played(tmp_path)
    played.library.callbacks["on_assign"](None, [At("orders", 0), At("orders", 1)])
    assert played.member.positions() == {"orders-0": None, "orders-1": None}

    played.library.messages = [Message(0, 4), End(0, 6), Message(0, 6)]
    played.member.step()
    assert (played.member.positions(), played.member.polled) == ({"orders-0": 7, "orders-1": None}, 2)
    assert played.read() == [(4, 4), (6, 6)]

    played.library.callbacks["on_lost"](None, [At("orders", 0)])
    played.library.messages = [End(0, 7)]
    played.member.step()
    assert played.member.positions() == {"orders-1": None}


def test_a_member_is_told_of_the_end_of_a_partition(tmp_path: Path) -> None:
    """The member enables ``enable.partition.eof``: its last record alone does not show how far it has read."""
    assert member_settings(Played(tmp_path).config)["enable.partition.eof"] is True
