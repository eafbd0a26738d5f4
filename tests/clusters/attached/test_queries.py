"""Queries to whichever broker answers."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.attached.queries import AnyBroker, NoBroker
from clusters.kafka.connection import Connection


def test_the_broker_that_answered_last_is_first() -> None:
    """A silent broker costs its time limit once."""
    queried: list[int] = []

    def query(connection: Connection) -> int:
        queried.append(connection.port)
        if connection.port == 1:
            raise TimeoutError
        return connection.port

    brokers = AnyBroker(lambda broker: Connection("b", broker, 1.0), [1, 2, 3])

    assert [brokers.query(query), brokers.query(query)] == [2, 2]
    assert queried == [1, 2, 2]


def test_each_silent_broker_is_named() -> None:
    """If none answers, the error has a reason for each."""

    def query(connection: Connection) -> Any:
        raise ConnectionRefusedError("refused")

    with pytest.raises(NoBroker, match=r"No broker answers. broker 1: refused; broker 2: refused."):
        AnyBroker(lambda broker: Connection("b", broker, 1.0), [1, 2]).query(query)
