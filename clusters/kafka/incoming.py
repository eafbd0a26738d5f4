"""Receive answers into two alternating buffers: kafka-python's copies cost more than decoding."""

from __future__ import annotations

import socket
import struct

from kafka.errors import InvalidReceiveError

MOST_BYTES = 100_000_000  # as in kafka-python
_FIRST_BYTES = 1 << 12
_SIZE = struct.Struct(">i")


class Incoming:
    """Receive one answer of ``peer`` at a time."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._buffer, self._other = memoryview(bytearray(_FIRST_BYTES)), memoryview(bytearray(_FIRST_BYTES))
        self._filled = 0
        self._end = _SIZE.size

    def receive(self, sock: socket.socket) -> memoryview | None:
        """Read once; return a complete answer, valid until the answer after the next.

        Raises:
            OSError: also if the peer closed the connection.
            InvalidReceiveError: the size is invalid.
        """
        count = sock.recv_into(self._buffer[self._filled : self._end])
        if not count:
            raise ConnectionResetError(f"{self._peer} closed the connection")
        self._filled += count
        if self._filled < self._end:
            return None
        if self._end == _SIZE.size:
            self._begin(*_SIZE.unpack_from(self._buffer))
            return None
        answer = self._buffer[_SIZE.size : self._end]
        self._filled, self._end = 0, _SIZE.size
        self._buffer, self._other = self._other, self._buffer
        return answer

    def _begin(self, size: int) -> None:
        if not 0 < size <= MOST_BYTES:
            raise InvalidReceiveError(f"an answer of {size} bytes")
        self._end += size
        if self._end > len(self._buffer):
            larger = memoryview(bytearray(self._end))
            larger[: self._filled] = self._buffer[: self._filled]
            self._buffer = larger
