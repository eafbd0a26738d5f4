"""Captures of replicas, and direct writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from clusters import capture
from clusters.capture import capture_offsets, direct_producer_id, read_checkpoints, write_directly
from clusters.partition import TopicPartition
from clusters.scenario import Scenario
from clusters.story.flow import Write
from clusters.wire import Produced, ReplicaSample
from history.events import EventLog, read_events
from history.folder import RunFolder
from history.streams import read_stream

T0 = TopicPartition("orders", 0)
WRITE = {"to": "A", "topic": "orders", "records": 3}


def scenario(*writes: dict[str, Any]) -> Scenario:
    """A scenario with some writes, one phase each."""
    return Scenario.model_validate(
        {
            "name": "s",
            "why": "w",
            "cluster": {"brokers": 2},
            "topics": {"orders": {"replicas": ["A", "B"]}},
            "phases": [{f"phase {n}": [{"hold": 1}, {"write": write}]} for n, write in enumerate(writes)],
        }
    )


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """A world of two brokers with one partition; connections are the brokers' numbers."""
    folder = RunFolder(tmp_path)
    (folder.work / "streams").mkdir(parents=True)
    folder.clients.mkdir()
    return SimpleNamespace(
        folder=folder,
        events=EventLog(folder.events),
        scenario=scenario(WRITE),
        partitions=[T0],
        brokers={n: SimpleNamespace(name=f"broker-{n}", folder=tmp_path / f"b{n}", address="x") for n in (1, 2)},
        replicas=lambda _: [1, 2],
        connection=lambda number: number,
        incarnation=lambda number: number + 1,
    )


def checkpoint(file: Path, *entries: str) -> None:
    """Write a checkpoint file as Kafka does: version, count, entries."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")


def test_a_silent_broker_is_asked_once(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One time-out stands for all its replicas; one that refuses at once is asked for each."""
    asked = []

    def probe(number: int, topic: str, partition: int) -> ReplicaSample:
        asked.append((number, partition))
        raise TimeoutError if number == 2 else ConnectionRefusedError

    monkeypatch.setattr(capture, "probe", probe)
    world.partitions = [T0, TopicPartition("orders", 1)]
    capture_offsets(world, "frozen")

    (file,) = world.folder.table("offsets").iterdir()
    rows = [(row["broker_id"], row["partition"], row["error"]) for row in pq.read_table(file).to_pylist()]
    assert sorted(rows) == [(1, 0, "unreachable"), (1, 1, "unreachable"), (2, 0, "timeout"), (2, 1, "timeout")]
    assert sorted(asked) == [(1, 0), (1, 1), (2, 0)]


def test_a_capture_has_a_row_per_replica(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer has its error, and its checkpoint is read all the same."""

    def probe(number: int, topic: str, partition: int) -> ReplicaSample:
        if number == 2:
            raise TimeoutError
        return ReplicaSample(topic, partition, 5, 6, leader_epoch=3, high_watermark=10, log_end_offset=12)

    monkeypatch.setattr(capture, "probe", probe)
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
    """Not one of the same label, as of a fault that is injected twice; files sort as they were made."""
    monkeypatch.setattr(capture, "probe", lambda _, *partition: ReplicaSample(*partition, 5, 6))
    for label in ("before", "one: kill in force", "one: kill in force", "after"):
        capture_offsets(world, label)

    files = sorted(world.folder.table("offsets").iterdir())
    labels = [pq.read_table(file)["capture"][0].as_py() for file in files]
    assert labels == ["before", "one: kill in force", "one: kill in force", "after"]


def test_checkpoints_are_read_by_topic_and_partition(tmp_path: Path) -> None:
    """The last epoch counts; another partition's line does not."""
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
    """As before the first checkpoint of a broker."""
    assert set(read_checkpoints(tmp_path, T0).values()) == {None}


@pytest.mark.parametrize(
    ("acks", "rows", "acked"),
    [
        ("1", [("ok", None, 7), ("info", "REQUEST_TIMED_OUT", None), ("fail", "never_sent", None)], 1),
        (
            "0",
            [("info", "no_acknowledgement", 7), ("info", "REQUEST_TIMED_OUT", None), ("fail", "never_sent", None)],
            0,
        ),
    ],
)
def test_every_direct_write_stands_in_the_ledger(
    world: Any, monkeypatch: pytest.MonkeyPatch, acks: str, rows: list[Any], acked: int
) -> None:
    """With the producers' own outcomes: without acknowledgement nobody knows."""
    answers = [
        Produced(1, 2, 7, None),
        Produced(3, 4, None, "REQUEST_TIMED_OUT"),
        Produced(None, None, None, "never_sent"),
    ]
    monkeypatch.setattr(capture, "produce", lambda *_, **__: answers)
    world.scenario = scenario({**WRITE, "acks": acks})
    step: Any = world.scenario.phases[0].steps[1]
    write_directly(world, world.brokers[1], step, "phase 0", lambda: True)

    ledger = [
        row for batch in read_stream(world.folder.work / "streams" / "sends-write-1.arrow") for row in batch.to_pylist()
    ]
    assert [(row["outcome"], row["error"], row["offset"]) for row in ledger] == rows
    assert [row["seq"] for row in ledger] == [0, 1, 2]
    assert {(row["producer_id"], row["acks"], row["record_bytes"]) for row in ledger} == {("write-1", acks, 100)}
    (event,) = read_events(world.folder.events)
    assert event.detail == {"acked": acked, "sent": 3}
    assert '"last_seq": 2' in (world.folder.clients / "write-1.json").read_text()


def test_records_of_a_batch_share_its_answer(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand one after the other from its base offset; the last batch holds what is left."""
    sent: list[int] = []

    def answer(
        _connection: object, _topic: str, _partition: int, batches: Any, _acks: str, **_: object
    ) -> list[Produced]:
        sent.extend(len(batch) for batch in batches)
        return [Produced(1, 2, 7, None), Produced(3, 4, None, "REQUEST_TIMED_OUT")]

    monkeypatch.setattr(capture, "produce", answer)
    world.scenario = scenario({**WRITE, "batch": 2})
    step: Any = world.scenario.phases[0].steps[1]
    write_directly(world, world.brokers[1], step, "phase 0", lambda: True)

    ledger = [
        row for batch in read_stream(world.folder.work / "streams" / "sends-write-1.arrow") for row in batch.to_pylist()
    ]
    assert sent == [2, 1]
    assert [(row["seq"], row["outcome"], row["offset"]) for row in ledger] == [
        (0, "ok", 7),
        (1, "ok", 8),
        (2, "info", None),
    ]


def test_direct_writes_are_counted_through_the_scenario() -> None:
    """Two equal steps are two producers."""
    told = scenario(WRITE, WRITE, {**WRITE, "records": 5})
    writes = [step for phase in told.phases for step in phase.steps if isinstance(step, Write)]

    assert [direct_producer_id(told, step) for step in writes] == ["write-1", "write-2", "write-3"]


def test_what_was_answered_stands_in_the_ledger_before_the_end(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is ended in the middle of a write loses no acknowledgement."""

    def broken_off(*_: object, **__: object) -> Iterator[Produced]:
        yield Produced(1, 2, 7, None)
        raise KeyboardInterrupt

    monkeypatch.setattr(capture, "produce", broken_off)
    step: Any = world.scenario.phases[0].steps[1]
    with pytest.raises(KeyboardInterrupt):
        write_directly(world, world.brokers[1], step, "phase 0", lambda: True)

    (batch,) = read_stream(world.folder.work / "streams" / "sends-write-1.arrow")
    assert [(row["seq"], row["outcome"], row["offset"]) for row in batch.to_pylist()] == [(0, "ok", 7)]
