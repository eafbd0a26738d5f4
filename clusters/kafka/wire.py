"""Probe one broker's replicas over a plain socket.

A Fetch v12 with an impossible offset and ``last_fetched_epoch`` returns the replica's high watermark, read first, and
the end offset of that epoch. For the newest epoch in the replica's cache that is its log end offset (KAFKA-10554,
KIP-595). Any replica answers from its own log. ``replica_id`` is always -1 (consumer), or -2 (debugging consumer) in
ListOffsets, never a broker's: a follower's fetch would change the leader's view of the ISR. Replicas with an empty
epoch cache need two requests.

Every broker since 2.8 supports the pinned versions: Fetch v11/v12, ListOffsets v5, Metadata v7, Produce v7,
SaslHandshake v1, SaslAuthenticate v1.
"""

from __future__ import annotations

import select
import socket
import struct
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from gzip import BadGzipFile
from io import BytesIO
from typing import Any, NamedTuple, Self, TypeVar

import kafka.errors
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from clusters.kafka.incoming import Incoming
from clusters.kafka.security import Access
from history.partition import TopicPartition

CONSUMER = -1
DEBUGGING_CONSUMER = -2  # ListOffsets: any replica answers, up to its log end offset
LATEST, EARLIEST = -1, -2  # timestamps of ListOffsets
BEYOND_ANY_LOG = 2**62
CONSUMED_BYTES = 1 << 20
FETCHED_PARTITION_BYTES, FETCHED_BYTES = 1 << 20, 1 << 25  # the first is a consumer's default; more exceeds the cache
_MOST_EPOCHS = 2**31 - 1  # of a fetch session; 1 follows
_HEADER_BYTES = 64  # limit of an answer's header: its number, no tagged fields
# Minimum for TLS and login: a freshly started JVM takes several hundred ms for its first handshake, and a client that
# restarts earlier never connects.
# handshake, and whoever gives up and begins anew before that never gets in.
MIN_HANDSHAKE_S = 1.0
# What kafka-python raises for a damaged batch; an invalid gzip stream is an OSError.
UNDECODABLE = (
    *(kafka.errors.CorruptRecordError, kafka.errors.UnsupportedCodecError),
    *(zlib.error, BadGzipFile, EOFError, struct.error),
)

MAX_ROUNDS = 12  # of one probe; each moves the guessed cached epoch by one

NONE, OFFSET_OUT_OF_RANGE, UNKNOWN_LEADER_EPOCH = 0, 1, 75
Told = TypeVar("Told")
FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"  # the broker has a newer epoch than the request
_NAMES = {-1: "UNKNOWN_SERVER_ERROR", 6: "NOT_LEADER_OR_FOLLOWER"}  # kafka-python names these differently
UNREACHABLE, TIMEOUT, NEVER_SENT = "unreachable", "timeout", "never_sent"


def error_name(code: int) -> str | None:
    """Return the protocol's name of an error code, None for 0, ``ERROR_<code>`` if unknown."""
    if code == NONE:
        return None
    name = _NAMES.get(code) or str(kafka.errors.for_code(code).message)
    return f"ERROR_{code}" if name == "UNKNOWN" else name


def transport_error_name(error: OSError) -> str:
    """Return ``timeout`` if a connection existed but no answer came, else ``unreachable``."""
    return TIMEOUT if isinstance(error, TimeoutError) else UNREACHABLE


# --- the connection ----------------------------------------------------------------------------


class Connection:
    """Connect to one broker on first use, and again after an error or when the broker has closed the connection.

    Brokers close connections idle for ``connections.max.idle.ms``, 10 min. ``access`` is None on a plaintext listener.
    ``forwards_to_controller``: the broker forwards requests for the controller (KRaft). Not thread-safe.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        client_id: str = "plimsoll",
        *,
        access: Access | None = None,
        forwards_to_controller: bool = False,
    ) -> None:
        self.host, self.port, self.timeout_s = host, port, timeout_s
        self.forwards_to_controller = forwards_to_controller
        self._client_id, self._access = client_id, access
        self._socket: socket.socket | None = None
        self._protocol, self._incoming = KafkaProtocol(client_id=client_id), Incoming(f"{host}:{port}")

    def to(self, host: str, port: int, timeout_s: float) -> Connection:
        """Return a connection like this one to another broker, at its address on this listener."""
        return Connection(host, port, timeout_s, self._client_id, access=self._access)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def send(self, request: Any) -> Any:
        """Send one request and return its answer; errors as ``exchange``."""
        return self.exchange([request])[0]

    def exchange(self, requests: Sequence[Any]) -> list[Any]:
        """Write all requests, then read their answers; the broker handles them in order.

        Requests without an answer (acks=0) yield none. An error closes the connection.

        Raises:
            TimeoutError: not all answers arrived within ``timeout_s``, not counting the time to connect.
            OSError: no connection, a broken one, or an invalid answer.
        """
        try:
            return self._exchange(self._open(), requests, time.monotonic() + self.timeout_s)
        except kafka.errors.KafkaError as error:
            self.close()
            raise ConnectionAbortedError(f"{self.host}:{self.port} sent no Kafka answer: {error}") from error
        except BaseException:  # also an interrupt: the next request must not get this one's answer
            self.close()
            raise

    def _exchange(self, sock: socket.socket, requests: Sequence[Any], deadline: float) -> list[Any]:
        answers: list[Any] = []
        for request in requests:
            self._protocol.send_request(request)
        sock.settimeout(self.timeout_s)
        sock.sendall(self._protocol.send_bytes())
        while self._protocol.in_flight_requests:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            if (answer := self._incoming.receive(sock)) is not None:
                answers.append(self._decoded(answer))
        return answers

    def _decoded(self, answer: memoryview) -> Any:
        """Decode the answer to the oldest unanswered request.

        Raises:
            KafkaError: it is invalid.
        """
        asked = self._protocol.in_flight_requests.popleft()
        kind = asked.get_response_class()
        start = BytesIO(answer[:_HEADER_BYTES])
        try:
            answers = kind.parse_header(start).correlation_id
            if answers == asked.correlation_id:
                return kind.decode(answer[start.tell() :])
        except (ValueError, IndexError, AssertionError, struct.error) as error:
            raise kafka.errors.KafkaProtocolError(f"{kind.__name__} cannot be read: {error}") from error
        raise kafka.errors.CorrelationIdError(f"answer {answers} to request {asked.correlation_id}")

    def _open(self) -> socket.socket:
        if self._socket and _has_ended(self._socket):
            self.close()
        if self._socket is None:
            self._protocol = KafkaProtocol(client_id=self._client_id)
            self._incoming = Incoming(f"{self.host}:{self.port}")
            self._socket = socket.create_connection((self.host, self.port), timeout=self.timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._access:
                self._socket.settimeout(max(self.timeout_s, MIN_HANDSHAKE_S))
                self._socket = self._access.encrypted(self._socket, self.host)
                if self._access.sasl:
                    self._log_in(self._socket, self._access)
        return self._socket

    def _log_in(self, sock: socket.socket, access: Access) -> None:
        """Send SaslHandshake, then SaslAuthenticate until the mechanism is done (KIP-43, KIP-152)."""
        deadline, conversation = time.monotonic() + max(self.timeout_s, MIN_HANDSHAKE_S), access.conversation()
        try:
            self._accepted(sock, SaslHandshakeRequest[1](mechanism=access.sasl), deadline)
            while not conversation.is_done():
                request = SaslAuthenticateRequest[1](auth_bytes=conversation.auth_bytes())
                conversation.receive(bytes(self._accepted(sock, request, deadline).auth_bytes))
        except (ValueError, kafka.errors.KafkaError) as error:
            raise ConnectionAbortedError(f"{self.host}:{self.port} broke off {access.sasl}: {error}") from error

    def _accepted(self, sock: socket.socket, request: Any, deadline: float) -> Any:
        (answer,) = self._exchange(sock, [request], deadline)
        if answer.error_code:
            raise ConnectionAbortedError(f"{self.host}:{self.port} lets nobody in: {error_name(answer.error_code)}")
        return answer


def _has_ended(idle: socket.socket) -> bool:
    """Return whether an idle connection was closed, or got unexpected data."""
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))


# --- replicas ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplicaSample:
    """Hold one replica as reported by its own broker; the columns of the ``replicas`` table.

    ``leader_epoch`` is the epoch that the broker accepted as current; values are null if ``error`` is set.
    ``single_reply``: both offsets are from one reply, the high watermark read first; otherwise the log end offset is
    from an earlier request.
    """

    topic: str
    partition: int
    sent_ns: int
    received_ns: int
    leader_epoch: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_end_offset: int | None = None
    single_reply: bool | None = None
    error: str | None = None


@dataclass
class _Known:
    """Hold what earlier answers showed of a replica: its leader epoch and its newest cached epoch (-1: none)."""

    current: int
    cached: int

    def settle(self, at: Any | None, after: Any | None) -> Any | None:
        """Return whichever answer, for epoch ``cached`` or ``cached + 1``, ends at the log's end, if any.

        Move the guess by one epoch if the answers contradict it.
        """
        if after and after.diverging_epoch:
            self.cached += 1
            return after if self.cached == self.current else None
        if after and after.error_code != OFFSET_OUT_OF_RANGE:
            return None
        if at and at.error_code == OFFSET_OUT_OF_RANGE:
            self.cached -= 1
        return at if at and at.diverging_epoch else None


@dataclass
class BrokerProbe:
    """Sample all replicas of one broker, usually in one round trip.

    A follower caches an epoch with its first batch, so its newest cached epoch may be older than its leader epoch. An
    answer for epoch e is accepted only if e is current, or if a later answer on the same connection shows that e + 1
    is not cached. Otherwise the end of e could be mistaken for the log's end.
    """

    connection: Connection
    replicas: set[TopicPartition]
    _known: dict[TopicPartition, _Known] = field(default_factory=dict, init=False)

    def expect_epoch(self, replica: TopicPartition, leader_epoch: int) -> None:
        """Set a replica's likely leader epoch; a wrong guess costs one more round trip."""
        self._known.setdefault(replica, _Known(leader_epoch, leader_epoch))

    def sample(self) -> list[ReplicaSample]:
        """Return one sample per replica, ordered by topic and partition.

        Raises:
            OSError: the broker did not answer; see ``Connection.exchange``.
        """
        samples = self._in_one_reply(self.replicas & self._known.keys())
        samples |= self._in_two_replies(self.replicas - samples.keys())
        return [about(samples, replica) for replica in sorted(self.replicas)]

    def _in_one_reply(self, replicas: set[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        known = {replica: self._known[replica] for replica in replicas}
        at = [(replica, it.current, it.cached) for replica, it in known.items() if it.cached >= 0]
        after = [(replica, it.current, it.cached + 1) for replica, it in known.items() if it.cached < it.current]
        sent_ns = time.monotonic_ns()
        replies = self.connection.exchange([_divergence_request(asked) for asked in (at, after) if asked])
        interval = sent_ns, time.monotonic_ns()
        at_answers = fetched(replies.pop(0)) if at else {}
        after_answers = fetched(replies.pop(0)) if after else {}
        samples = {}
        for replica, it in known.items():
            answer = it.settle(at_answers.get(replica), after_answers.get(replica))
            if answer:
                end = answer.diverging_epoch.end_offset
                samples[replica] = _sample(replica, interval, answer, epoch=it.current, end=end, single=True)
        return samples

    def _in_two_replies(self, replicas: set[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        """Get log end offset and epoch by ListOffsets, the rest by a fetch at that end.

        A freshly started ZooKeeper broker may report a log end without an epoch (-1), whose owner is unknown. It is
        recorded as UNKNOWN_LEADER_EPOCH, which any fetch would return.
        """
        if not replicas:
            return {}
        sent_ns = time.monotonic_ns()
        ends = list_offsets(self.connection, replicas)
        for replica, end in ends.items():
            self._learn(replica, end)
        asked = {replica: end for replica, end in ends.items() if end.leader_epoch is not None}
        answers = fetched(self.connection.send(_plain_fetch(asked))) if asked else {}
        interval = sent_ns, time.monotonic_ns()
        return {
            replica: _sample(replica, interval, answers[replica], epoch=end.leader_epoch, end=end.offset, single=False)
            if replica in answers
            else ReplicaSample(*replica, *interval, error=end.error or error_name(UNKNOWN_LEADER_EPOCH))
            for replica, end in ends.items()
        }

    def _learn(self, replica: TopicPartition, end: ListedOffset) -> None:
        if end.leader_epoch is None:
            self._known.pop(replica, None)
            return
        known = self._known.setdefault(replica, _Known(end.leader_epoch, end.leader_epoch))
        known.current = end.leader_epoch
        known.cached = min(known.cached, known.current)


def probe(connection: Connection, topic: str, partition: int, known_epoch: int | None = None) -> ReplicaSample:
    """Sample one replica once, in a single reply if the replica has an epoch.

    Raises:
        OSError: the broker did not answer; see ``Connection.exchange``.
    """
    replica = TopicPartition(topic, partition)
    return probe_all(connection, [replica], None if known_epoch is None else {replica: known_epoch})[0]


def probe_all(
    connection: Connection, replicas: Iterable[TopicPartition], known_epochs: Mapping[TopicPartition, int] | None = None
) -> list[ReplicaSample]:
    """Sample replicas of one broker as ``probe``, ordered by topic and partition.

    Raises:
        OSError: as ``probe``.
    """
    broker = BrokerProbe(connection, set(replicas))
    for replica, epoch in (known_epochs or {}).items():
        broker.expect_epoch(replica, epoch)
    samples: dict[TopicPartition, ReplicaSample] = {}
    for _ in range(MAX_ROUNDS):
        found = {TopicPartition(sample.topic, sample.partition): sample for sample in broker.sample()}
        samples |= found
        broker.replicas = {where for where, sample in found.items() if not (sample.single_reply or sample.error)}
        if not broker.replicas:
            break
    return [samples[replica] for replica in sorted(samples)]


def _sample(
    replica: TopicPartition, interval: tuple[int, int], answer: Any, *, epoch: int | None, end: int | None, single: bool
) -> ReplicaSample:
    if answer.error_code:
        return ReplicaSample(*replica, *interval, error=error_name(answer.error_code))
    return ReplicaSample(
        *replica,
        *interval,
        leader_epoch=epoch,
        log_start_offset=_seen(answer.log_start_offset),
        high_watermark=_seen(answer.high_watermark),
        last_stable_offset=_seen(answer.last_stable_offset),
        log_end_offset=end,
        single_reply=single,
    )


def _seen(offset: int) -> int | None:
    return None if offset < 0 else int(offset)


def _divergence_request(asked: Iterable[tuple[TopicPartition, int, int]]) -> Any:
    """Build a Fetch v12 for (replica, current leader epoch, epoch whose end is wanted)."""
    partition = FetchRequest.FetchTopic.FetchPartition
    return _fetch_request(
        12,
        {
            replica: partition(
                partition=replica.partition,
                current_leader_epoch=current,
                fetch_offset=BEYOND_ANY_LOG,
                last_fetched_epoch=epoch,
                log_start_offset=-1,
                partition_max_bytes=1,
            )
            for replica, current, epoch in asked
        },
    )


def _plain_fetch(ends: Mapping[TopicPartition, ListedOffset]) -> Any:
    """Build a Fetch v11 at each replica's log end: any replica returns an empty answer from its own log (KIP-392)."""
    partition = FetchRequest.FetchTopic.FetchPartition
    return _fetch_request(
        11,
        {
            replica: partition(
                partition=replica.partition,
                current_leader_epoch=end.leader_epoch,
                fetch_offset=end.offset,
                log_start_offset=-1,
                partition_max_bytes=1,
            )
            for replica, end in ends.items()
        },
    )


class Wanted(NamedTuple):
    """Hold a consumer's position: ``leader_epoch`` to accept answers in, ``last_epoch`` of the batch before
    ``offset``.

    ``last_epoch`` is -1 if nothing was read.
    """

    offset: int
    leader_epoch: int
    last_epoch: int


class FetchSession:
    """Fetch as a consumer from one broker, in an incremental session (KIP-227).

    After the first fetch, requests contain only changed positions and answers only partitions with news: with
    thousands of partitions both sides would otherwise spend their time on idle ones. Without a session, each fetch
    lists all.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._end()

    def _end(self) -> None:
        self._number = self._epoch = 0
        self._asked: Mapping[TopicPartition, Wanted] = {}

    def fetch(
        self, wanted: Mapping[TopicPartition, Wanted], isolation_level: int, max_wait_ms: int
    ) -> dict[TopicPartition, Any]:
        """Fetch from partitions that this broker leads (Fetch v12); return those with news, after ``max_wait_ms`` at
        most.

        News includes a log truncated below the position (KIP-320, KIP-595).

        Raises:
            OSError: no answer, or an error; the next fetch starts a new session.
        """
        changed = {where: of for where, of in wanted.items() if self._asked.get(where) != of}
        request = _fetch_request(12, {where: _wanted(where, of) for where, of in changed.items()}, FETCHED_BYTES)
        request.isolation_level, request.max_wait_ms, request.min_bytes = isolation_level, max_wait_ms, 1
        request.session_id, request.session_epoch = self._number, self._epoch
        request.forgotten_topics_data = [
            FetchRequest.ForgottenTopic(topic=topic, partitions=[each.partition for each in partitions])
            for topic, partitions in by_topic(self._asked.keys() - wanted.keys())
        ]
        epoch = self._epoch % _MOST_EPOCHS + 1
        self._end()
        answer = self.connection.send(request)
        told = fetched(answer)
        if answer.session_id:
            self._number, self._epoch, self._asked = answer.session_id, epoch, wanted
        return told


def _wanted(where: TopicPartition, of: Wanted) -> Any:
    return FetchRequest.FetchTopic.FetchPartition(
        partition=where.partition,
        current_leader_epoch=of.leader_epoch,
        fetch_offset=of.offset,
        last_fetched_epoch=of.last_epoch,
        log_start_offset=-1,
        partition_max_bytes=FETCHED_PARTITION_BYTES,
    )


def _fetch_request(version: int, partitions: Mapping[TopicPartition, Any], max_bytes: int = 1) -> Any:
    """Build a fetch without a session that never waits."""
    topics = [
        FetchRequest.FetchTopic(topic=topic, partitions=[partitions[replica] for replica in replicas])
        for topic, replicas in by_topic(partitions)
    ]
    return FetchRequest[version](
        replica_id=CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=topics,
        forgotten_topics_data=[],
        rack_id="",
    )


class Consumed(NamedTuple):
    """Hold one consumed record; ``sound`` if its batch matches its CRC-32C."""

    offset: int
    leader_epoch: int
    value: bytes
    sound: bool


def consume(
    connection: Connection, replica: TopicPartition, offset: int, leader_epoch: int
) -> tuple[list[Consumed], str | None]:
    """Return the available records from an offset on, from a leader or follower (KIP-392), and the partition's error.

    The broker must be in the given leader epoch (KIP-320). With an error there are no records, for example beyond the
    log's end during a truncation. Transaction markers are skipped.

    Raises:
        OSError: the broker did not answer.
        CorruptRecordError: a batch cannot be decoded.
    """
    answer = _as_consumer(connection, replica, offset, leader_epoch)
    try:
        return list(_records(answer.records or b"", offset)), error_name(answer.error_code)
    except UNDECODABLE as error:
        raise kafka.errors.CorruptRecordError(f"from offset {offset} on: {type(error).__name__}: {error}") from error


def preferred_replica(
    connection: Connection, replica: TopicPartition, offset: int, rack: str
) -> tuple[int | None, str | None]:
    """Ask the leader which broker a consumer with this ``client.rack`` should read from (KIP-392).

    Return the broker's id (None: the leader), and the partition's error.

    Raises:
        OSError: the broker did not answer.
    """
    answer = _as_consumer(connection, replica, offset, -1, rack)
    return _seen(answer.preferred_read_replica), error_name(answer.error_code)


def _as_consumer(connection: Connection, replica: TopicPartition, offset: int, epoch: int, rack: str = "") -> Any:
    """Send a Fetch v11: the first version with a rack, and the last with topic names on every broker since 2.8."""
    asked = FetchRequest.FetchTopic.FetchPartition(
        partition=replica.partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=CONSUMED_BYTES,
    )
    request = _fetch_request(11, {replica: asked}, CONSUMED_BYTES)
    request.rack_id = rack
    return about(fetched(connection.send(request)), replica)


def _records(data: bytes, offset: int) -> Iterator[Consumed]:
    for batch in MemoryRecords(data):
        sound = batch.validate_crc()
        if not (sound and batch.is_control_batch):
            for record in batch:
                if record.offset >= offset:
                    yield Consumed(record.offset, batch.leader_epoch, record.value, sound)


def about(answers: Mapping[TopicPartition, Told], replica: TopicPartition) -> Told:
    """Return the requested partition's answer.

    Raises:
        ConnectionAbortedError: it is missing.
    """
    if replica not in answers:
        raise ConnectionAbortedError(f"an answer says nothing of {replica}, which was asked about")
    return answers[replica]


def fetched(reply: Any) -> dict[TopicPartition, Any]:
    """Return a fetch's answers by partition.

    Raises:
        ConnectionAbortedError: the broker rejected the whole fetch.
    """
    if reply.error_code:
        raise ConnectionAbortedError(f"the broker refused a fetch as a whole: {error_name(reply.error_code)}")
    return {
        TopicPartition(topic.topic, answer.partition_index): answer
        for topic in reply.responses
        for answer in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Group partitions by topic, as in requests."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for replica in partitions:
        topics[replica.topic].append(replica)
    return iter(topics.items())


def read_batches(connection: Connection, replica: TopicPartition, offset: int, max_bytes: int = 1) -> bytes:
    """Return the leader's record batches from the one with ``offset`` on, as a consumer (Fetch v11).

    At least one batch is returned, whatever ``max_bytes``; none at the high watermark.

    Raises:
        OSError: no answer, or an error.
    """
    asked = FetchRequest.FetchTopic.FetchPartition(
        partition=replica.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=max_bytes,
    )
    answer = about(fetched(connection.send(_fetch_request(11, {replica: asked}))), replica)
    if answer.error_code:
        raise ConnectionAbortedError(f"no batch of {replica} at {offset}: {error_name(answer.error_code)}")
    return bytes(answer.records or b"")


# --- offsets and metadata ----------------------------------------------------------------------


class ListedOffset(NamedTuple):
    """Hold an answer to ListOffsets; offset and epoch are None if ``error`` is set."""

    offset: int | None
    leader_epoch: int | None
    error: str | None


def list_offsets(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    timestamp: int = LATEST,
    replica_id: int = DEBUGGING_CONSUMER,
    isolation_level: int = 0,
    *,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, ListedOffset]:
    """List one broker's offset per partition (ListOffsets v5), in the given leader epochs, by default any.

    For the debugging consumer any replica answers, and ``LATEST`` is its log end offset. For a ``CONSUMER`` only the
    leader answers, and ``LATEST`` is the high watermark, or the last stable offset at isolation level 1.

    Raises:
        OSError: the broker did not answer.
    """
    topic_of, partition_of = (
        ListOffsetsRequest.ListOffsetsTopic,
        ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
    )
    topics = [
        topic_of(
            name=topic,
            partitions=[
                partition_of(
                    partition_index=replica.partition,
                    current_leader_epoch=(leader_epochs or {}).get(replica, -1),
                    timestamp=timestamp,
                )
                for replica in replicas
            ],
        )
        for topic, replicas in by_topic(partitions)
    ]
    request = ListOffsetsRequest[5](replica_id=replica_id, isolation_level=isolation_level, topics=topics)
    return {
        TopicPartition(topic.name, answer.partition_index): ListedOffset(None, None, error_name(answer.error_code))
        if answer.error_code
        else ListedOffset(answer.offset, _seen(answer.leader_epoch), None)
        for topic in connection.send(request).topics
        for answer in topic.partitions
    }


def list_offset(
    connection: Connection, topic: str, partition: int, timestamp: int = LATEST, replica_id: int = DEBUGGING_CONSUMER
) -> ListedOffset:
    """Call ``list_offsets`` for one partition."""
    replica = TopicPartition(topic, partition)
    return about(list_offsets(connection, [replica], timestamp, replica_id), replica)


@dataclass(frozen=True)
class PartitionView:
    """Hold a broker's metadata of a partition; ``leader`` is -1 if there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]

    def __str__(self) -> str:
        offline = f" offline {self.offline}" if self.offline else ""
        return f"{self.topic}-{self.partition}: leader {self.leader} epoch {self.leader_epoch} ISR {self.isr}{offline}"


@dataclass(frozen=True)
class ClusterView:
    """Hold a broker's metadata of the cluster; ``brokers`` maps live brokers to (host, port)."""

    sent_ns: int
    received_ns: int
    controller_id: int
    brokers: dict[int, tuple[str, int]]
    partitions: list[PartitionView]


def metadata(connection: Connection, topics: Iterable[str] | None) -> ClusterView:
    """Return a broker's metadata cache (Metadata v7); unknown topics are missing, None requests all.

    Raises:
        OSError: the broker did not answer.
    """
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest[7](topics=wanted, allow_auto_topic_creation=False)
    sent_ns = time.monotonic_ns()
    reply = connection.send(request)
    received_ns = time.monotonic_ns()
    views = [
        PartitionView(
            topic.name,
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            list(part.replica_nodes),
            list(part.isr_nodes),
            list(part.offline_replicas),
        )
        for topic in reply.topics
        for part in topic.partitions
    ]
    brokers = {broker.node_id: (broker.host, broker.port) for broker in reply.brokers}
    return ClusterView(sent_ns, received_ns, reply.controller_id, brokers, views)


@dataclass(frozen=True)
class QuorumView:
    """Hold the metadata quorum as its leader reports it; ``voters`` maps to log end offsets, -1 if unknown."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]


def describe_quorum(connection: Connection) -> QuorumView | None:
    """Return KRaft's metadata quorum (DescribeQuorum v0), or None if this controller is not its leader.

    Raises:
        OSError: the controller did not answer.
    """
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    request = DescribeQuorumRequest[0](topics=[topic(topic_name="__cluster_metadata", partitions=[partition])])
    reply = connection.send(request)
    answers = [answer for topic in reply.topics or () for answer in topic.partitions]
    if reply.error_code or not answers or answers[0].error_code:
        return None
    answer = answers[0]
    voters = {voter.replica_id: voter.log_end_offset for voter in answer.current_voters}
    return QuorumView(answer.leader_id, answer.leader_epoch, answer.high_watermark, voters)


# --- produce -----------------------------------------------------------------------------------

ACKS = {"0": 0, "1": 1, "all": -1}


@dataclass(frozen=True)
class Produced:
    """Hold the answer to one produce request; ``base_offset`` is None if none was returned."""

    sent_ns: int | None
    done_ns: int | None
    base_offset: int | None
    error: str | None


def record_batch(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """Encode values as one uncompressed record batch of format v2, without a producer id."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 30)
    for value in values:
        builder.append(timestamp_ms, None, value)
    builder.close()
    return bytes(builder.buffer())


def produce(
    connection: Connection,
    topic: str,
    partition: int,
    batches: Sequence[Sequence[bytes]],
    acks: str,
    *,
    timeout_ms: int = 10_000,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[Produced]:
    """Send each batch in its own request (Produce v7), in order, without retries.

    A broken connection ends the sequence: that batch gets ``timeout`` or ``unreachable``, later ones ``never_sent``.
    So do all batches once ``go_on`` returns False.
    """
    ended = False
    for values in batches:
        ended = ended or not go_on()
        if ended:
            yield Produced(None, None, None, NEVER_SENT)
            continue
        produced = _produce_one(connection, _produce_request(topic, partition, values, acks, timeout_ms))
        ended = produced.error in (TIMEOUT, UNREACHABLE)
        yield produced


def _produce_request(topic: str, partition: int, values: Sequence[bytes], acks: str, timeout_ms: int) -> Any:
    data_of = ProduceRequest.TopicProduceData
    data = data_of.PartitionProduceData(index=partition, records=record_batch(values, time.time_ns() // 1_000_000))
    topics = [data_of(name=topic, partition_data=[data])]
    return ProduceRequest[7](transactional_id=None, acks=ACKS[acks], timeout_ms=timeout_ms, topic_data=topics)


def _produce_one(connection: Connection, request: Any) -> Produced:
    sent_ns = time.monotonic_ns()
    try:
        answers = connection.exchange([request])
    except OSError as error:
        return Produced(sent_ns, None, None, transport_error_name(error))
    done_ns = time.monotonic_ns()
    if not answers:
        return Produced(sent_ns, done_ns, None, None)
    told = [answer for topic in answers[0].responses or () for answer in topic.partition_responses or ()]
    if not told:  # unknown whether it was written
        return Produced(sent_ns, None, None, UNREACHABLE)
    answer = told[0]
    return Produced(sent_ns, done_ns, _seen(answer.base_offset), error_name(answer.error_code))
