"""The wire probe: bytes on the socket, and conclusions from two pipelined responses."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import google_crc32c
import pytest
from kafka.errors import CorruptRecordError
from kafka.protocol.metadata import MetadataRequest

from clusters.kafka import wire
from clusters.kafka.certificates import issue
from clusters.kafka.security import Access
from clusters.kafka.wire import BrokerProbe, Connection, FetchSession, ListedOffset, QuorumView, Wanted, describe_quorum
from history.partition import TopicPartition

T0 = TopicPartition("t", 0)

# --- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, None),
        (1, "OFFSET_OUT_OF_RANGE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        (-1, "UNKNOWN_SERVER_ERROR"),
        (999, "ERROR_999"),
    ],
)
def test_errors_carry_the_protocols_names(code: int, name: str | None) -> None:
    """Error codes have the names of Kafka's protocol guide; an unknown code keeps its number."""
    assert wire.error_name(code) == name


# --- bytes -------------------------------------------------------------------------------------


def test_divergence_fetch_in_bytes() -> None:
    """The divergence request is Fetch v12 as a consumer, without a session, at offset 2^62, with the given epoch."""
    request = wire._divergence_request([(T0, 3, 2)])

    assert bytes(request.encode()).hex(" ") == (
        "ff ff ff ff  00 00 00 00  00 00 00 00  00 00 00 01  00  00 00 00 00  ff ff ff ff "  # replica … session epoch
        "02 02 74 02  00 00 00 00  00 00 00 03  40 00 00 00 00 00 00 00  00 00 00 02 "  # t-0, epoch 3, 2^62, epoch 2
        "ff ff ff ff ff ff ff ff  00 00 00 01  00  00  01  01  00"  # log start, max bytes, tags, forgotten, rack, tags
    ).replace("  ", " ")


def test_plain_fetch_in_bytes() -> None:
    """The plain request is Fetch v11 at the log end offset, so that the response has offsets but no records."""
    request = wire._plain_fetch({T0: ListedOffset(7, 3, None)})

    assert bytes(request.encode()).hex(" ") == (
        "ff ff ff ff  00 00 00 00  00 00 00 00  00 00 00 01  00  00 00 00 00  ff ff ff ff "
        "00 00 00 01 00 01 74  00 00 00 01  00 00 00 00  00 00 00 03  00 00 00 00 00 00 00 07 "
        "ff ff ff ff ff ff ff ff  00 00 00 01  00 00 00 00  00 00"
    ).replace("  ", " ")


def test_records_are_consumed_in_bytes() -> None:
    """``consume`` sends Fetch v11 as a consumer without waiting, which any replica in this epoch answers."""
    asked: list[str] = []
    batch = wire.record_batch([b"a", b"b"], 1000)

    def send(request: Any) -> Any:
        asked.append(bytes(request.encode()).hex(" "))
        answer = SimpleNamespace(partition_index=0, error_code=0, records=batch)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(topic="t", partitions=[answer])])

    broker: Any = SimpleNamespace(send=send)
    given, error = wire.consume(broker, T0, 1, 3)

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

    assert wire.preferred_replica(broker, T0, 1, "east") == (preferred, None)
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


def wanted(**offsets: int) -> dict[TopicPartition, Wanted]:
    """Return fetch positions from ``t<partition>=offset``."""
    return {TopicPartition("t", int(name[1:])): Wanted(offset, 5, -1) for name, offset in offsets.items()}


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
    assert wire.consume(answering(None, error_code=1), T0, 7, 3) == ([], "OFFSET_OUT_OF_RANGE")


@pytest.mark.parametrize(("attributes", "given"), [(0x30, []), (0x10, [b"a"])])
def test_the_end_of_a_transaction_is_no_record(attributes: int, given: list[bytes]) -> None:
    """Control batches are dropped; records within a transaction are not."""
    batch = bytearray(wire.record_batch([b"a"], 1000))
    batch[21:23] = attributes.to_bytes(2, "big")
    batch[17:21] = google_crc32c.value(bytes(batch[21:])).to_bytes(4, "big")

    assert [record.value for record in wire.consume(answering(bytes(batch)), T0, 0, 3)[0]] == given


def test_a_batch_that_was_damaged_says_so() -> None:
    """Every record of a batch with a wrong checksum is marked as damaged."""
    batch = bytearray(wire.record_batch([b"a", b"b"], 1000))
    batch[-2] ^= 1

    assert [record.sound for record in wire.consume(answering(bytes(batch)), T0, 0, 3)[0]] == [False, False]


def test_a_batch_that_cannot_be_decoded_is_no_silence() -> None:
    """A batch that cannot be decoded raises CorruptRecordError; an OSError would look like a broken connection."""
    batch = bytearray(wire.record_batch([b"a", b"b"], 1000))
    batch[22] |= 1  # gzip

    with pytest.raises(CorruptRecordError, match="from offset 7 on: BadGzipFile"):
        wire.consume(answering(bytes(batch)), T0, 7, 3)


def test_record_batch_in_bytes() -> None:
    """One record ``a`` at 1000 ms is encoded as format v2 with its CRC-32C and without a producer id."""
    assert wire.record_batch([b"a"], 1000).hex() == (
        "0000000000000000" "00000039" "00000000" "02" "ebf1884b" "0000" "00000000"
        "00000000000003e8" "00000000000003e8" "ffffffffffffffff" "ffff" "ffffffff" "00000001" "0e0000000102" "6100"
    )  # fmt: skip


# --- the connection ----------------------------------------------------------------------------

HEADER_FREE_METADATA_V7 = bytes.fromhex(
    "00000000"  # throttle
    "00000001 00000002 0001 62 00002384 ffff"  # one broker: 2 at b:9092, no rack
    "ffff 00000002"  # cluster id, controller
    "00000001 0000 0001 74 00"  # topic t
    "00000001 0000 00000000 00000002 00000005"  # partition 0: leader 2, epoch 5
    "00000002 00000002 00000001 00000001 00000002 00000001 00000001"  # replicas 2 1, ISR 2, offline 1
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def serve(server: socket.socket, reply: bytes | None) -> threading.Thread:
    """Answer one request with a frame that has its correlation id, or hang up if ``reply`` is None."""

    def answer() -> None:
        peer, _ = server.accept()
        with peer:
            size = int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big")
            request = peer.recv(size, socket.MSG_WAITALL)
            if reply is not None:
                frame = request[4:8] + reply
                peer.sendall(len(frame).to_bytes(4, "big") + frame)
                peer.recv(1)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_metadata_is_read_from_the_socket(listener: socket.socket) -> None:
    """A metadata response yields brokers, controller, leader, epoch, replicas in order, ISR and offline replicas."""
    thread = serve(listener, HEADER_FREE_METADATA_V7)
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        view = wire.metadata(connection, ["t"])
    thread.join()

    assert (view.brokers, view.controller_id) == ({2: ("b", 9092)}, 2)
    assert [wire.PartitionView("t", 0, 2, 5, [2, 1], [2], [1])] == view.partitions


@pytest.mark.parametrize(("offline", "told"), [([], ""), ([1], " offline [1]")])
def test_a_view_is_told_in_words(offline: list[int], told: str) -> None:
    """A partition view is printed with leader, epoch, ISR and offline replicas, for time-out messages."""
    assert str(wire.PartitionView("t", 0, 2, 5, [2, 1], [2], offline)) == f"t-0: leader 2 epoch 5 ISR [2]{told}"


def test_silence_is_a_timeout(listener: socket.socket) -> None:
    """A connection that is accepted and never answered (a paused broker) is a time-out."""
    with Connection(*listener.getsockname(), timeout_s=0.05) as connection, pytest.raises(TimeoutError) as raised:
        wire.metadata(connection, ["t"])

    assert wire.transport_error_name(raised.value) == "timeout"


def test_refused_is_unreachable(listener: socket.socket) -> None:
    """A refused connection (a dead broker) is unreachable."""
    address = listener.getsockname()
    listener.close()
    with Connection(*address, timeout_s=5) as connection, pytest.raises(OSError, match="refused") as raised:
        wire.metadata(connection, ["t"])

    assert wire.transport_error_name(raised.value) == "unreachable"


def test_a_connection_opens_again_after_it_broke(listener: socket.socket) -> None:
    """After a broken connection the next request opens a new one."""
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        thread = serve(listener, None)
        with pytest.raises(ConnectionResetError):
            wire.metadata(connection, ["t"])
        thread.join()
        thread = serve(listener, HEADER_FREE_METADATA_V7)

        assert wire.metadata(connection, ["t"]).controller_id == 2
    thread.join()


def hang_up_after(server: socket.socket, answers: list[int]) -> tuple[list[threading.Event], threading.Thread]:
    """Accept connections in turn and hang up after this many requests on each; return an event per connection."""
    closed = [threading.Event() for _ in answers]

    def serve_each() -> None:
        for count, event in zip(answers, closed, strict=True):
            peer, _ = server.accept()
            with peer:
                for _ in range(count):
                    size = int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big")
                    frame = peer.recv(size, socket.MSG_WAITALL)[4:8] + HEADER_FREE_METADATA_V7
                    peer.sendall(len(frame).to_bytes(4, "big") + frame)
            event.set()

    thread = threading.Thread(target=serve_each, daemon=True)
    thread.start()
    return closed, thread


def test_a_connection_that_its_broker_closed_is_opened_again(listener: socket.socket) -> None:
    """A connection that the broker closed when idle is opened again without an error; an open one is kept."""
    closed, thread = hang_up_after(listener, [2, 1])
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        for _ in range(2):
            assert wire.metadata(connection, ["t"]).controller_id == 2
        assert closed[0].wait(5)

        assert wire.metadata(connection, ["t"]).controller_id == 2
    thread.join()


def test_a_write_whose_connection_breaks_is_not_sent_again(listener: socket.socket) -> None:
    """A produce request whose connection breaks is not sent again, since it may have been appended."""
    thread = serve(listener, None)
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        (produced,) = wire.produce(connection, "t", 0, [[b"a"]], "all")
        thread.join()
        listener.setblocking(False)

        assert produced.error == "unreachable"
        with pytest.raises(BlockingIOError):  # there is no second connection
            listener.accept()


def test_an_interrupt_leaves_no_answer_to_the_next_request(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupted request, the next one opens a new connection, so it cannot read the old response."""
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        thread = serve(listener, HEADER_FREE_METADATA_V7)
        with monkeypatch.context() as patch:
            patch.setattr(wire.Incoming, "receive", lambda _, sock: (sock.recv(1000), interrupt()))
            with pytest.raises(KeyboardInterrupt):
                wire.metadata(connection, ["t"])
        thread.join()
        thread = serve(listener, HEADER_FREE_METADATA_V7)

        assert wire.metadata(connection, ["t"]).controller_id == 2
    thread.join()


def interrupt() -> Any:
    """Raise what Airflow raises when a task times out, or Ctrl-C."""
    raise KeyboardInterrupt


def test_nonsense_is_no_answer(listener: socket.socket) -> None:
    """A response that is no Kafka frame counts as a broken connection."""
    thread = serve(listener, b"\x7f\xff")
    with Connection(*listener.getsockname(), timeout_s=5) as connection, pytest.raises(OSError, match="invalid"):
        wire.metadata(connection, ["t"])
    thread.join()


# --- secured connections -------------------------------------------------------------------------


def converse(server: socket.socket, replies: list[bytes], tls: ssl.SSLContext | None = None) -> list[bytes]:
    """Answer requests in turn on one connection; return the list to which they are added."""
    requests: list[bytes] = []

    def answer() -> None:
        plain, _ = server.accept()
        with tls.wrap_socket(plain, server_side=True) if tls else plain as peer, peer.makefile("rwb") as stream:
            for reply in replies:
                requests.append(stream.read(int.from_bytes(stream.read(4), "big")))
                frame = requests[-1][4:8] + reply
                stream.write(len(frame).to_bytes(4, "big") + frame)
                stream.flush()
            stream.read(1)  # until the other end is closed

    threading.Thread(target=answer, daemon=True).start()
    return requests


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, Access]:
    """A broker's TLS context, and a client's access to it."""
    issue(tmp_path, {"broker-1": "127.0.0.1"})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "broker-1.pem")
    return context, Access("probe", str(tmp_path), tls="one_way")


def test_metadata_is_read_over_tls(listener: socket.socket, tls: tuple[ssl.SSLContext, Access]) -> None:
    """Metadata are read over TLS."""
    context, access = tls
    converse(listener, [HEADER_FREE_METADATA_V7], context)
    with Connection(*listener.getsockname(), timeout_s=5, access=access) as connection:
        assert wire.metadata(connection, ["t"]).controller_id == 2


def test_an_answer_of_many_tls_records_is_read_as_it_arrives(
    listener: socket.socket, tls: tuple[ssl.SSLContext, Access]
) -> None:
    """A response that spans many TLS records of 16 KiB is read whole."""
    context, access = tls
    head, topic = HEADER_FREE_METADATA_V7[:27], HEADER_FREE_METADATA_V7[31:]
    converse(listener, [head + (2000).to_bytes(4, "big") + 2000 * topic], context)
    with Connection(*listener.getsockname(), timeout_s=5, access=access) as connection:
        answer = connection.send(MetadataRequest[7](topics=None, allow_auto_topic_creation=False))

    assert len(answer.topics) == 2000


def test_a_broker_that_pauses_in_the_handshake_is_a_timeout(
    listener: socket.socket, tls: tuple[ssl.SSLContext, Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is paused during the TLS handshake is a time-out."""
    _, access = tls
    monkeypatch.setattr(wire, "MIN_HANDSHAKE_S", 0.05)
    with (
        Connection(*listener.getsockname(), timeout_s=0.05, access=access) as connection,
        pytest.raises(TimeoutError) as raised,
    ):
        wire.metadata(connection, ["t"])

    assert wire.transport_error_name(raised.value) == "timeout"


def test_a_handshake_may_take_longer_than_an_answer(
    listener: socket.socket, tls: tuple[ssl.SSLContext, Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handshake may take longer than a request: a broker that just started is slow, and retries start over."""
    context, access = tls
    given: list[float | None] = []

    def encrypted(own: Access, sock: socket.socket, host: str) -> socket.socket:
        given.append(sock.gettimeout())
        return own.context.wrap_socket(sock, server_hostname=host)

    monkeypatch.setattr(Access, "encrypted", encrypted)
    for timeout_s in (0.25, 5.0):
        converse(listener, [HEADER_FREE_METADATA_V7], context)
        with Connection(*listener.getsockname(), timeout_s=timeout_s, access=access) as connection:
            wire.metadata(connection, ["t"])

    assert given == [wire.MIN_HANDSHAKE_S, 5.0]


MECHANISMS = bytes.fromhex("0000 00000001 0005") + b"PLAIN"
LET_IN = bytes.fromhex("0000 ffff 00000000 0000000000000000")  # no error, nothing more to say, no end of the session
TURNED_AWAY = bytes.fromhex("003a ffff 00000000 0000000000000000")


@pytest.fixture
def plain(tmp_path: Path) -> Access:
    """Access by user and password."""
    access = Access("probe", str(tmp_path), sasl="PLAIN")
    access.write_password("s3cret")
    return access


def test_a_connection_logs_in_before_its_first_request(listener: socket.socket, plain: Access) -> None:
    """A connection authenticates once, by SaslHandshake v1 and SaslAuthenticate v1, before its first request."""
    requests = converse(listener, [MECHANISMS, LET_IN, HEADER_FREE_METADATA_V7, HEADER_FREE_METADATA_V7])
    with Connection(*listener.getsockname(), timeout_s=5, access=plain) as connection:
        views = [wire.metadata(connection, ["t"]) for _ in range(2)]

    assert [view.controller_id for view in views] == [2, 2]
    assert [struct.unpack(">hh", request[:4]) for request in requests] == [(17, 1), (36, 1), (3, 7), (3, 7)]
    assert requests[1].endswith(b"\0plimsoll\0s3cret")


def test_who_is_turned_away_reaches_nobody(listener: socket.socket, plain: Access) -> None:
    """A failed authentication is unreachable; the error has the broker's reason without the password."""
    converse(listener, [MECHANISMS, TURNED_AWAY])
    with (
        Connection(*listener.getsockname(), timeout_s=5, access=plain) as connection,
        pytest.raises(ConnectionAbortedError, match="rejects the login: SASL_AUTHENTICATION_FAILED") as raised,
    ):
        wire.metadata(connection, ["t"])

    assert wire.transport_error_name(raised.value) == "unreachable"
    assert "s3cret" not in str(raised.value)


# --- conclusions -------------------------------------------------------------------------------


@dataclass
class FakeReplica:
    """A replica at its broker: ascending epoch cache of (epoch, start offset); ``current`` is the leader epoch."""

    cache: list[tuple[int, int]]
    current: int
    log_end: int
    high_watermark: int = 0
    error: int = 0
    versions: list[int] = field(default_factory=list)
    before_second: Any = None  # called between two pipelined requests

    def exchange(self, requests: list[Any]) -> list[Any]:
        answers = []
        for number, request in enumerate(requests):
            if number == 1 and self.before_second:
                self.before_second(self)
            answers.append(self.send(request))
        return answers

    def send(self, request: Any) -> Any:
        self.versions.append(request.API_VERSION)
        request.encode()
        if request.API_VERSION == 5:
            listed = SimpleNamespace(
                partition_index=0, error_code=self.error, offset=self.log_end, leader_epoch=self.current
            )
            return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[listed])])
        asked = request.topics[0].partitions[0]
        code = self.error or (asked.current_leader_epoch < self.current and 74) or 0
        end = None
        if not code and request.API_VERSION == 12:
            end = self.end_of(asked.last_fetched_epoch)
            code = 0 if end is not None else 1
        answer = SimpleNamespace(
            partition_index=0,
            error_code=code,
            high_watermark=self.high_watermark,
            log_start_offset=0,
            last_stable_offset=-1,
            diverging_epoch=SimpleNamespace(end_offset=end) if end is not None else None,
        )
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(topic="t", partitions=[answer])])

    def end_of(self, epoch: int) -> int | None:
        """Return the start of the next cached epoch, the log end for the newest, or None beyond it."""
        later = [start for cached, start in self.cache if cached > epoch]
        if later:
            return later[0]
        return self.log_end if any(cached == epoch for cached, _ in self.cache) else None


def ends(replica: FakeReplica, rounds: int = 1, probe: BrokerProbe | None = None) -> list[tuple[int | None, Any]]:
    """Return (log end offset, single reply) of each sample in this many rounds."""
    probe = probe or BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    return [(sample.log_end_offset, sample.single_reply) for _ in range(rounds) for sample in probe.sample()]


def test_second_round_is_one_reply() -> None:
    """The first round learns the epoch by ListOffsets; later rounds get both offsets from one Fetch v12."""
    replica = FakeReplica(cache=[(4, 0)], current=4, log_end=10)

    assert ends(replica, 3) == [(10, False), (10, True), (10, True)]
    assert replica.versions == [5, 11, 12, 12]


def test_cached_epoch_older_than_the_current_one() -> None:
    """If a follower has no batch of the new epoch yet, its older epoch counts once the newer is shown to be absent."""
    replica = FakeReplica(cache=[(3, 0)], current=4, log_end=10)

    assert ends(replica, 3) == [(10, False), (10, False), (10, True)]


def test_end_of_an_older_epoch_is_no_log_end() -> None:
    """When the new epoch's first batch arrives, the end of the old epoch (10) is not taken for the log end (12)."""
    replica = FakeReplica(cache=[(3, 0)], current=4, log_end=10)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    ends(replica, 3, probe)
    replica.cache, replica.log_end = [(3, 0), (4, 10)], 12

    assert ends(replica, 2, probe) == [(12, True), (12, True)]


def test_batch_of_an_epoch_between_arrives_between_two_requests() -> None:
    """If a batch of another epoch arrives between the two requests, the log end is read by a plain request."""
    replica = FakeReplica(cache=[(2, 0)], current=5, log_end=10)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    assert ends(replica, 5, probe)[-1] == (10, True)

    def append(replica: FakeReplica) -> None:
        replica.cache, replica.log_end, replica.before_second = [(2, 0), (3, 10)], 15, None

    replica.before_second = append

    assert ends(replica, 2, probe) == [(15, False), (15, True)]


def test_new_leader_epoch_is_learned_in_the_same_round() -> None:
    """A fenced epoch (74) is replaced in the same round."""
    replica = FakeReplica(cache=[(4, 0)], current=4, log_end=10)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    ends(replica, 2, probe)
    replica.current = 5

    samples = [*probe.sample(), *probe.sample()]

    assert [(s.leader_epoch, s.log_end_offset, s.single_reply) for s in samples] == [(5, 10, False), (5, 10, True)]


def test_empty_log_has_zeros_in_two_replies() -> None:
    """A follower with an empty log has no epoch and still yields its offsets, with two replies."""
    assert ends(FakeReplica(cache=[], current=0, log_end=0), 4) == [(0, False)] * 4


def test_a_log_without_an_epoch_is_no_sample() -> None:
    """A log whose leader epoch is unknown yields an error, as after a broker's start in ZooKeeper mode."""
    replica = FakeReplica(cache=[], current=-1, log_end=9)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    (sample,) = probe.sample()

    assert (sample.error, sample.leader_epoch, sample.log_end_offset) == ("UNKNOWN_LEADER_EPOCH", None, None)
    replica.current = 0
    assert ends(replica, 1, probe) == [(9, False)]


def test_absent_replica_is_an_error_without_values() -> None:
    """A broker without the replica yields its error and no values."""
    replica = FakeReplica(cache=[], current=0, log_end=9, error=6)
    (sample,) = BrokerProbe(replica, {T0}).sample()  # type: ignore[arg-type]  # it has the two methods that are used

    assert (
        sample.error,
        sample.leader_epoch,
        sample.high_watermark,
        sample.log_end_offset,
    ) == ("NOT_LEADER_OR_FOLLOWER", None, None, None)


def test_one_shot_probe_walks_to_a_single_reply() -> None:
    """A single probe repeats its requests until it finds the replica's cached epoch."""
    replica = FakeReplica(cache=[(1, 0)], current=4, log_end=10, high_watermark=8)
    sample = wire.probe(replica, "t", 0)  # type: ignore[arg-type]  # it has the two methods that are used

    assert (
        sample.single_reply,
        sample.leader_epoch,
        sample.high_watermark,
        sample.log_end_offset,
        sample.last_stable_offset,
    ) == (True, 4, 8, 10, None)


# --- produce -----------------------------------------------------------------------------------


def test_broken_connection_ends_a_write() -> None:
    """After a broken connection the current batch is unknown and later ones are never_sent."""
    answered = SimpleNamespace(error_code=0, base_offset=7)
    reply = SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answered])])

    class Breaking:
        script: Iterator[Any] = iter([[reply], TimeoutError()])

        def exchange(self, requests: list[Any]) -> list[Any]:
            step = next(self.script)
            if isinstance(step, Exception):
                raise step
            return list(step)

    connection: Any = Breaking()
    produced = list(wire.produce(connection, "t", 0, [[b"a"], [b"b"], [b"c"]], "all"))

    assert [(p.base_offset, p.error) for p in produced] == [(7, None), (None, "timeout"), (None, "never_sent")]
    assert [p.sent_ns is not None for p in produced] == [True, True, False]


def test_a_write_that_is_given_up_sends_no_more() -> None:
    """A write that is given up keeps its answers and marks the rest never_sent."""
    answered = SimpleNamespace(error_code=7, base_offset=-1)
    reply = SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answered])])
    connection: Any = SimpleNamespace(exchange=lambda _: [reply])
    goes_on = iter([True, False])
    produced = wire.produce(connection, "t", 0, [[b"a"], [b"b"], [b"c"]], "all", go_on=lambda: next(goes_on))

    assert [p.error for p in produced] == ["REQUEST_TIMED_OUT", "never_sent", "never_sent"]


def test_acks_0_is_not_waited_for() -> None:
    """With acks=0 the write does not wait for an answer, so it has neither offset nor error."""

    class Silent:
        def exchange(self, requests: list[Any]) -> list[Any]:
            return []

    (produced,) = wire.produce(Silent(), "t", 0, [[b"a"]], "0")  # type: ignore[arg-type]  # scripted

    assert (produced.base_offset, produced.error) == (None, None)


def quorum_answer(leader: int = 101, error: int = 0, whole_error: int = 0) -> Any:
    """Return a controller's DescribeQuorum response."""
    voters = [SimpleNamespace(replica_id=100, log_end_offset=-1), SimpleNamespace(replica_id=101, log_end_offset=9)]
    partition = SimpleNamespace(
        error_code=error, leader_id=leader, leader_epoch=4, high_watermark=8, current_voters=voters
    )
    return SimpleNamespace(error_code=whole_error, topics=[SimpleNamespace(partitions=[partition])])


@pytest.mark.parametrize(
    ("answer", "view"),
    [
        (quorum_answer(), QuorumView(101, 4, 8, {100: -1, 101: 9})),
        (quorum_answer(error=6), None),
        (quorum_answer(whole_error=41), None),
        (SimpleNamespace(error_code=0, topics=None), None),
    ],
)
def test_only_the_quorums_leader_tells_of_it(answer: Any, view: QuorumView | None) -> None:
    """Only the quorum leader's response yields a view; other controllers answer with an error."""
    connection: Any = SimpleNamespace(send=lambda _: answer)

    assert describe_quorum(connection) == view
