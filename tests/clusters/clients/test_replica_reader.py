"""A consumer of one named replica, with scripted responses."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import CorruptRecordError

from clusters.clients import replica_reader
from clusters.clients.replica_reader import ReplicaReader
from clusters.kafka.fetching import Consumed
from clusters.kafka.offsets import ListedOffset
from history.folder import RunFolder
from history.payload import encode
from history.streams import read_stream
from tests.clusters.fakes import T0, scenario

READ = {"read": {"from": "A of orders-0", "offset": 20}}


def record(offset: int) -> Consumed:
    """Return a record as a ``write`` step sends it."""
    return Consumed(offset, 3, encode("write-1", offset - 20, 100), sound=offset != 22)


@pytest.fixture
def reader(tmp_path: Path) -> Any:
    """Return the reader of a scenario's only ``read`` step."""
    folder = RunFolder(tmp_path)
    (folder.work / "streams").mkdir(parents=True)
    folder.clients.mkdir()
    told = scenario([READ])
    world: Any = SimpleNamespace(
        folder=folder,
        scenario=told,
        plan=SimpleNamespace(id_prefix=""),
        partitions=[T0],
        reports=SimpleNamespace(connect=lambda node, *_, **__: nullcontext(node)),
        servers=SimpleNamespace(node=lambda number: SimpleNamespace(name=f"broker-{number}")),
    )
    node: Any = SimpleNamespace(name="broker-1")
    step: Any = told.phases[0].steps[0]
    return ReplicaReader(world, node, step)


def play(
    reader: Any,
    monkeypatch: pytest.MonkeyPatch,
    *answers: Any,
    of_broker: tuple[int | None, ...] = (3,),
    epochs: list[int] | None = None,
) -> list[int]:
    """Script these answers and stop the reader with the last; return the offsets that it fetches.

    ``of_broker``: the broker's answers to ListOffsets, as epochs; ``epochs`` collects the epochs of the fetches.
    """
    learned, epochs = list(of_broker), [] if epochs is None else epochs
    left, asked = list(answers), []

    def consume(_node: object, _partition: object, offset: int, epoch: int) -> Any:
        asked.append(offset)
        epochs.append(epoch)
        answer = left.pop(0)
        if not left:
            reader.stop.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(replica_reader, "consume", consume)
    monkeypatch.setattr(replica_reader, "list_offset", lambda *_: ListedOffset(20, learned.pop(0), None))
    return asked


def test_every_record_becomes_a_poll(reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record becomes a row; the reader continues after the last offset through time-outs and errors."""
    asked = play(
        reader,
        monkeypatch,
        ([record(20), record(21)], None),
        ConnectionResetError("disconnect"),
        ([], "OFFSET_OUT_OF_RANGE"),
        ([record(22)], None),
        ([], None),
    )
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
    assert (summary["role"], summary["clean"], summary["rows"], summary["answers"]) == ("consumer", True, 3, 3)
    assert summary["errors"] == {"unreachable": 1, "OFFSET_OUT_OF_RANGE": 1}
    assert summary["unreadable"] == {}
    assert (summary["replica"], summary["position"]) == ("broker-1", 23)


@pytest.mark.parametrize(("preferred", "replica"), [(3, "broker-3"), (None, "broker-1")])
def test_with_a_rack_it_reads_where_the_leader_sends_it(
    reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preferred: int | None, replica: str
) -> None:
    """With a rack, the reader uses the leader's preferred replica, or the leader itself if there is none."""
    monkeypatch.setattr(reader, "_rack", "east")
    monkeypatch.setattr(reader.stop, "wait", lambda _: None)
    told = [ConnectionResetError(), (None, "NOT_LEADER_OR_FOLLOWER"), (preferred, None)]

    def preferred_replica(node: Any, partition: object, offset: int, rack: str) -> Any:
        assert (node.name, partition, offset, rack) == ("broker-1", T0, 20, "east")
        answer = told.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(replica_reader, "preferred_replica", preferred_replica)
    play(reader, monkeypatch, ([record(20)], None))
    reader.run()

    summary = json.loads((tmp_path / "clients" / "read-1.json").read_text())
    assert (summary["replica"], summary["rows"], summary["position"]) == (replica, 1, 21)
    assert summary["errors"] == {"unreachable": 1, "NOT_LEADER_OR_FOLLOWER": 1}


def test_between_errors_it_waits(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader waits after errors, longer after silence, and does not wait after an answer."""
    waits: list[float] = []
    monkeypatch.setattr(reader.stop, "wait", waits.append)
    play(reader, monkeypatch, TimeoutError(), ([], "NOT_LEADER_OR_FOLLOWER"), ([], None))
    reader.run()

    assert waits == [replica_reader.SILENCE_S, replica_reader.ERROR_S]


def test_it_goes_back_to_no_older_epoch(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fenced reader learns the newer epoch and keeps it, even if the broker returns with an older one."""
    epochs: list[int] = []
    answers = ([record(20)], None), ([], "FENCED_LEADER_EPOCH"), ([], "UNKNOWN_LEADER_EPOCH"), ([record(21)], None)
    offsets = play(reader, monkeypatch, (ConnectionResetError()), *answers, of_broker=(None, 3, 4), epochs=epochs)
    reader.run()

    assert offsets == [20, 20, 21, 21, 21]
    assert epochs == [-1, 3, 3, 4, 4]


def test_a_batch_that_cannot_be_decoded_ends_the_reading(
    reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that cannot be decoded ends the reading; earlier rows are kept, and the summary has the offset."""
    asked = play(reader, monkeypatch, ([record(20)], None), CorruptRecordError("from offset 21 on: EOFError"))
    reader.run()

    assert asked == [20, 21]
    summary = json.loads((tmp_path / "clients" / "read-1.json").read_text())
    assert (summary["rows"], summary["clean"]) == (1, True)
    assert summary["unreadable"] == {"orders-0": "from offset 21 on: EOFError"}


def test_reads_are_counted_through_the_scenario() -> None:
    """Equal read steps have different consumer ids, numbered through the scenario."""
    told = scenario([READ, {"hold": 1}], [READ])

    assert [told.id_of(step) for step in told.steps if step.key == "read"] == ["read-1", "read-2"]
