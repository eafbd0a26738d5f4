"""A consumer of one named replica, whose answers are played."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters import replica_reader
from clusters.replica_reader import ReplicaReader, reader_id
from clusters.wire import Consumed
from history.folder import RunFolder
from history.payload import encode
from history.streams import read_stream
from tests.clusters.fakes import T0, scenario

READ = {"read": {"from": "A of orders-0", "offset": 20}}


def record(offset: int) -> Consumed:
    """As a ``write`` of this project sends it."""
    return Consumed(offset, 3, encode("write-1", offset - 20, 100), sound=offset != 22)


@pytest.fixture
def reader(tmp_path: Path) -> Any:
    """The reader of a scenario's only ``read``."""
    folder = RunFolder(tmp_path)
    (folder.work / "streams").mkdir(parents=True)
    folder.clients.mkdir()
    told = scenario([READ])
    world: Any = SimpleNamespace(folder=folder, scenario=told, partitions=[T0])
    node: Any = SimpleNamespace(address="127.0.0.1")
    step: Any = told.phases[0].steps[0]
    return ReplicaReader(world, node, step)


def test_every_record_becomes_a_poll(reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on behind what it got, over silence and errors, and never back."""
    answers: Any = iter([[record(20), record(21)], OSError("cut"), [], [record(22)]])
    asked: list[int] = []

    def consume(_connection: object, _partition: object, offset: int) -> list[Consumed]:
        asked.append(offset)
        answer = next(answers, None)
        if isinstance(answer, OSError):
            raise answer
        if answer is None:
            reader.stop.set()
        return answer or []

    monkeypatch.setattr(replica_reader, "consume", consume)
    monkeypatch.setattr(replica_reader, "SILENCE_S", 0.0)
    reader.run()

    (batch,) = read_stream(tmp_path / "work" / "streams" / "polls-read-1.arrow")
    seen = ("consumer_id", "pass", "position", "offset", "leader_epoch", "producer_id", "seq", "checksum_ok")
    assert [tuple(row[name] for name in seen) for row in batch.to_pylist()] == [
        ("read-1", "live", 0, 20, 3, "write-1", 0, True),
        ("read-1", "live", 1, 21, 3, "write-1", 1, True),
        ("read-1", "live", 2, 22, 3, "write-1", 2, False),  # its payload is sound, its batch is not
    ]
    assert asked == [20, 22, 22, 22, 23]
    summary = json.loads((tmp_path / "clients" / "read-1.json").read_text())
    assert (summary["role"], summary["clean"], summary["rows"]) == ("consumer", True, 3)


def test_reads_are_counted_through_the_scenario() -> None:
    """Two equal steps are two consumers."""
    told = scenario([READ, {"hold": 1}], [READ])
    reads: Any = [step for phase in told.phases for step in phase.steps if step.key == "read"]

    assert [reader_id(told, step) for step in reads] == ["read-1", "read-2"]
