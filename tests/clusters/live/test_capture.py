"""Captures of replicas."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from clusters.kafka.probe import ReplicaSample
from clusters.live import capture
from clusters.live.capture import capture_offsets
from clusters.live.files import Files
from clusters.runtimes.nodes import Node
from history.events import EventLog, read_events
from history.folder import RunFolder
from history.partition import TopicPartition

T0 = TopicPartition("orders", 0)


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """Two brokers with one partition; connections are the brokers' numbers."""
    folder = RunFolder(tmp_path)
    brokers = {n: Node(f"broker-{n}", "broker", "x", tmp_path / f"b{n}", node_id=n) for n in (1, 2)}
    made = SimpleNamespace(
        folder=folder,
        events=EventLog(folder.events),
        partitions=[T0],
        servers=SimpleNamespace(brokers=brokers, files=Files()),
        reports=SimpleNamespace(connection=lambda number: number),
        partitions_of=lambda _: made.partitions,
        incarnation=lambda node: node.node_id + 1,
    )
    return made


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
    data = world.servers.brokers[2].folder / "data"
    data.mkdir(parents=True)
    (data / "replication-offset-checkpoint").write_text("0\n2\norders 1 7\norders 0 9\n")
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


@pytest.mark.parametrize("count", [1, 100])
def test_a_capture_without_files_has_no_checkpoints(world: Any, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Where servers' files cannot be read, the checkpoint columns are null; the event lists the first replicas."""
    monkeypatch.setattr(capture, "probe_all", lambda _, partitions: [ReplicaSample(*each, 5, 6) for each in partitions])
    world.partitions = [TopicPartition("orders", number) for number in range(count)]
    world.servers.files = None
    capture_offsets(world, "after")

    (file,) = world.folder.table("offsets").iterdir()
    table = pq.read_table(file)
    assert {table[name].null_count for name in table.schema.names if name.startswith("checkpoint_")} == {2 * count}
    (event,) = read_events(world.folder.events)
    assert (len(event.detail["replicas"]), event.detail["count"]) == (min(2 * count, capture.MOST_TOLD), 2 * count)
