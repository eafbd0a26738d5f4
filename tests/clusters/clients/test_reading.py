"""A damaged batch ends the reading of its partition, not of the others; with kafka-python's own fetcher."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import CompletedFetch, Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.errors import KafkaTimeoutError
from kafka.record import MemoryRecordsBuilder

from clusters.clients.configs import ConsumerConfig
from clusters.clients.reading import Reader
from history.payload import encode

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GZIP = 1


def batch(offset: int, compression: int = 0) -> bytes:
    """Two records of ours."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 20, offset=offset)
    for seq in (offset, offset + 1):
        builder.append(1000, None, encode("load-1", seq, 100))
    builder.close()
    return bytes(builder.buffer())


def damaged(offset: int, compression: int) -> bytes:
    """The same with the beginning of its records overwritten: a gzip stream that is none, a length that is wrong."""
    data = bytearray(batch(offset, compression))
    data[61:64] = b"\x01\x01\x01"
    return bytes(data)


class Brokers:
    """A consumer that got these bytes from each partition's beginning on."""

    def __init__(self, given: dict[TopicPartition, bytes]) -> None:
        self.subscriptions = SubscriptionState("none")
        self.subscriptions.assign_from_user([T0, T1])
        manager = SimpleNamespace(_net=None, cluster=None, broker_version=None)
        self._fetcher = Fetcher(SimpleNamespace(_manager=manager), self.subscriptions, check_crcs=False)
        self.pause = self.subscriptions.pause
        for partition, data in given.items():
            self.subscriptions.seek(partition, 0)
            answer: dict[str, Any] = {"error_code": 0, "high_watermark": 9, "records": data, "diverging_epoch": None}
            answer |= {"aborted_transactions": None, "preferred_read_replica": -1}
            self._fetcher._completed_fetches.append(CompletedFetch(partition, 0, 11, SimpleNamespace(**answer), None))

    def poll(self, timeout_ms: int) -> Any:
        return self._fetcher.fetched_records()[0]


def reading(consumer: object) -> Reader:
    """A reader of this consumer."""
    reader = Reader.__new__(Reader)
    reader.consumer, reader.rows, reader.unreadable = consumer, 0, {}
    reader._config, reader._pass = ConsumerConfig(client_id="c", out="", summary="", bootstrap=[], topics={}), "live"
    return reader


@pytest.mark.parametrize("compression", [0, GZIP])
@pytest.mark.parametrize("first", [T0, T1])
def test_a_damaged_batch_ends_its_partition_alone(compression: int, first: TopicPartition) -> None:
    """What stands before it is read, and all of the other partition, whichever comes first."""
    given = {T0: batch(0) + damaged(2, compression) + batch(4), T1: batch(0, GZIP)}
    reader = reading(Brokers({first: given[first]} | given))
    rows = [row for _ in range(6) for row in reader.poll()]

    assert sorted((row["partition"], row["offset"]) for row in rows) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert list(reader.unreadable) == ["t-0"]
    assert reader.unreadable["t-0"].startswith("from offset 2 on: ")


def test_a_batch_that_can_be_decoded_is_read_damaged() -> None:
    """A flipped bit in a value is a row whose checksum is not ok."""
    data = bytearray(batch(0))
    data[-2] ^= 1
    reader = reading(Brokers({T0: bytes(data)}))

    assert [row["checksum_ok"] for row in reader.poll()] == [True, False]
    assert reader.unreadable == {}


def test_what_no_batch_explains_is_not_swallowed() -> None:
    """An error that is none of a batch ends the client, as before."""

    class Broken(Brokers):
        def poll(self, timeout_ms: int) -> Any:
            raise error

    for error in (EOFError("no batch was being read"), KafkaTimeoutError("no leader")):
        with pytest.raises(type(error)):
            list(reading(Broken({})).poll())
