"""The description of a topic by the brokers."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.kafka.connection import Connection
from clusters.kafka.producing import record_batch
from clusters.kafka.views import PartitionView
from clusters.live import describe as module
from clusters.live.describe import describe
from history.errors import HarnessError

VIEW = PartitionView("orders", 0, 1, 3, [1, 2, 3], [1, 2], [3])
AT_MS = 1_700_000_000_000


def world(*, answers: bool = True) -> Any:
    """Return a world in which broker 1 answers and leads, or no broker answers."""
    view = SimpleNamespace(partitions=[VIEW, PartitionView("other", 0, 1, 0, [1], [1], [])])
    return SimpleNamespace(
        servers=SimpleNamespace(brokers={1: "broker-1"}),
        reports=SimpleNamespace(
            view_of=lambda _: view if answers else None, connect=lambda _, listener: nullcontext(listener)
        ),
    )


@pytest.fixture(autouse=True)
def wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log from offset 10 to 34 in batches of two records, each batch with its own millisecond."""

    def read(_leader: Connection, _replica: object, offset: int) -> bytes:
        first = offset // 2 * 2
        batch = record_batch([b"a", b"b"], AT_MS + first)
        return first.to_bytes(8, "big") + batch[8:]

    def list_offset(_leader: Connection, _topic: str, _partition: int, timestamp: int = -1) -> Any:
        return SimpleNamespace(offset={-1: 34, -2: 10}.get(timestamp, timestamp - AT_MS))

    monkeypatch.setattr(module, "read_batches", read)
    monkeypatch.setattr(module, "list_offset", list_offset)

    def describe_config(to: object, resource: str, name: str, _settings: object) -> dict[str, dict[str, str]]:
        assert to == "PROBE"
        return {resource: {"default": name}}

    monkeypatch.setattr(module, "describe_config", describe_config)


def test_look_ups_span_the_log() -> None:
    """Look-ups span the log from first to last offset; each has its batch and the offset found by its time."""
    found = describe(world(), "orders")

    assert found["partitions"] == [vars(VIEW)]
    assert found["settings"] == {"broker": {"broker": {"default": "1"}}, "topic": {"topic": {"default": "orders"}}}
    look_ups = found["look_ups"]
    assert [look_ups[0]["offset"], look_ups[-1]["offset"], len(look_ups)] == [10, 33, 12]
    assert look_ups[-1] == {
        "partition": 0,
        "broker": 1,
        "offset": 33,
        "batch": 32,
        "timestamp_ms": AT_MS + 32,
        "at_timestamp": 32,
    }


def test_where_nobody_answers_there_is_nothing_to_describe() -> None:
    """If no broker answers, describing the topic raises an error."""
    with pytest.raises(HarnessError, match="No broker answers"):
        describe(world(answers=False), "orders")
