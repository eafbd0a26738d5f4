"""Fetch requests, in bytes, and their responses."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import google_crc32c
import pytest
from kafka.errors import CorruptRecordError

from clusters.kafka.fetching import FetchSession, Position, consume, fetch_request, preferred_replica
from clusters.kafka.probe import BEYOND_ANY_LOG
from clusters.kafka.producing import record_batch
from history.partition import TopicPartition

T0 = TopicPartition("t", 0)


def test_divergence_fetch_in_bytes() -> None:
    """The divergence request is Fetch v12 as a consumer, without a session, at offset 2^62, with the given epoch."""
    request = fetch_request(12, {T0: Position(BEYOND_ANY_LOG, 3, 2)})

    assert bytes(request.encode()).hex(" ") == (
        "ff ff ff ff  00 00 00 00  00 00 00 00  00 00 00 01  00  00 00 00 00  ff ff ff ff "  # replica … session epoch
        "02 02 74 02  00 00 00 00  00 00 00 03  40 00 00 00 00 00 00 00  00 00 00 02 "  # t-0, epoch 3, 2^62, epoch 2
        "ff ff ff ff ff ff ff ff  00 00 00 01  00  00  01  01  00"  # log start, max bytes, tags, forgotten, rack, tags
    ).replace("  ", " ")


def test_plain_fetch_in_bytes() -> None:
    """The plain request is Fetch v11 at the log end offset, so that the response has offsets but no records."""
    request = fetch_request(11, {T0: Position(7, 3)})

    assert bytes(request.encode()).hex(" ") == (
        "ff ff ff ff  00 00 00 00  00 00 00 00  00 00 00 01  00  00 00 00 00  ff ff ff ff "
        "00 00 00 01 00 01 74  00 00 00 01  00 00 00 00  00 00 00 03  00 00 00 00 00 00 00 07 "
        "ff ff ff ff ff ff ff ff  00 00 00 01  00 00 00 00  00 00"
    ).replace("  ", " ")


def test_records_are_consumed_in_bytes() -> None:
    """``consume`` sends Fetch v11 as a consumer without waiting, which any replica in this epoch answers."""
    asked: list[str] = []
    batch = record_batch([b"a", b"b"], 1000)

    def send(request: Any) -> Any:
        asked.append(bytes(request.encode()).hex(" "))
        answer = SimpleNamespace(partition_index=0, error_code=0, records=batch)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(topic="t", partitions=[answer])])

    broker: Any = SimpleNamespace(send=send)
    given, error = consume(broker, T0, 1, 3)

    assert error is None
    assert given == [(1, 0, b"b", True)]  # the response has the whole batch; records before the offset are dropped
    assert asked == [
        "ff ff ff ff  00 00 00 00  00 00 00 00  00 10 00 00  00  00 00 00 00  ff ff ff ff "
        "00 00 00 01 00 01 74  00 00 00 01  00 00 00 00  00 00 00 03  00 00 00 00 00 00 00 01 "
        "ff ff ff ff ff ff ff ff  00 10 00 00  00 00 00 00  00 00".replace("  ", " ")
    ]


@pytest.mark.parametrize(("told", "preferred"), [(2, 2), (-1, None)])
def test_a_leader_names_the_replica_of_a_rack(told: int, preferred: int | None) -> None:
    """The Fetch request for a preferred replica ends with the rack (KIP-392); -1 means the leader."""
    asked: list[str] = []

    def send(request: Any) -> Any:
        asked.append(bytes(request.encode()).hex(" "))
        answer = SimpleNamespace(partition_index=0, error_code=0, records=None, preferred_read_replica=told)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(topic="t", partitions=[answer])])

    broker: Any = SimpleNamespace(send=send)

    assert preferred_replica(broker, T0, 1, "east") == (preferred, None)
    assert asked[0].endswith("ff ff ff ff ff ff ff ff 00 10 00 00 00 00 00 00 00 04 65 61 73 74")


def answering(records: bytes | None, error_code: int = 0) -> Any:
    """Return a broker that sends this record data to a consumer."""
    answer = SimpleNamespace(partition_index=0, error_code=error_code, records=records)
    reply = SimpleNamespace(error_code=0, responses=[SimpleNamespace(topic="t", partitions=[answer])])
    return SimpleNamespace(send=lambda _: reply)


class FetchedFrom:
    """A broker that answers fetches with these sessions and errors in turn, and keeps the requests."""

    def __init__(self, *answers: tuple[int, int]) -> None:
        self.answers, self.asked = list(answers), []

    def send(self, request: Any) -> Any:
        session, error = self.answers.pop(0)
        listed = {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}
        forgotten = [part for topic in request.forgotten_topics_data for part in topic.partitions]
        self.asked.append(((request.session_id, request.session_epoch), listed, forgotten))
        return SimpleNamespace(error_code=error, session_id=session, responses=[])


def wanted(**offsets: int) -> dict[TopicPartition, Position]:
    """Return fetch positions from ``t<partition>=offset``."""
    return {TopicPartition("t", int(name[1:])): Position(offset, 5, -1) for name, offset in offsets.items()}


def test_a_fetch_session_asks_for_what_changed() -> None:
    """A fetch session sends all partitions first, then only moved or new partitions, and those to forget."""
    broker: Any = FetchedFrom((7, 0), (7, 0), (7, 0))
    session = FetchSession(broker)
    for places in (wanted(t0=0, t1=0), wanted(t0=4, t1=0), wanted(t0=4, t2=0)):
        session.fetch(places, 0, 100)

    assert broker.asked == [((0, 0), {0: 0, 1: 0}, []), ((7, 1), {0: 4}, []), ((7, 2), {2: 0}, [1])]


@pytest.mark.parametrize("answers", [[(0, 0), (0, 0)], [(7, 0), (0, 71), (8, 0)]])
def test_without_a_session_all_is_asked_for(answers: list[tuple[int, int]]) -> None:
    """Without a session, or after a session error, the next fetch sends all partitions again."""
    broker: Any = FetchedFrom(*answers)
    session = FetchSession(broker)
    for _ in answers:
        with suppress(OSError):
            session.fetch(wanted(t0=0), 0, 100)

    assert broker.asked[0] == broker.asked[-1] == ((0, 0), {0: 0}, [])


def test_an_offset_that_is_gone_gives_nothing() -> None:
    """An offset out of range yields no records and the error's name, as while a follower truncates its log."""
    assert consume(answering(None, error_code=1), T0, 7, 3) == ([], "OFFSET_OUT_OF_RANGE")


@pytest.mark.parametrize(("attributes", "given"), [(0x30, []), (0x10, [b"a"])])
def test_the_end_of_a_transaction_is_no_record(attributes: int, given: list[bytes]) -> None:
    """Control batches are dropped; records within a transaction are not."""
    batch = bytearray(record_batch([b"a"], 1000))
    batch[21:23] = attributes.to_bytes(2, "big")
    batch[17:21] = google_crc32c.value(bytes(batch[21:])).to_bytes(4, "big")

    assert [record.value for record in consume(answering(bytes(batch)), T0, 0, 3)[0]] == given


def test_a_batch_that_was_damaged_says_so() -> None:
    """Every record of a batch with a wrong checksum is marked as damaged."""
    batch = bytearray(record_batch([b"a", b"b"], 1000))
    batch[-2] ^= 1

    assert [record.sound for record in consume(answering(bytes(batch)), T0, 0, 3)[0]] == [False, False]


def test_a_batch_that_cannot_be_decoded_is_no_silence() -> None:
    """A batch that cannot be decoded raises CorruptRecordError; an OSError would look like a broken connection."""
    batch = bytearray(record_batch([b"a", b"b"], 1000))
    batch[22] |= 1  # gzip

    with pytest.raises(CorruptRecordError, match="from offset 7 on: BadGzipFile"):
        consume(answering(bytes(batch)), T0, 7, 3)
