"""Fetch as a consumer: sessions, single records and batches (Fetch v11 and v12)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from gzip import BadGzipFile
from typing import Any, NamedTuple

import kafka.errors
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

from clusters.kafka.connection import NOT_AUTHORIZED, Connection, about, by_topic, error_name, known
from history.errors import Refused
from history.partition import TopicPartition

CONSUMER = -1
OFFSET_OUT_OF_RANGE = 1
FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"  # the broker has a newer epoch
CONSUMED_BYTES = 1 << 20
FETCHED_PARTITION_BYTES, FETCHED_BYTES = 1 << 20, 1 << 25  # a consumer's default; more exceeds the cache
_MOST_EPOCHS = 2**31 - 1  # after a fetch session's last epoch follows 1
# kafka-python's errors for a damaged batch; an invalid gzip stream is an OSError.
UNDECODABLE = (
    *(kafka.errors.CorruptRecordError, kafka.errors.UnsupportedCodecError),
    *(zlib.error, BadGzipFile, EOFError, struct.error),
)


class Position(NamedTuple):
    """Where to fetch from; ``last_epoch`` is that of the batch before (-1: none)."""

    offset: int
    leader_epoch: int
    last_epoch: int = -1


def fetch_request(
    version: int, positions: Mapping[TopicPartition, Position], partition_bytes: int = 1, **settings: Any
) -> Any:
    """Build a Fetch without a session; Fetch v11 ignores ``last_epoch``."""
    topics = [
        FetchRequest.FetchTopic(
            topic=topic, partitions=[_partition(replica, positions[replica], partition_bytes) for replica in replicas]
        )
        for topic, replicas in by_topic(positions)
    ]
    fields = {
        "replica_id": CONSUMER,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": partition_bytes,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return FetchRequest[version](topics=topics, **(fields | settings))


def _partition(replica: TopicPartition, position: Position, max_bytes: int) -> Any:
    return FetchRequest.FetchTopic.FetchPartition(
        partition=replica.partition,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=-1,
        partition_max_bytes=max_bytes,
    )


def fetched(reply: Any) -> dict[TopicPartition, Any]:
    """Return a fetch's answers by partition, or raise ConnectionAbortedError."""
    if reply.error_code:
        raise ConnectionAbortedError(f"the broker rejected the whole fetch: {error_name(reply.error_code)}")
    return {
        TopicPartition(topic.topic, answer.partition_index): answer
        for topic in reply.responses
        for answer in topic.partitions
    }


class FetchSession:
    """Fetch as a consumer in an incremental session (KIP-227): idle partitions cost nothing."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._end()

    def _end(self) -> None:
        self._number = self._epoch = 0
        self._fetched: Mapping[TopicPartition, Position] = {}

    def fetch(
        self, positions: Mapping[TopicPartition, Position], isolation_level: int, max_wait_ms: int
    ) -> dict[TopicPartition, Any]:
        """Fetch from led partitions (Fetch v12); return those with news, such as a truncated log (KIP-320, KIP-595).

        After an OSError the next fetch starts a new session.
        """
        request = fetch_request(
            12,
            {where: at for where, at in positions.items() if self._fetched.get(where) != at},
            FETCHED_PARTITION_BYTES,
            max_bytes=FETCHED_BYTES,
            isolation_level=isolation_level,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self._number,
            session_epoch=self._epoch,
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=topic, partitions=[each.partition for each in partitions])
                for topic, partitions in by_topic(self._fetched.keys() - positions.keys())
            ],
        )
        epoch = self._epoch % _MOST_EPOCHS + 1
        self._end()
        reply = self.connection.send(request)
        answers = fetched(reply)
        if reply.session_id:
            self._number, self._epoch, self._fetched = reply.session_id, epoch, positions
        return answers


class Consumed(NamedTuple):
    """A consumed record; ``sound`` if its batch matches its CRC-32C."""

    offset: int
    leader_epoch: int
    value: bytes
    sound: bool


def consume(
    connection: Connection, replica: TopicPartition, offset: int, leader_epoch: int
) -> tuple[list[Consumed], str | None]:
    """Return a leader's or follower's records from an offset on (KIP-392), and the partition's error.

    The broker must be in the given leader epoch (KIP-320). With an error there are no records. Transaction markers are
    skipped.

    Raises:
        CorruptRecordError: a batch cannot be decoded.
    """
    answer = _fetch_one(connection, replica, Position(offset, leader_epoch), CONSUMED_BYTES)
    try:
        return list(_records(answer.records or b"", offset)), error_name(answer.error_code)
    except UNDECODABLE as error:
        raise kafka.errors.CorruptRecordError(f"from offset {offset} on: {type(error).__name__}: {error}") from error


def preferred_replica(
    connection: Connection, replica: TopicPartition, offset: int, rack: str
) -> tuple[int | None, str | None]:
    """Return the broker that the leader names for a ``client.rack`` (None: itself), and its error (KIP-392)."""
    answer = _fetch_one(connection, replica, Position(offset, -1), CONSUMED_BYTES, rack)
    return known(answer.preferred_read_replica), error_name(answer.error_code)


def _records(data: bytes, offset: int) -> Iterator[Consumed]:
    for batch in MemoryRecords(data):
        sound = batch.validate_crc()
        if not (sound and batch.is_control_batch):
            for record in batch:
                if record.offset >= offset:
                    yield Consumed(record.offset, batch.leader_epoch, record.value, sound)


def read_batches(connection: Connection, replica: TopicPartition, offset: int, max_bytes: int = 1) -> bytes:
    """Return the leader's batches from an offset on (Fetch v11), at least one below the high watermark."""
    answer = _fetch_one(connection, replica, Position(offset, -1), max_bytes)
    error = error_name(answer.error_code)
    if error == NOT_AUTHORIZED:
        raise Refused(f"Could not read {replica}: {error}.")
    if error:
        raise ConnectionAbortedError(f"no batch of {replica} at {offset}: {error}")
    return bytes(answer.records or b"")


def _fetch_one(
    connection: Connection, replica: TopicPartition, position: Position, max_bytes: int, rack: str = ""
) -> Any:
    """Send a Fetch v11: the first version with a rack, the last with topic names on all brokers since 2.8."""
    request = fetch_request(11, {replica: position}, max_bytes, rack_id=rack)
    return about(fetched(connection.send(request)), replica)
