"""The wire probe: what one broker itself says about its replicas, over a plain socket.

A Fetch v12 with an impossible offset and ``last_fetched_epoch`` is answered with the replica's high watermark,
read first, and the end offset of that epoch; for the newest epoch in the replica's cache that is its log end
offset (KAFKA-10554, KIP-595). Any replica answers from its own log; ``replica_id`` is -1 (a consumer) throughout,
or -2 (the debugging consumer) in ListOffsets, never that of a broker: a fetch as a follower would move the
leader's view of the ISR. Replicas with an empty epoch cache are asked in two requests instead.

The pinned versions are spoken by every broker from 2.8 on: Fetch v11/v12, ListOffsets v5, Metadata v7, Produce v7,
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
FETCHED_PARTITION_BYTES, FETCHED_BYTES = 1 << 20, 1 << 25  # the first is a consumer's default; more leaves the cache
_MOST_EPOCHS = 2**31 - 1  # of a fetch session; then 1 again
_HEADER_BYTES = 64  # of an answer, at most: its number and tagged fields, of which there are none
# To agree on TLS and to log in, at least: a JVM that has just started takes several hundred milliseconds for its first
# handshake, and whoever gives up and begins anew before that never gets in.
MIN_HANDSHAKE_S = 1.0
# What kafka-python raises at a batch that is damaged; a gzip stream that is none is an OSError.
UNDECODABLE = (
    *(kafka.errors.CorruptRecordError, kafka.errors.UnsupportedCodecError),
    *(zlib.error, BadGzipFile, EOFError, struct.error),
)

MAX_ROUNDS = 12  # of one probe; each moves the guess of the cached epoch by one

NONE, OFFSET_OUT_OF_RANGE, UNKNOWN_LEADER_EPOCH = 0, 1, 75
Told = TypeVar("Told")
FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"  # the broker is in a newer epoch than was asked in
_NAMES = {-1: "UNKNOWN_SERVER_ERROR", 6: "NOT_LEADER_OR_FOLLOWER"}  # kafka-python has other names for these
UNREACHABLE, TIMEOUT, NEVER_SENT = "unreachable", "timeout", "never_sent"


def error_name(code: int) -> str | None:
    """The protocol's own name of an error code, None for 0; an unknown code is ``ERROR_<code>``."""
    if code == NONE:
        return None
    name = _NAMES.get(code) or str(kafka.errors.for_code(code).message)
    return f"ERROR_{code}" if name == "UNKNOWN" else name


def transport_error_name(error: OSError) -> str:
    """``timeout`` when a connection was there and nothing came back, else ``unreachable``."""
    return TIMEOUT if isinstance(error, TimeoutError) else UNREACHABLE


# --- the connection ----------------------------------------------------------------------------


class Connection:
    """One connection to one broker, opened when first used, and again after an error or when the broker has closed it:
    brokers close those that were idle for ``connections.max.idle.ms``, ten minutes.

    ``access``: how to get in, None on a plaintext listener. ``forwards_to_controller``: the broker passes on what is
    meant for the controller (KRaft). Not safe for several threads.
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
        """A connection of the same kind to another broker, as that broker is listed on this listener."""
        return Connection(host, port, timeout_s, self._client_id, access=self._access)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; the next request opens a new one."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def send(self, request: Any) -> Any:
        """Send one request and return its answer; errors as ``exchange``."""
        return self.exchange([request])[0]

    def exchange(self, requests: Sequence[Any]) -> list[Any]:
        """Write all requests, then read their answers; the broker handles them in this order.

        Requests that have no answer (acks=0) give none.

        Raises:
            TimeoutError: not all answers within ``timeout_s`` once it is open; OSError: no connection, or it broke, or
                what came back is not the protocol. Either way the connection is closed.
        """
        try:
            return self._exchange(self._open(), requests, time.monotonic() + self.timeout_s)
        except kafka.errors.KafkaError as error:
            self.close()
            raise ConnectionAbortedError(f"{self.host}:{self.port} sent no Kafka answer: {error}") from error
        except BaseException:  # an interrupt, too: the answer on its way must not be the next request's
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
        """An answer to the oldest request that has none.

        Raises:
            KafkaError: it is none.
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
        """SaslHandshake, then SaslAuthenticate until the mechanism has no more to say (KIP-43, KIP-152)."""
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
    """Whether anything came on a connection on which nothing is awaited: its end, or what is no answer to anything."""
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))


# --- replicas ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplicaSample:
    """One replica as its own broker told it; the columns of the ``replicas`` table.

    ``leader_epoch`` is the epoch that the broker accepted as current; values are null where ``error`` is set.
    ``single_reply``: both offsets stood in one reply, the high watermark read first; otherwise the log end
    offset was read by an earlier request.
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
    """What earlier answers told about a replica: its current leader epoch, its newest cached epoch (-1: none)."""

    current: int
    cached: int

    def settle(self, at: Any | None, after: Any | None) -> Any | None:
        """Of the answers for epochs ``cached`` and ``cached + 1`` the one that ends at the log's end, if any.

        Moves the guess one epoch up or down where the answers show it wrong.
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
    """Samples all replicas of one broker in one round trip, most of the time.

    A follower caches an epoch only with the first batch of it, so its newest cached epoch may be older than its
    current leader epoch. An answer for epoch e is taken only when e is the current epoch, or when a later answer
    on the same connection shows that e + 1 is not cached; else the end of e would be mistaken for the log's end.
    """

    connection: Connection
    replicas: set[TopicPartition]
    _known: dict[TopicPartition, _Known] = field(default_factory=dict, init=False)

    def expect_epoch(self, replica: TopicPartition, leader_epoch: int) -> None:
        """Tell what a replica's leader epoch may be; a wrong guess costs a round trip more."""
        self._known.setdefault(replica, _Known(leader_epoch, leader_epoch))

    def sample(self) -> list[ReplicaSample]:
        """One sample a replica, in order of topic and partition.

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
        """Log end offset and current epoch by ListOffsets, the rest by a fetch that stands at that end.

        A broker of ZooKeeper that has just started may tell the end of a log for which it has no epoch yet (-1): whose
        end that is nobody can say, so that it is refused as a fetch in any epoch would be.
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
    """Sample one replica once, in a single reply where the replica has an epoch at all.

    Raises:
        OSError: the broker did not answer; see ``Connection.exchange``.
    """
    replica = TopicPartition(topic, partition)
    return probe_all(connection, [replica], None if known_epoch is None else {replica: known_epoch})[0]


def probe_all(
    connection: Connection, replicas: Iterable[TopicPartition], known_epochs: Mapping[TopicPartition, int] | None = None
) -> list[ReplicaSample]:
    """The same of many replicas of one broker, in order of topic and partition.

    Raises:
        OSError: as for one.
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
    """Fetch v12 for (replica, current leader epoch, epoch whose end is asked for)."""
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
    """Fetch v11 at each replica's log end: an empty answer that any replica gives from its own log (KIP-392)."""
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
    """From where a consumer reads on: ``leader_epoch`` is that in which it takes answers, ``last_epoch`` that of the
    batch before ``offset`` (-1: it has read none).
    """

    offset: int
    leader_epoch: int
    last_epoch: int


class FetchSession:
    """A consumer's fetches from one broker, in an incremental session (KIP-227): after the first, partitions are asked
    for whose place has changed, and told of that have something to tell. With thousands of them both sides would spend
    their time on those where nothing happens. A broker that gives no session is asked for all each time.
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
        """What the leader of these partitions tells of some or all of them, such as a log that was truncated below the
        position (Fetch v12, KIP-320 and KIP-595). With nothing to tell the broker waits for that long.

        Raises:
            OSError: it did not answer, or refused; the next fetch begins a new session.
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
    """A fetch outside of any fetch session that never waits."""
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
    """One record as a broker gave it to a consumer; ``sound`` when its batch fits its CRC-32C."""

    offset: int
    leader_epoch: int
    value: bytes
    sound: bool


def consume(
    connection: Connection, replica: TopicPartition, offset: int, leader_epoch: int
) -> tuple[list[Consumed], str | None]:
    """The records from an offset on that a broker gives to a consumer now, whether it leads or follows (KIP-392), while
    it is in this leader epoch (KIP-320), and the name of the partition's error.

    With an error come no records, as with an offset beyond the log's end while it is cut. The markers at the ends of
    transactions are no records.

    Raises:
        OSError: the broker did not answer.
        CorruptRecordError: a batch is so damaged that its records cannot be told.
    """
    answer = _as_consumer(connection, replica, offset, leader_epoch)
    try:
        return list(_records(answer.records or b"", offset)), error_name(answer.error_code)
    except UNDECODABLE as error:
        raise kafka.errors.CorruptRecordError(f"from offset {offset} on: {type(error).__name__}: {error}") from error


def preferred_replica(
    connection: Connection, replica: TopicPartition, offset: int, rack: str
) -> tuple[int | None, str | None]:
    """Ask the leader, as a consumer with this ``client.rack``, from which broker to read on (KIP-392).

    Returns the broker's id, or None for the leader itself, and the name of the partition's error.

    Raises:
        OSError: the broker did not answer.
    """
    answer = _as_consumer(connection, replica, offset, -1, rack)
    return _seen(answer.preferred_read_replica), error_name(answer.error_code)


def _as_consumer(connection: Connection, replica: TopicPartition, offset: int, epoch: int, rack: str = "") -> Any:
    """Fetch v11, the first version with a rack, and the last that every broker from 2.8 on answers with topic names."""
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
    """What was answered of the partition that was asked about.

    Raises:
        ConnectionAbortedError: nothing was.
    """
    if replica not in answers:
        raise ConnectionAbortedError(f"an answer says nothing of {replica}, which was asked about")
    return answers[replica]


def fetched(reply: Any) -> dict[TopicPartition, Any]:
    """The answer to a fetch by partition.

    Raises:
        ConnectionAbortedError: the broker refused all of it.
    """
    if reply.error_code:
        raise ConnectionAbortedError(f"the broker refused a fetch as a whole: {error_name(reply.error_code)}")
    return {
        TopicPartition(topic.topic, answer.partition_index): answer
        for topic in reply.responses
        for answer in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Partitions as requests list them: topic by topic."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for replica in partitions:
        topics[replica.topic].append(replica)
    return iter(topics.items())


def read_batches(connection: Connection, replica: TopicPartition, offset: int, max_bytes: int = 1) -> bytes:
    """The record batches from the one that holds ``offset`` on, as the leader gives them to a consumer (Fetch v11).

    At least one batch comes, whatever ``max_bytes``; empty at the high watermark.

    Raises:
        OSError: the broker did not answer, or refused.
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
    """An answer to ListOffsets; offset and epoch are None where ``error`` is set."""

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
    """Ask one broker for an offset of each partition (ListOffsets v5), in any leader epoch or in these alone.

    As the debugging consumer any replica answers, ``LATEST`` being its log end offset; as a ``CONSUMER`` only
    the leader does, ``LATEST`` being the high watermark, or the last stable offset for isolation level 1.

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
    """``list_offsets`` for one partition."""
    replica = TopicPartition(topic, partition)
    return about(list_offsets(connection, [replica], timestamp, replica_id), replica)


@dataclass(frozen=True)
class PartitionView:
    """What one broker believes about a partition; ``leader`` is -1 where there is none."""

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
    """What one broker believes about the cluster; ``brokers`` maps the live ones to (host, port)."""

    sent_ns: int
    received_ns: int
    controller_id: int
    brokers: dict[int, tuple[str, int]]
    partitions: list[PartitionView]


def metadata(connection: Connection, topics: Iterable[str] | None) -> ClusterView:
    """A broker's own cache (Metadata v7); unknown topics are left out, None asks for all of them.

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
    """The metadata quorum as its leader sees it; ``voters`` maps each to its log end offset, -1 where unknown."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]


def describe_quorum(connection: Connection) -> QuorumView | None:
    """KRaft's metadata quorum (DescribeQuorum v0), asked of a controller; None where it does not lead it.

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
    """The answer to one produce request; ``base_offset`` is None without an acknowledgement that carried one."""

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
    """Send each batch of values in a request of its own (Produce v7), one after the other, with no retries.

    A broken connection ends it: that batch carries ``timeout`` or ``unreachable``, those after it ``never_sent``, as
    do all from the one on before which ``go_on`` says no.
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
    if not told:  # nobody knows whether it was written
        return Produced(sent_ns, None, None, UNREACHABLE)
    answer = told[0]
    return Produced(sent_ns, done_ns, _seen(answer.base_offset), error_name(answer.error_code))
