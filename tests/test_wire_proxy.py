"""The proxy in front of brokers, on literal frames and a socket that stands for a broker."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from clusters.waiting import wait_until
from tests.wire_proxy import Frames, Request, parsed, wire_proxy

METADATA = b"\0\3\0\1\0\0\0\7\0\3ann" + b"\xff\xff\xff\xff"
NAMELESS = b"\0\x12\0\0\0\0\0\1\xff\xff"
FETCH: dict[str, Any] = {
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 1,
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
    "topics": [],
    "forgotten_topics_data": [],
    "rack_id": "",
}


def framed(frame: bytes) -> bytes:
    """Put the size before a frame."""
    return len(frame).to_bytes(4, "big") + frame


def encoded(request: Any) -> bytes:
    """Return a request's frame of client ann."""
    request.with_header(correlation_id=1, client_id="ann")
    return bytes(request.encode(header=True))


def fetch(version: int, replica_id: int) -> bytes:
    """Return a Fetch, whose replica id is in its state since version 15."""
    if version < 15:
        return encoded(FetchRequest[version](replica_id=replica_id, **FETCH))
    state = FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=1)
    return encoded(FetchRequest[version](replica_state=state, **FETCH))


@pytest.mark.parametrize(
    ("frame", "name", "client_id", "replica_id"),
    [
        (METADATA, "Metadata", "ann", None),
        (NAMELESS, "ApiVersions", None, None),
        (fetch(11, -1), "Fetch", "ann", -1),
        (fetch(12, 3), "Fetch", "ann", 3),
        (fetch(16, -1), "Fetch", "ann", -1),
        (fetch(16, 3), "Fetch", "ann", 3),
        (encoded(ListOffsetsRequest[5](replica_id=-2, isolation_level=0, topics=[])), "ListOffsets", "ann", -2),
    ],
)
def test_a_request_is_parsed(frame: bytes, name: str, client_id: str | None, replica_id: int | None) -> None:
    """Name and client id of every request, the replica id of those that have one."""
    assert parsed(frame, 2, 7) == Request(7, 2, name, client_id, replica_id)


def test_frames_are_cut_wherever_the_bytes_end() -> None:
    """Sizes and frames may arrive in parts, and several at once."""
    data, frames = framed(METADATA) + framed(NAMELESS), Frames()
    assert [frame for byte in data for frame in frames.add(bytes([byte]))] == [METADATA, NAMELESS]
    assert list(frames.add(data + data[:2])) == [METADATA, NAMELESS]
    assert list(frames.add(data[2:])) == [METADATA, NAMELESS]


def test_bytes_are_forwarded_and_requests_noted() -> None:
    """The broker gets the request, the client the answer; the end of the broker ends the connection."""

    def answer() -> None:
        connection, _ = broker.accept()
        with connection:
            connection.sendall(connection.recv(100)[::-1])

    with socket.create_server(("127.0.0.1", 0)) as broker, wire_proxy({1: broker.getsockname()[1]}) as proxy:
        threading.Thread(target=answer, daemon=True).start()
        with socket.create_connection(("127.0.0.1", proxy.ports[1]), timeout=5) as client:
            client.sendall(framed(METADATA))
            assert client.recv(100) == framed(METADATA)[::-1]
            assert client.recv(100) == b""
    assert [(each.broker, each.name) for each in proxy.requests] == [(1, "Metadata")]
    assert proxy.errors == []


def test_what_cannot_be_parsed_is_forwarded_and_noted() -> None:
    """An unknown request is an error of the proxy, which goes on."""
    with socket.create_server(("127.0.0.1", 0)) as broker, wire_proxy({1: broker.getsockname()[1]}) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.ports[1]), timeout=5) as client:
            client.sendall(framed(b"\x7f\xff" + METADATA[2:]))
            connection, _ = broker.accept()
            with connection:
                assert connection.recv(100)[4:6] == b"\x7f\xff"
        wait_until(lambda: proxy.errors, limit_s=5, what="the error")
    assert proxy.requests == []
