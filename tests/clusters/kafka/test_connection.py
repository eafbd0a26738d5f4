"""Connections over real sockets."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.api_header import RequestHeader

from clusters.kafka import connection as module
from clusters.kafka.access import Access
from clusters.kafka.connection import Connection
from clusters.kafka.producing import produce
from clusters.kafka.properties import render
from clusters.kafka.security import Secrets
from clusters.kafka.views import MetadataReader, PartitionView, metadata, metadata_request


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
    assert module.error_name(code) == name


BEFORE_TOPICS = bytes.fromhex(
    "00"  # tags of the header
    "00000000"  # throttle
    "02 00000002 02 62 00002384 00 00"  # one broker: 2 at b:9092, no rack
    "02 43 00000002"  # cluster id C, controller
)
TOPIC = bytes.fromhex(
    "0000 02 74 00000000 0000 0000 0000 000000000007 00"  # topic t and its id
    "02 0000 00000000 00000002 00000005"  # partition 0: leader 2, epoch 5
    "03 00000002 00000001 02 00000002 02 00000001 00"  # replicas 2 1, ISR 2, offline 1
    "80000000 00"  # rights
)
AFTER_TOPICS = bytes.fromhex("80000000 00")
METADATA_V10 = BEFORE_TOPICS + b"\x02" + TOPIC + AFTER_TOPICS


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
    thread = serve(listener, METADATA_V10)
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        view = metadata(connection, ["t"])
    thread.join()

    assert (view.brokers, view.controller_id) == ({2: ("b", 9092)}, 2)
    assert [PartitionView("t", 0, 2, 5, [2, 1], [2], [1])] == view.partitions
    assert view.topic_ids == {"t": "00000000-0000-0000-0000-000000000007"}


def test_threads_look_up_a_response_class_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers on two connections never look up their class at once: kafka-python can lose a class made twice."""
    inside, most, look_up = [0], [0], RequestHeader.get_response_class

    def slow(header: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        inside[0] -= 1
        return look_up(header)

    monkeypatch.setattr(RequestHeader, "get_response_class", slow)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        serving = [serve(server, METADATA_V10) for server in (one, other)]
        with (
            Connection(*one.getsockname(), timeout_s=5) as first,
            Connection(*other.getsockname(), timeout_s=5) as second,
            ThreadPoolExecutor() as threads,
        ):
            views = list(threads.map(partial(metadata, topics=["t"]), [first, second]))
        for thread in serving:
            thread.join()

    assert ([view.controller_id for view in views], most) == ([2, 2], [1])


def test_an_unchanged_answer_is_decoded_once(listener: socket.socket) -> None:
    """The partitions of responses that differ in the controller are one list; those of another response are read."""
    controller = METADATA_V10.replace(bytes.fromhex("43 00000002"), bytes.fromhex("43 00000009"))
    other = METADATA_V10.replace(bytes.fromhex("00000002 00000005"), bytes.fromhex("00000001 00000006"))
    converse(listener, [METADATA_V10, METADATA_V10, controller, other])
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        reader = MetadataReader(connection, ["t"])
        first, second, third, fourth = (reader.read() for _ in range(4))

    assert first.partitions is second.partitions is third.partitions
    assert second.sent_ns >= first.received_ns
    assert [view.controller_id for view in (first, second, third, fourth)] == [2, 2, 9, 2]
    assert [(part.leader, part.leader_epoch) for part in fourth.partitions] == [(1, 6)]


def test_silence_is_a_timeout(listener: socket.socket) -> None:
    """A connection that is accepted and never answered (a paused broker) is a time-out."""
    with Connection(*listener.getsockname(), timeout_s=0.05) as connection, pytest.raises(TimeoutError) as raised:
        metadata(connection, ["t"])

    assert module.transport_error_name(raised.value) == "timeout"


def test_refused_is_unreachable(listener: socket.socket) -> None:
    """A refused connection (a dead broker) is unreachable."""
    address = listener.getsockname()
    listener.close()
    with Connection(*address, timeout_s=5) as connection, pytest.raises(OSError, match="refused") as raised:
        metadata(connection, ["t"])

    assert module.transport_error_name(raised.value) == "unreachable"


def test_a_connection_opens_again_after_it_broke(listener: socket.socket) -> None:
    """After a broken connection the next request opens a new one."""
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        thread = serve(listener, None)
        with pytest.raises(ConnectionResetError):
            metadata(connection, ["t"])
        thread.join()
        thread = serve(listener, METADATA_V10)

        assert metadata(connection, ["t"]).controller_id == 2
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
                    frame = peer.recv(size, socket.MSG_WAITALL)[4:8] + METADATA_V10
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
            assert metadata(connection, ["t"]).controller_id == 2
        assert closed[0].wait(5)

        assert metadata(connection, ["t"]).controller_id == 2
    thread.join()


def test_a_write_whose_connection_breaks_is_not_sent_again(listener: socket.socket) -> None:
    """A produce request whose connection breaks is not sent again, since it may have been appended."""
    thread = serve(listener, None)
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        (produced,) = produce(connection, "t", 0, [[b"a"]], "all")
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
        thread = serve(listener, METADATA_V10)
        with monkeypatch.context() as patch:
            patch.setattr(module.Incoming, "receive", lambda _, sock: (sock.recv(1000), interrupt()))
            with pytest.raises(KeyboardInterrupt):
                metadata(connection, ["t"])
        thread.join()
        thread = serve(listener, METADATA_V10)

        assert metadata(connection, ["t"]).controller_id == 2
    thread.join()


def interrupt() -> Any:
    """Raise what Airflow raises when a task times out, or Ctrl-C."""
    raise KeyboardInterrupt


def test_nonsense_is_no_answer(listener: socket.socket) -> None:
    """A response that is no Kafka frame counts as a broken connection."""
    thread = serve(listener, b"\x7f\xff")
    with Connection(*listener.getsockname(), timeout_s=5) as connection, pytest.raises(OSError, match="invalid"):
        metadata(connection, ["t"])
    thread.join()


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
    secrets = Secrets(tmp_path / "security", tls="one_way")
    secrets.create({"broker-1": "127.0.0.1"})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secrets.folder / "broker-1.pem")
    return context, Access(secrets.client_file("broker-1"))


def test_metadata_is_read_over_tls(listener: socket.socket, tls: tuple[ssl.SSLContext, Access]) -> None:
    """Metadata are read over TLS."""
    context, access = tls
    converse(listener, [METADATA_V10], context)
    with Connection(*listener.getsockname(), timeout_s=5, access=access) as connection:
        assert metadata(connection, ["t"]).controller_id == 2


def test_an_answer_of_many_tls_records_is_read_as_it_arrives(
    listener: socket.socket, tls: tuple[ssl.SSLContext, Access]
) -> None:
    """A response that spans many TLS records of 16 KiB is read whole."""
    context, access = tls
    converse(listener, [BEFORE_TOPICS + b"\xd1\x0f" + 2000 * TOPIC + AFTER_TOPICS], context)
    with Connection(*listener.getsockname(), timeout_s=5, access=access) as connection:
        answer = connection.send(metadata_request(None))

    assert len(answer.topics) == 2000


def test_a_broker_that_pauses_in_the_handshake_is_a_timeout(
    listener: socket.socket, tls: tuple[ssl.SSLContext, Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is paused during the TLS handshake is a time-out."""
    _, access = tls
    monkeypatch.setattr(module, "MIN_HANDSHAKE_S", 0.05)
    with (
        Connection(*listener.getsockname(), timeout_s=0.05, access=access) as connection,
        pytest.raises(TimeoutError) as raised,
    ):
        metadata(connection, ["t"])

    assert module.transport_error_name(raised.value) == "timeout"


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
        converse(listener, [METADATA_V10], context)
        with Connection(*listener.getsockname(), timeout_s=timeout_s, access=access) as connection:
            metadata(connection, ["t"])

    assert given == [module.MIN_HANDSHAKE_S, 5.0]


MECHANISMS = bytes.fromhex("0000 00000001 0005") + b"PLAIN"
LET_IN = bytes.fromhex("0000 ffff 00000000 0000000000000000")  # no error, nothing more to say, no end of the session
TURNED_AWAY = bytes.fromhex("003a ffff 00000000 0000000000000000")


@pytest.fixture
def plain(tmp_path: Path) -> Access:
    """Access by user and password."""
    jaas = 'PlainLoginModule required username="plimsoll" password="s3cret";'
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    file = tmp_path / "client.properties"
    file.write_text(render(settings))
    return Access(file)


def test_a_connection_logs_in_before_its_first_request(listener: socket.socket, plain: Access) -> None:
    """A connection authenticates once, by SaslHandshake v1 and SaslAuthenticate v1, before its first request."""
    requests = converse(listener, [MECHANISMS, LET_IN, METADATA_V10, METADATA_V10])
    with Connection(*listener.getsockname(), timeout_s=5, access=plain) as connection:
        views = [metadata(connection, ["t"]) for _ in range(2)]

    assert [view.controller_id for view in views] == [2, 2]
    assert [struct.unpack(">hh", request[:4]) for request in requests] == [(17, 1), (36, 1), (3, 10), (3, 10)]
    assert requests[1].endswith(b"\0plimsoll\0s3cret")


def test_who_is_turned_away_reaches_nobody(listener: socket.socket, plain: Access) -> None:
    """A failed authentication is unreachable; the error has the broker's reason without the password."""
    converse(listener, [MECHANISMS, TURNED_AWAY])
    with (
        Connection(*listener.getsockname(), timeout_s=5, access=plain) as connection,
        pytest.raises(ConnectionAbortedError, match="rejects the login: SASL_AUTHENTICATION_FAILED") as raised,
    ):
        metadata(connection, ["t"])

    assert module.transport_error_name(raised.value) == "unreachable"
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(("throttle", "pause_ms"), [("00000000", 0), ("00000bb8", 3_000)])
def test_a_throttled_client_knows_until_when(listener: socket.socket, throttle: str, pause_ms: int) -> None:
    """A response with a throttle time asks for a pause (KIP-219); 0 asks for none."""
    thread = serve(listener, METADATA_V10[:1] + bytes.fromhex(throttle) + METADATA_V10[5:])
    began_ns = time.monotonic_ns()
    with Connection(*listener.getsockname(), timeout_s=5) as connection:
        metadata(connection, ["t"])
    thread.join()
    rest_ns = connection.throttled_until_ns - began_ns
    assert rest_ns < 0 if pause_ms == 0 else rest_ns >= pause_ms * 1_000_000
