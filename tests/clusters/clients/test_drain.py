"""When a drain is complete, with a scripted reader."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from clusters.clients.drain import drain
from clusters.kafka.offsets import EARLIEST
from history.partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LATER = time.monotonic() + 3600


class FakeReader:
    """Yields one record of partition 0 per poll; ``ends`` lacks a partition if no leader answers."""

    def __init__(self, records: int, ends: dict[TopicPartition, int]) -> None:
        self.partitions = [T0, T1]
        self.ends = ends
        self.positions = {T0: 2, T1: 0}
        self.rows = 0
        self.left = records
        self.unreadable: dict[str, str] = {}

    def learn(self) -> None:
        """Leaders do not change."""

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
    """A writer that keeps its rows."""

    add = list.append


def drained(reader: FakeReader, deadline: float) -> tuple[dict[str, dict[str, Any]], int]:
    """Run the drain; return the reached positions and the number of rows written."""
    rows = Rows()
    return drain(reader, rows, deadline), len(rows)  # type: ignore[arg-type]  # fakes of both


def test_every_partition_at_its_end_is_complete() -> None:
    """A drain is complete if every partition is read to its end; an empty partition is complete at once."""
    reached, rows = drained(FakeReader(3, {T0: 3, T1: 0}), LATER)

    assert rows == 3
    assert reached == {
        "t-0": {"start_offset": 0, "position": 3, "end_offset": 3, "complete": True},
        "t-1": {"start_offset": 0, "position": 0, "end_offset": 0, "complete": True},
    }


def test_one_record_short_is_incomplete() -> None:
    """A drain that reaches its deadline one record short is incomplete for that partition only."""
    reached, _ = drained(FakeReader(3, {T0: 4, T1: 0}), time.monotonic())

    assert [reached[name]["complete"] for name in ("t-0", "t-1")] == [False, True]


def test_no_leader_is_incomplete_not_empty() -> None:
    """A partition whose end is unknown is incomplete, and does not keep the other partition from being complete."""
    reached, _ = drained(FakeReader(0, {T0: 2}), time.monotonic())

    assert (reached["t-0"]["complete"], reached["t-1"]["end_offset"], reached["t-1"]["complete"]) == (True, None, False)


def test_a_partition_that_can_be_read_no_further_is_not_waited_for() -> None:
    """A partition that cannot be read further is incomplete, and the drain ends once the others are at their ends."""
    reader = FakeReader(3, {T0: 4, T1: 0})
    reader.unreadable["t-0"] = "from offset 3 on: EOFError"
    reached, _ = drained(reader, LATER)

    assert [reached[name]["complete"] for name in ("t-0", "t-1")] == [False, True]


def test_leaders_that_do_not_answer_leave_every_partition_named() -> None:
    """If no leader answers before the deadline, every partition is reported as incomplete with an unknown end."""
    reached, _ = drained(FakeReader(0, {}), time.monotonic())

    assert [(name, of["end_offset"], of["complete"]) for name, of in reached.items()] == [
        ("t-0", None, False),
        ("t-1", None, False),
    ]
