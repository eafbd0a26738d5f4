"""Queries to whichever broker answers."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.attached import queries
from clusters.attached.queries import AnyBroker, NoBroker
from clusters.kafka.connection import Connection
from clusters.runtimes.ports import Endpoint


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

    with pytest.raises(NoBroker, match=r"The cluster cannot be reached. b:1: refused; b:2: refused."):
        AnyBroker(lambda broker: Connection("b", broker, 1.0), [1, 2]).query(query)


def test_a_connection_is_to_a_broker_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections to others are closed, and the one that is returned stays open."""
    closed: list[int] = []

    def metadata(connection: Connection, _topics: object) -> None:
        if connection.port == 1:
            raise TimeoutError

    monkeypatch.setattr(queries, "metadata", metadata)
    monkeypatch.setattr(Connection, "close", lambda connection: closed.append(connection.port))

    brokers = AnyBroker(lambda address: Connection(*address, 1.0), [Endpoint("b", 1), Endpoint("b", 2)])
    assert brokers.connection().port == 2
    assert closed == [1]
