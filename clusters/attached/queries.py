"""Query a cluster of which some brokers may be down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from clusters.kafka.connection import Connection
from history.errors import HarnessError

Answer = TypeVar("Answer")
Connect = Callable[[int], Connection]  # by broker id


class NoBroker(HarnessError):  # noqa: N818  # named after what happened
    """No broker answers."""


class AnyBroker:
    """Send each query to a broker that answers, the last one first."""

    def __init__(self, connect: Connect, brokers: Iterable[int]) -> None:
        self._connect, self._brokers = connect, list(brokers)

    def query(self, query: Callable[[Connection], Answer]) -> Answer:
        """Return the first answer.

        Raises:
            NoBroker: none answers.
        """
        reasons = []
        for broker in tuple(self._brokers):
            with self._connect(broker) as connection:
                try:
                    answer = query(connection)
                except OSError as error:
                    reasons.append(f"broker {broker}: {error}")
                    continue
            self._brokers.remove(broker)
            self._brokers.insert(0, broker)
            return answer
        raise NoBroker(f"No broker answers. {'; '.join(reasons)}.")
