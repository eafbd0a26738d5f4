"""Connect to one broker (SaslHandshake v1, SaslAuthenticate v1); brokers since 2.8 support all pinned versions."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Self, TypeVar

import kafka.errors
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from clusters.kafka.access import Access
from clusters.kafka.incoming import Incoming
from history.partition import TopicPartition

_HEADER_BYTES = 64
# Handshakes are slow on a fresh JVM; a client that retries earlier never connects.
MIN_HANDSHAKE_S = 1.0

Answer = TypeVar("Answer")
Decode = Callable[[Any, memoryview], Any]  # a response's class and bytes → the response
_NAMES = {-1: "UNKNOWN_SERVER_ERROR", 6: "NOT_LEADER_OR_FOLLOWER"}  # kafka-python's names differ
UNREACHABLE, TIMEOUT = "unreachable", "timeout"
NOT_AUTHORIZED = "TOPIC_AUTHORIZATION_FAILED"
_LOOKUP = threading.Lock()  # kafka-python 3.0.12 keeps a weak reference to one of two classes made at once


def error_name(code: int) -> str | None:
    """Return an error code's protocol name, None for 0, ``ERROR_<code>`` if unknown."""
    if code == 0:
        return None
    name = _NAMES.get(code) or str(kafka.errors.for_code(code).message)
    return f"ERROR_{code}" if name == "UNKNOWN" else name


def transport_error_name(error: OSError) -> str:
    """Return ``timeout`` if a connection existed, else ``unreachable``."""
    return TIMEOUT if isinstance(error, TimeoutError) else UNREACHABLE


def decode(kind: Any, data: memoryview) -> Any:
    """Decode a response as kafka-python does."""
    return kind.decode(data)


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
        self.throttled_until_ns = 0  # the broker asked for a pause until then (KIP-219)
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

    def send(self, request: Any, decode: Decode = decode) -> Any:
        return self.exchange([request], decode)[0]

    def exchange(self, requests: Sequence[Any], decode: Decode = decode) -> list[Any]:
        """Write all requests, then read their answers, none for acks=0; an error closes the connection.

        Raises:
            TimeoutError: not all answers within ``timeout_s`` after connecting.
            OSError: no connection, a broken one, or an invalid answer.
        """
        try:
            return self._exchange(self._open(), requests, time.monotonic() + self.timeout_s, decode)
        except kafka.errors.KafkaError as error:
            self.close()
            raise ConnectionAbortedError(f"{self.host}:{self.port} sent an invalid answer: {error}") from error
        except BaseException:  # after an interrupt, too: the next request must not get this answer
            self.close()
            raise

    def _exchange(
        self, sock: socket.socket, requests: Sequence[Any], deadline: float, decode: Decode = decode
    ) -> list[Any]:
        answers: list[Any] = []
        for request in requests:
            self._protocol.send_request(request)
        sock.settimeout(self.timeout_s)
        sock.sendall(self._protocol.send_bytes())
        while self._protocol.in_flight_requests:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            if (answer := self._incoming.receive(sock)) is not None:
                answers.append(self._decoded(answer, decode))
        return answers

    def _decoded(self, answer: memoryview, decode: Decode) -> Any:
        request = self._protocol.in_flight_requests.popleft()
        with _LOOKUP:
            kind = request.get_response_class()
        start = BytesIO(answer[:_HEADER_BYTES])
        try:
            answers = kind.parse_header(start).correlation_id
            if answers == request.correlation_id:
                decoded = decode(kind, answer[start.tell() :])
                if pause_ms := getattr(decoded, "throttle_time_ms", 0):
                    self.throttled_until_ns = time.monotonic_ns() + pause_ms * 1_000_000
                return decoded
        except (ValueError, IndexError, AssertionError, struct.error) as error:
            raise kafka.errors.KafkaProtocolError(f"{kind.__name__} cannot be read: {error}") from error
        raise kafka.errors.CorrelationIdError(f"answer {answers} to request {request.correlation_id}")

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


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Group partitions by topic."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for replica in partitions:
        topics[replica.topic].append(replica)
    return iter(topics.items())


def about(answers: Mapping[TopicPartition, Answer], replica: TopicPartition) -> Answer:
    """Return the requested partition's answer, or raise ConnectionAbortedError."""
    if replica not in answers:
        raise ConnectionAbortedError(f"the answer lacks {replica}, which was requested")
    return answers[replica]


def known(offset: int) -> int | None:
    """Return an offset, None for the protocol's -1."""
    return None if offset < 0 else int(offset)
