"""Captures of replicas."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from clusters.kafka.probe import ReplicaSample
from clusters.live import capture
from clusters.live.capture import capture_offsets, read_checkpoints
from clusters.runtimes.nodes import Node
from history.events import EventLog, read_events
from history.folder import RunFolder
from history.partition import TopicPartition

T0 = TopicPartition("orders", 0)


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """Two brokers with one partition; connections are the brokers' numbers."""
    folder = RunFolder(tmp_path)
    made = SimpleNamespace(
        folder=folder,
        events=EventLog(folder.events),
        partitions=[T0],
        brokers={n: Node(f"broker-{n}", "broker", "x", tmp_path / f"b{n}", "java", ()) for n in (1, 2)},
        partitions_of=lambda _: made.partitions,
        connection=lambda number: number,
        incarnation=lambda number: number + 1,
    )
    return made


def checkpoint(file: Path, *entries: str) -> None:
    """Write a checkpoint file as Kafka does: version, count, entries."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")


def test_a_silent_broker_is_asked_once(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer is probed once, and its error applies to all its replicas."""
    asked = []

    def probe_all(number: int, partitions: list[TopicPartition]) -> list[ReplicaSample]:
        asked.append((number, len(partitions)))
        raise TimeoutError if number == 2 else ConnectionRefusedError

    monkeypatch.setattr(capture, "probe_all", probe_all)
    world.partitions = [T0, TopicPartition("orders", 1)]
    capture_offsets(world, "paused")

    (file,) = world.folder.table("offsets").iterdir()
    rows = [(row["broker_id"], row["partition"], row["error"]) for row in pq.read_table(file).to_pylist()]
    assert sorted(rows) == [(1, 0, "unreachable"), (1, 1, "unreachable"), (2, 0, "timeout"), (2, 1, "timeout")]
    assert sorted(asked) == [(1, 2), (2, 2)]


def test_a_capture_has_a_row_per_replica(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture has a row per replica; a broker that does not answer has its error and its checkpoint."""

    def probe_all(number: int, partitions: list[TopicPartition]) -> list[ReplicaSample]:
        if number == 2:
            raise TimeoutError
        return [ReplicaSample(*each, 5, 6, leader_epoch=3, high_watermark=10, log_end_offset=12) for each in partitions]

    monkeypatch.setattr(capture, "probe_all", probe_all)
    checkpoint(world.brokers[2].folder / "data" / "replication-offset-checkpoint", "orders 1 7", "orders 0 9")
    capture_offsets(world, "Leader dies")

    (file,) = world.folder.table("offsets").iterdir()
    seen = (
        "capture",
        "broker_id",
        "incarnation",
        "high_watermark",
        "log_end_offset",
        "error",
        "checkpoint_high_watermark",
    )
    rows = [tuple(row[name] for name in seen) for row in pq.read_table(file).to_pylist()]
    assert rows == [("Leader dies", 1, 2, 10, 12, None, None), ("Leader dies", 2, 3, None, None, "timeout", 9)]
    assert [event.target for event in read_events(world.folder.events)] == ["Leader dies"]


def test_no_capture_overwrites_another(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures with the same label are kept apart, and their files sort by time."""
    monkeypatch.setattr(capture, "probe_all", lambda _, partitions: [ReplicaSample(*each, 5, 6) for each in partitions])
    for label in ("before", "one: kill active", "one: kill active", "after"):
        capture_offsets(world, label)

    files = sorted(world.folder.table("offsets").iterdir())
    labels = [pq.read_table(file)["capture"][0].as_py() for file in files]
    assert labels == ["before", "one: kill active", "one: kill active", "after"]


def test_a_checkpoint_file_is_read_once_for_all_its_replicas(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint file is read once per broker, not once per replica."""
    read = []

    def read_offsets(file: Path) -> dict[TopicPartition, int]:
        read.append(file)
        return {T0: 5}

    monkeypatch.setattr(capture, "probe_all", lambda _, partitions: [ReplicaSample(*each, 5, 6) for each in partitions])
    monkeypatch.setattr(capture.checkpoints, "read_offsets", read_offsets)
    world.partitions = [TopicPartition("orders", number) for number in range(100)]
    capture_offsets(world, "after")

    assert len(read) == 2 * 3  # two brokers with three files each
    (event,) = read_events(world.folder.events)
    assert (len(event.detail["replicas"]), event.detail["count"]) == (capture.MOST_TOLD, 200)


def test_checkpoints_are_read_by_topic_and_partition(tmp_path: Path) -> None:
    """Checkpoint values are those of the partition; of the epochs, the last one counts."""
    checkpoint(tmp_path / "replication-offset-checkpoint", "orders 10 1", "orders 0 42", "sales 0 2")
    checkpoint(tmp_path / "recovery-point-offset-checkpoint", "orders 0 40")
    checkpoint(tmp_path / "orders-0" / "leader-epoch-checkpoint", "0 0", "3 17")

    assert read_checkpoints(tmp_path, T0) == {
        "checkpoint_high_watermark": 42,
        "checkpoint_log_start_offset": None,
        "checkpoint_recovery_point": 40,
        "checkpoint_leader_epoch": 3,
        "checkpoint_epoch_start_offset": 17,
    }


def test_no_files_are_no_values(tmp_path: Path) -> None:
    """Without checkpoint files all values are None."""
    assert set(read_checkpoints(tmp_path, T0).values()) == {None}
