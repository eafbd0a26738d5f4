"""When a drain is complete, with a reader that does as it is told."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from clusters.clients.drain import drain
from clusters.kafka.wire import EARLIEST
from history.partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LATER = time.monotonic() + 3600


class FakeReader:
    """Yields a record of partition 0 a poll, as many as it was given; a missing end means that no leader answers."""

    def __init__(self, records: int, ends: dict[TopicPartition, int]) -> None:
        self.partitions = [T0, T1]
        self.ends = ends
        self.positions = {T0: 2, T1: 0}
        self.rows = 0
        self.left = records
        self.unreadable: dict[str, str] = {}

    def learn(self) -> None:
        """Nobody new leads."""

    def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int | None]:
        return {each: 0 if timestamp == EARLIEST else self.ends.get(each) for each in partitions}

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def poll(self) -> Iterator[dict[str, Any]]:
        if self.left:
            self.left -= 1
            self.rows += 1
            self.positions[T0] = self.rows
            yield {"n": self.rows}


class Rows(list[Any]):
    """A writer."""

    add = list.append


def drained(reader: FakeReader, deadline: float) -> tuple[dict[str, dict[str, Any]], int]:
    """What was reached, and how many rows were written."""
    rows = Rows()
    return drain(reader, rows, deadline), len(rows)  # type: ignore[arg-type]  # fakes of both


def test_every_partition_at_its_end_is_complete() -> None:
    """All records are read before the ends are asked for; an empty partition is complete at once."""
    reached, rows = drained(FakeReader(3, {T0: 3, T1: 0}), LATER)

    assert rows == 3
    assert reached == {
        "t-0": {"start_offset": 0, "position": 3, "end_offset": 3, "complete": True},
        "t-1": {"start_offset": 0, "position": 0, "end_offset": 0, "complete": True},
    }


def test_one_record_short_is_incomplete() -> None:
    """When the time is over, what stands between position and end was not drained."""
    reached, _ = drained(FakeReader(3, {T0: 4, T1: 0}), time.monotonic())

    assert [reached[name]["complete"] for name in ("t-0", "t-1")] == [False, True]


def test_no_leader_is_incomplete_not_empty() -> None:
    """An end that nobody tells is unknown; it does not hide the other partition."""
    reached, _ = drained(FakeReader(0, {T0: 2}), time.monotonic())

    assert (reached["t-0"]["complete"], reached["t-1"]["end_offset"], reached["t-1"]["complete"]) == (True, None, False)


def test_a_partition_that_can_be_read_no_further_is_not_waited_for() -> None:
    """It is incomplete, and the others end the drain."""
    reader = FakeReader(3, {T0: 4, T1: 0})
    reader.unreadable["t-0"] = "from offset 3 on: EOFError"
    reached, _ = drained(reader, LATER)

    assert [reached[name]["complete"] for name in ("t-0", "t-1")] == [False, True]


def test_leaders_that_do_not_answer_leave_every_partition_named() -> None:
    """The time is over, nobody says anything, and nothing is complete."""
    reached, _ = drained(FakeReader(0, {}), time.monotonic())

    assert [(name, of["end_offset"], of["complete"]) for name, of in reached.items()] == [
        ("t-0", None, False),
        ("t-1", None, False),
    ]
