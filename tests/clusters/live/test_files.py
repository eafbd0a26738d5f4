"""Servers' files on this host: checkpoints and sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.live import files
from clusters.live.files import Files, read_checkpoints
from clusters.runtimes.nodes import Node
from history.partition import TopicPartition
from tests.clusters.fakes import T0


def checkpoint(file: Path, *entries: str) -> None:
    """Write a checkpoint file as Kafka does: version, count, entries."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")


def test_a_checkpoint_file_is_read_once_for_all_its_replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint file of a broker is read once, not once per replica."""
    read = []

    def read_offsets(file: Path) -> dict[TopicPartition, int]:
        read.append(file)
        return {T0: 5}

    monkeypatch.setattr(files.checkpoints, "read_offsets", read_offsets)
    partitions = [TopicPartition("orders", number) for number in range(100)]
    found = Files().checkpoints(Node("broker-1", "broker", "x", tmp_path), partitions)

    assert len(read) == 3
    assert [found[each]["checkpoint_high_watermark"] for each in partitions[:2]] == [5, None]


def test_a_log_is_as_large_as_its_segments(tmp_path: Path) -> None:
    """The size of a replica's log is that of its segments, without indexes; without a replica it is 0."""
    replica = tmp_path / "data-2" / "orders-0"
    replica.mkdir(parents=True)
    for name, size in (("00.log", 30), ("30.log", 12), ("00.index", 500)):
        (replica / name).write_bytes(bytes(size))
    node = Node("broker-1", "broker", "x", tmp_path, log_dir_count=2)

    assert [Files().log_bytes(node, each) for each in (T0, TopicPartition("orders", 1))] == [42, 0]


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
