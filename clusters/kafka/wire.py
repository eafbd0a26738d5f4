"""Probe one broker's replicas over a plain socket.

A Fetch v12 with an impossible offset and ``last_fetched_epoch`` returns the replica's high watermark, read first, and
that epoch's end offset; for the newest cached epoch that is the log end offset (KAFKA-10554, KIP-595). ``replica_id``
is never a broker's: a follower's fetch would change the leader's view of the ISR. Replicas with an empty epoch cache
need two requests.
Brokers since 2.8 support the pinned versions: Fetch v11/v12, ListOffsets v5, Metadata v7, Produce v7, SaslHandshake v1,
SaslAuthenticate v1.
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
LATEST, EARLIEST = -1, -2
BEYOND_ANY_LOG = 2**62
CONSUMED_BYTES = 1 << 20
FETCHED_PARTITION_BYTES, FETCHED_BYTES = 1 << 20, 1 << 25  # a consumer's default; more exceeds the cache
_MOST_EPOCHS = 2**31 - 1  # after a fetch session's last epoch follows 1
_HEADER_BYTES = 64
# Handshakes are slow on a fresh JVM; a client that retries earlier never connects.
MIN_HANDSHAKE_S = 1.0
# kafka-python's errors for a damaged batch; an invalid gzip stream is an OSError.
UNDECODABLE = (
    *(kafka.errors.CorruptRecordError, kafka.errors.UnsupportedCodecError),
    *(zlib.error, BadGzipFile, EOFError, struct.error),
)

MAX_ROUNDS = 12  # each moves the guessed epoch by one

NONE, OFFSET_OUT_OF_RANGE, UNKNOWN_LEADER_EPOCH = 0, 1, 75
Told = TypeVar("Told")
FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"  # the broker has a newer epoch
_NAMES = {-1: "UNKNOWN_SERVER_ERROR", 6: "NOT_LEADER_OR_FOLLOWER"}  # kafka-python's names differ
UNREACHABLE, TIMEOUT, NEVER_SENT = "unreachable", "timeout", "never_sent"


def error_name(code: int) -> str | None:
    """Return an error code's protocol name, None for 0, ``ERROR_<code>`` if unknown."""
    if code == NONE:
        return None
    name = _NAMES.get(code) or str(kafka.errors.for_code(code).message)
    return f"ERROR_{code}" if name == "UNKNOWN" else name


def transport_error_name(error: OSError) -> str:
    """Return ``timeout`` if a connection existed, else ``unreachable``."""
    return TIMEOUT if isinstance(error, TimeoutError) else UNREACHABLE


# --- connection ------------------------------------------------------------------------------------


class Connection:
    """A connection to one broker, made again after errors or its end; not thread-safe.

    ``forwards_to_controller``: the broker forwards requests (KRaft).
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
        return self.exchange([request])[0]

    def exchange(self, requests: Sequence[Any]) -> list[Any]:
        """Write all requests, then read their answers, none for acks=0; an error closes the connection.

        Raises:
            TimeoutError: not all answers within ``timeout_s`` after connecting.
            OSError: no connection, a broken one, or an invalid answer.
        """
        try:
            return self._exchange(self._open(), requests, time.monotonic() + self.timeout_s)
        except kafka.errors.KafkaError as error:
            self.close()
            raise ConnectionAbortedError(f"{self.host}:{self.port} sent an invalid answer: {error}") from error
        except BaseException:  # after an interrupt, too: the next request must not get this answer
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
            raise ConnectionAbortedError(f"{self.host}:{self.port} rejects the login: {error_name(answer.error_code)}")
        return answer


def _has_ended(idle: socket.socket) -> bool:
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))


@dataclass(frozen=True)
class ReplicaSample:
    """A replica as its own broker reports it; a row of ``replicas``.

    ``leader_epoch`` is the one that the broker accepted; values are null if ``error`` is set. ``single_reply``: both
    offsets are from one reply, else the log end offset is older.
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
    """Known leader epoch and newest cached epoch (-1: none)."""

    current: int
    cached: int

    def settle(self, at: Any | None, after: Any | None) -> Any | None:
        """Return the answer that ends at the log's end, if any, else correct the guess by one epoch."""
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

    A follower's newest cached epoch may be older than its leader epoch. So epoch e's answer is accepted only if e is
    current, or a later answer on this connection shows that e + 1 is not cached.
    """

    connection: Connection
    replicas: set[TopicPartition]
    _known: dict[TopicPartition, _Known] = field(default_factory=dict, init=False)

    def expect_epoch(self, replica: TopicPartition, leader_epoch: int) -> None:
        self._known.setdefault(replica, _Known(leader_epoch, leader_epoch))

    def sample(self) -> list[ReplicaSample]:
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
        """Get log end and epoch by ListOffsets, the rest by a fetch there.

        A fresh ZooKeeper broker may report no epoch (-1): UNKNOWN_LEADER_EPOCH, as fetches return.
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
    """Sample one replica, in a single reply if it has an epoch."""
    replica = TopicPartition(topic, partition)
    return probe_all(connection, [replica], None if known_epoch is None else {replica: known_epoch})[0]


def probe_all(
    connection: Connection, replicas: Iterable[TopicPartition], known_epochs: Mapping[TopicPartition, int] | None = None
) -> list[ReplicaSample]:
    """Sample a broker's replicas, ordered by topic and partition."""
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
    """Build a Fetch v12 from (replica, current epoch, epoch whose end is wanted)."""
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
    """Build a Fetch v11 at log ends: any replica answers (KIP-392)."""
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
    """A consumer's position; ``last_epoch`` is that of the batch before (-1: none)."""

    offset: int
    leader_epoch: int
    last_epoch: int


class FetchSession:
    """Fetch as a consumer in an incremental session (KIP-227): idle partitions cost nothing."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._end()

    def _end(self) -> None:
        self._number = self._epoch = 0
        self._asked: Mapping[TopicPartition, Wanted] = {}

    def fetch(
        self, wanted: Mapping[TopicPartition, Wanted], isolation_level: int, max_wait_ms: int
    ) -> dict[TopicPartition, Any]:
        """Fetch from led partitions (Fetch v12); return those with news, such as a truncated log (KIP-320, KIP-595).

        After an OSError the next fetch starts a new session.
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
    answer = _as_consumer(connection, replica, offset, leader_epoch)
    try:
        return list(_records(answer.records or b"", offset)), error_name(answer.error_code)
    except UNDECODABLE as error:
        raise kafka.errors.CorruptRecordError(f"from offset {offset} on: {type(error).__name__}: {error}") from error


def preferred_replica(
    connection: Connection, replica: TopicPartition, offset: int, rack: str
) -> tuple[int | None, str | None]:
    """Return the broker that the leader names for a ``client.rack`` (None: itself), and its error (KIP-392)."""
    answer = _as_consumer(connection, replica, offset, -1, rack)
    return _seen(answer.preferred_read_replica), error_name(answer.error_code)


def _as_consumer(connection: Connection, replica: TopicPartition, offset: int, epoch: int, rack: str = "") -> Any:
    """Send a Fetch v11: the first version with a rack, the last with topic names on all brokers since 2.8."""
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
    """Return the requested partition's answer, or raise ConnectionAbortedError."""
    if replica not in answers:
        raise ConnectionAbortedError(f"the answer lacks {replica}, which was requested")
    return answers[replica]


def fetched(reply: Any) -> dict[TopicPartition, Any]:
    """Return a fetch's answers by partition, or raise ConnectionAbortedError."""
    if reply.error_code:
        raise ConnectionAbortedError(f"the broker rejected the whole fetch: {error_name(reply.error_code)}")
    return {
        TopicPartition(topic.topic, answer.partition_index): answer
        for topic in reply.responses
        for answer in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Group partitions by topic."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for replica in partitions:
        topics[replica.topic].append(replica)
    return iter(topics.items())


def read_batches(connection: Connection, replica: TopicPartition, offset: int, max_bytes: int = 1) -> bytes:
    """Return the leader's batches from an offset on (Fetch v11), at least one below the high watermark."""
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
    """An answer to ListOffsets; offset and epoch are None if ``error`` is set."""

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
    """List one broker's offset per partition (ListOffsets v5).

    For the debugging consumer any replica answers, and ``LATEST`` is its log end offset. For a ``CONSUMER`` only the
    leader answers with the high watermark, or the last stable offset at isolation level 1.
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
    """A broker's metadata of a partition; ``leader`` -1: none."""

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
    """A broker's metadata of the cluster."""

    sent_ns: int
    received_ns: int
    controller_id: int
    brokers: dict[int, tuple[str, int]]
    partitions: list[PartitionView]


def metadata(connection: Connection, topics: Iterable[str] | None) -> ClusterView:
    """Return a broker's metadata cache (Metadata v7), without unknown topics; None: all."""
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
    """The metadata quorum; ``voters`` → log end offset, -1 if unknown."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]


def describe_quorum(connection: Connection) -> QuorumView | None:
    """Return KRaft's quorum (DescribeQuorum v0), or None if this controller does not lead."""
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


ACKS = {"0": 0, "1": 1, "all": -1}


@dataclass(frozen=True)
class Produced:
    """An answer to one produce request; ``base_offset`` is None if none was returned."""

    sent_ns: int | None
    done_ns: int | None
    base_offset: int | None
    error: str | None


def record_batch(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """Encode an uncompressed record batch v2 without a producer id."""
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
    """Send each batch in its own request (Produce v7), without retries.

    After an error (``timeout``, ``unreachable``) or a False ``go_on``, the rest is ``never_sent``.
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
