"""Produce requests without retries."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from kafka.record import MemoryRecords

from clusters.kafka.producing import produce, record_batch


def test_record_batch_in_bytes() -> None:
    """One record ``a`` at 1000 ms is encoded as format v2 with its CRC-32C and without a producer id."""
    assert record_batch([b"a"], 1000).hex() == (
        "0000000000000000" "00000039" "00000000" "02" "ebf1884b" "0000" "00000000"
        "00000000000003e8" "00000000000003e8" "ffffffffffffffff" "ffff" "ffffffff" "00000001" "0e0000000102" "6100"
    )  # fmt: skip


def test_a_tombstone_has_a_key_and_no_value() -> None:
    """A key is written as bytes, and a missing value is not an empty one."""
    read = [
        (record.key, record.value)
        for batch in MemoryRecords(record_batch([None, b""], 1000, b"orders"))
        for record in batch
    ]

    assert read == [(b"orders", None), (b"orders", b"")]


def test_broken_connection_ends_a_write() -> None:
    """After a broken connection the current batch is unknown and later ones are never_sent."""
    answered = SimpleNamespace(error_code=0, base_offset=7)
    reply = SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answered])])

    class Breaking:
        script: Iterator[Any] = iter([[reply], TimeoutError()])

        def exchange(self, requests: list[Any]) -> list[Any]:
            step = next(self.script)
            if isinstance(step, Exception):
                raise step
            return list(step)

    connection: Any = Breaking()
    produced = list(produce(connection, "t", 0, [[b"a"], [b"b"], [b"c"]], "all"))

    assert [(p.base_offset, p.error) for p in produced] == [(7, None), (None, "timeout"), (None, "never_sent")]
    assert [p.sent_ns is not None for p in produced] == [True, True, False]


def test_a_write_that_is_given_up_sends_no_more() -> None:
    """A write that is given up keeps its answers and marks the rest never_sent."""
    answered = SimpleNamespace(error_code=7, base_offset=-1)
    reply = SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answered])])
    connection: Any = SimpleNamespace(exchange=lambda _: [reply])
    goes_on = iter([True, False])
    produced = produce(connection, "t", 0, [[b"a"], [b"b"], [b"c"]], "all", go_on=lambda: next(goes_on))

    assert [p.error for p in produced] == ["REQUEST_TIMED_OUT", "never_sent", "never_sent"]


def test_acks_0_is_not_waited_for() -> None:
    """With acks=0 the write does not wait for an answer, so it has neither offset nor error."""

    class Silent:
        def exchange(self, requests: list[Any]) -> list[Any]:
            return []

    (produced,) = produce(Silent(), "t", 0, [[b"a"]], "0")  # type: ignore[arg-type]  # scripted

    assert (produced.base_offset, produced.error) == (None, None)
