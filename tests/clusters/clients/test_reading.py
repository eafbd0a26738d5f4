"""A damaged batch ends the reading of its partition only; a read_committed reader skips aborted records."""

from __future__ import annotations

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from kafka.record import MemoryRecordsBuilder

from clusters.clients import reading as module
from clusters.clients.configs import ConsumerConfig
from clusters.clients.leaders import Leaders
from clusters.clients.reading import Place, Reader
from clusters.kafka.fetching import Position
from history.partition import TopicPartition
from history.payload import encode

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GZIP = 1
BROKER, OTHER = 1, 2


def batch(offset: int, compression: int = 0) -> bytes:
    """Return a batch of two records in the project's format."""
    return packed(offset, [encode("load-1", seq, 100) for seq in (offset, offset + 1)], compression)


def packed(offset: int, values: list[bytes], compression: int) -> bytes:
    """Return a batch as a broker stores it."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 20)
    for value in values:
        builder.append(1000, None, value)
    builder.close()
    data = bytearray(builder.buffer())
    struct.pack_into(">q", data, 0, offset)  # outside of the checksum
    return bytes(data)


def damaged(offset: int, compression: int) -> bytes:
    """Return the batch with its first record bytes overwritten: an invalid gzip stream, or a wrong length."""
    data = bytearray(batch(offset, compression))
    data[61:64] = b"\x01\x01\x01"
    return bytes(data)


def reading(isolation: str = "read_uncommitted") -> Reader:
    """Return a reader at the beginning of both partitions, which broker ``BROKER`` leads."""
    reader = Reader.__new__(Reader)
    reader.rows, reader.unreadable, reader.leaders = 0, {}, Leaders()
    reader._config = ConsumerConfig(
        client_id="c", out="", summary="", bootstrap=[], topics={"t": 2}, isolation=isolation
    )
    reader._level = int(isolation == "read_committed")
    reader._places = {T0: Place(0), T1: Place(0)}
    for where in (T0, T1):
        reader.leaders.update(where, BROKER, 0)
    return reader


def rows(reader: Reader, where: TopicPartition, records: bytes, broker: int = BROKER) -> list[dict[str, Any]]:
    """Return the rows that the reader makes of a fetch response at its position."""
    wanted = Position(reader.position(where), 0, -1)
    told = SimpleNamespace(error_code=0, diverging_epoch=None, records=memoryview(records), aborted_transactions=None)
    given = reader._batches(broker, where, wanted, told)
    found = [] if given is None else list(reader._decoded(where, wanted.offset, given, 77))
    return [row for seen in found for row in seen.to_pylist()]


def test_a_record_becomes_a_row() -> None:
    """A row has its offset and its reading order; a record that the project did not write has no producer."""
    reader = reading()
    ours, foreign = rows(reader, T0, packed(4, [encode("load-1", 9, 100), b"hello"], GZIP))

    assert ours == {
        "topic": "t",
        "partition": 0,
        "position": 0,
        "offset": 4,
        "leader_epoch": 0,
        "producer_id": "load-1",
        "seq": 9,
        "checksum_ok": True,
        "received_ns": 77,
    }
    assert (foreign["position"], foreign["offset"], foreign["producer_id"], foreign["seq"]) == (1, 5, None, None)
    assert reader.position(T0) == 6


@pytest.mark.parametrize("compression", [0, GZIP])
@pytest.mark.parametrize("order", [(T0, T1), (T1, T0)])
def test_a_damaged_batch_ends_its_partition_alone(compression: int, order: tuple[TopicPartition, ...]) -> None:
    """A damaged batch ends the reading of its partition; records before it and the other partition are read."""
    given = {T0: batch(0) + damaged(2, compression) + batch(4), T1: batch(0, GZIP)}
    reader = reading()
    found = [row for where in order for row in rows(reader, where, given[where])]
    again = rows(reader, T0, batch(4))

    assert sorted((row["partition"], row["offset"]) for row in found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert again == []
    assert list(reader.unreadable) == ["t-0"]
    assert reader.unreadable["t-0"].startswith("from offset 2 on: ")
    assert reader.position(T0) == 2


def test_a_batch_that_can_be_decoded_is_read_damaged() -> None:
    """A batch with a flipped bit in a value is read, and the record's checksum is not ok."""
    data = bytearray(batch(0))
    data[-2] ^= 1
    reader = reading()

    assert [row["checksum_ok"] for row in rows(reader, T0, bytes(data))] == [True, False]
    assert reader.unreadable == {}


def test_a_batch_that_was_cut_is_read_with_the_next_answer() -> None:
    """A batch cut off at the end of a response is read with the next one; one that never fits is unreadable."""
    reader = reading()
    assert [row["offset"] for row in rows(reader, T0, batch(0) + batch(2)[:-5])] == [0, 1]
    assert (reader.position(T0), reader.unreadable) == (2, {})

    assert rows(reader, T0, batch(2)[:-5]) == []
    assert reader.unreadable == {"t-0": "from offset 2 on: torn tail"}


def test_the_beginning_of_a_batch_is_not_read_again() -> None:
    """Records before the position are skipped: a broker returns the whole batch that contains it."""
    reader = reading()
    reader._places[T0] = Place(1)

    assert [row["offset"] for row in rows(reader, T0, batch(0))] == [1]


class Calls:
    """Connections that are not opened; each keeps its address and whether it was closed."""

    made: ClassVar[list[Calls]] = []

    def __init__(self, host: str, port: int, *_: Any, access: None) -> None:
        self.host, self.port, self.closed = host, port, False
        self.made.append(self)

    def send(self, _request: Any) -> None:
        raise ConnectionRefusedError

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Calls]:
    """Return the connections that are made from now on."""
    monkeypatch.setattr(Calls, "made", [])
    monkeypatch.setattr(module, "Connection", Calls)
    return Calls.made


def calling() -> Reader:
    """A reader that has sent no request yet."""
    reader = reading()
    reader._sessions, reader._fetching, reader._not_before_s, reader._silent_s = {}, {}, {}, {}
    reader._unsure, reader._closed, reader._threads = threading.Event(), threading.Event(), ThreadPoolExecutor()
    reader.leaders.addresses = {BROKER: ("a", 1)}
    return reader


def fetch(reader: Reader) -> None:
    """Send one fetch to the broker and handle its result."""
    reader._fetch(BROKER, [T0])
    assert list(reader._answered(BROKER, reader._fetching.pop(BROKER).result())) == []


def test_a_broker_that_cannot_be_reached_is_called_ever_more_rarely(
    calls: list[Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that cannot be reached is tried at growing intervals."""
    reader, waits, now = calling(), list[float](), 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    for _ in range(7):
        fetch(reader)
        waits.append(round(reader._not_before_s[BROKER] - now, 6))

    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(calls) == 1
    reader._hold_back(BROKER)
    assert reader._not_before_s[BROKER] == now + 0.05  # one that answered with an error


def test_a_broker_that_moved_is_called_where_it_is(calls: list[Calls]) -> None:
    """If a broker's address changes, its connection is closed and a new one is opened; otherwise it is kept."""
    reader = calling()
    fetch(reader)
    fetch(reader)
    assert [(call.host, call.closed) for call in calls] == [("a", False)]

    reader.leaders.addresses = {BROKER: ("b", 1)}
    fetch(reader)
    assert [(call.host, call.closed) for call in calls] == [("a", True), ("b", False)]


def test_what_a_replaced_leader_gives_is_dropped() -> None:
    """A fetch response from a replaced leader is dropped; the same response from the newest leader is used."""
    reader = reading()
    reader.leaders.update(T0, OTHER, 1)

    assert rows(reader, T0, batch(0)) == []
    assert [row["offset"] for row in rows(reader, T0, batch(0), OTHER)] == [0, 1]


def test_a_partition_that_is_read_no_further_has_no_position() -> None:
    """A partition that cannot be read further reports no position."""
    reader = reading()
    reader._places = {T0: Place(5), T1: Place(7, readable=False)}
    assert reader.positions() == {"t-0": 5}
