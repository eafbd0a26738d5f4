"""Query a cluster of which some brokers may be down."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Generic, TypeVar

from clusters.kafka.connection import Connection
from clusters.kafka.views import metadata
from clusters.runtimes.ports import Endpoint
from history.errors import HarnessError

Answer = TypeVar("Answer")
Broker = TypeVar("Broker")
Connect = Callable[[int], Connection]  # by broker id


class NoBroker(HarnessError):  # noqa: N818  # named after what happened
    """No broker answers."""


class AnyBroker(Generic[Broker]):
    """Send each query to a broker that answers, the last one first."""

    def __init__(self, connect: Callable[[Broker], Connection], brokers: Iterable[Broker]) -> None:
        self._connect, self._brokers = connect, list(brokers)

    def query(self, query: Callable[[Connection], Answer]) -> Answer:
        """Return the first answer; raise NoBroker if none answers."""
        connection, answer = self._first(query)
        with connection:
            return answer

    def connection(self) -> Connection:
        """Return an open connection to a broker that answers, or raise NoBroker."""
        return self._first(lambda connection: metadata(connection, ()))[0]

    def _first(self, query: Callable[[Connection], Answer]) -> tuple[Connection, Answer]:
        reasons = []
        for broker in tuple(self._brokers):
            with ExitStack() as closing:
                connection = closing.enter_context(self._connect(broker))
                try:
                    answer = query(connection)
                except OSError as error:
                    reasons.append(why_not(connection, error))
                    continue
                closing.pop_all()
            self._brokers.remove(broker)
            self._brokers.insert(0, broker)
            return connection, answer
        raise NoBroker(f"The cluster cannot be reached. {'; '.join(reasons)}.")


def why_not(connection: Connection, error: OSError) -> str:
    """Return why a broker did not answer, without a full stop."""
    address = Endpoint(connection.host, connection.port)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{address} presents a certificate that is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"{address} does not accept TLS ({error.reason}); check security.protocol"
    if isinstance(error, socket.gaierror):
        return f"{address}: the host name cannot be resolved"
    if isinstance(error, TimeoutError):
        return f"{address} did not answer within {connection.timeout_s:g} s; check the address and security.protocol"
    why = error.strerror or str(error).removeprefix(f"{address} ")
    hint = "; check security.protocol" if "closed the connection" in why else ""
    return f"{address}: {why}{hint}"
