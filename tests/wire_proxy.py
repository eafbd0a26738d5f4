"""Forward the ports of brokers, and note each request that clients send through them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

SIZE_BYTES = 4
WITH_REPLICA_ID = {"Fetch": FetchRequest, "ListOffsets": ListOffsetsRequest}
CONSUMER = -1


class Request(NamedTuple):
    """A request on the wire; ``replica_id`` is None for requests without one."""

    at_ns: int
    broker: int
    name: str
    client_id: str | None
    replica_id: int | None = None


def parsed(frame: bytes, broker: int, at_ns: int) -> Request:
    """Return a request from its frame without the size: key, version, correlation id, client id."""
    key, version = (int.from_bytes(frame[start : start + 2], "big", signed=True) for start in (0, 2))
    length = int.from_bytes(frame[8:10], "big", signed=True)
    client_id = None if length < 0 else frame[10 : 10 + length].decode()
    name = ApiKey(key).name
    return Request(at_ns, broker, name, client_id, _replica_id(name, version, frame))


def _replica_id(name: str, version: int, frame: bytes) -> int | None:
    if name not in WITH_REPLICA_ID:
        return None
    request = WITH_REPLICA_ID[name][version].decode(frame, header=True)
    of_state = request.replica_state.replica_id if name == "Fetch" and version >= 15 and request.replica_state else None
    return int(request.replica_id if of_state is None else of_state)


class Frames:
    """Cut a connection's bytes into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that are complete with these bytes, without their size."""
        self._bytes += data
        while len(self._bytes) >= SIZE_BYTES:
            end = SIZE_BYTES + int.from_bytes(self._bytes[:SIZE_BYTES], "big")
            if len(self._bytes) < end:
                return
            frame = bytes(self._bytes[SIZE_BYTES:end])
            del self._bytes[:end]
            yield frame


class WireProxy:
    """A port of the loopback for each broker."""

    def __init__(self, targets: Mapping[int, int]) -> None:
        self._targets = targets
        self._servers = {broker: socket.create_server(("127.0.0.1", 0)) for broker in targets}
        self.ports = {broker: int(server.getsockname()[1]) for broker, server in self._servers.items()}
        self.requests: list[Request] = []
        self.errors: list[Exception] = []
        for broker in targets:
            threading.Thread(target=self._accept, args=(broker,), daemon=True).start()

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def _accept(self, broker: int) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._servers[broker].accept()
                threading.Thread(target=self._connect, args=(client, broker), daemon=True).start()

    def _connect(self, client: socket.socket, broker: int) -> None:
        """Forward both ways; a broker that is down ends the client's connection."""
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._targets[broker])) as server:
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answers = threading.Thread(target=_copy, args=(server, client), daemon=True)
            answers.start()
            self._forward(client, server, broker)
            answers.join()

    def _forward(self, client: socket.socket, server: socket.socket, broker: int) -> None:
        frames = Frames()
        with suppress(OSError):
            while data := client.recv(1 << 16):
                for frame in frames.add(data):
                    self._note(frame, broker)
                server.sendall(data)
        _shut(server)

    def _note(self, frame: bytes, broker: int) -> None:
        try:
            self.requests.append(parsed(frame, broker, time.monotonic_ns()))
        except Exception as error:  # noqa: BLE001  # whatever cannot be parsed must fail the test, not the connection
            self.errors.append(error)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    _shut(target)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire_proxy(targets: Mapping[int, int]) -> Iterator[WireProxy]:
    """Forward to these ports of brokers until the end."""
    proxy = WireProxy(targets)
    try:
        yield proxy
    finally:
        proxy.close()
