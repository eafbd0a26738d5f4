"""librdkafka's C interface, without a broker that answers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from clusters.clients.librdkafka import PURGED, Delivered, Producer, error_name
from clusters.waiting import wait_until
from history.errors import BadInput

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": 200, "linger.ms": 0, "log_level": 0}
TIMED_OUT, QUEUE_FULL = -192, -184


def produced(producer: Producer, first: int, count: int) -> list[int]:
    """Hand over records of five bytes each for partition 0."""
    data = np.frombuffer(b"abcde" * count, np.uint8)
    return producer.produce(first, np.zeros(count, np.int64), data, np.arange(count + 1) * 5).tolist()


def rows(producer: Producer) -> Iterator[tuple[int, ...]]:
    """Return number, error and offset of each answer so far."""
    while delivered := producer.delivered(events=1):
        yield from zip(*(column.tolist() for column in delivered), strict=True)


def test_each_record_has_its_own_answer() -> None:
    """Records that time out are answered by number, each with the error and without an offset."""
    producer, seen = Producer(NOWHERE, "t"), list[tuple[int, ...]]()
    assert producer.delivered(events=1) is None
    assert produced(producer, 7_000_000_000, 3) == [0, 0, 0]

    def all_answered() -> bool:
        seen.extend(rows(producer))
        return len(seen) >= 3

    wait_until(all_answered, limit_s=20, what="three answers")

    assert Delivered._fields == ("numbers", "errors", "offsets", "partitions")
    assert sorted(number for number, *_ in seen) == [7_000_000_000, 7_000_000_001, 7_000_000_002]
    assert {(error, partition) for _, error, _, partition in seen} == {(TIMED_OUT, 0)}
    assert all(offset < 0 for _, _, offset, _ in seen)


def test_what_is_given_up_is_answered() -> None:
    """A purge answers all records at once, although their time-out is far away and no partition was chosen yet."""
    producer, seen = Producer(NOWHERE | {"delivery.timeout.ms": 60_000}, "t"), list[tuple[int, ...]]()
    keys = np.frombuffer(b"0000000100000002", np.uint8).reshape(2, 8)
    data = np.frombuffer(b"abcdeabcde", np.uint8)
    assert producer.produce(5, np.full(2, -1), data, np.arange(3) * 5, keys).tolist() == [0, 0]
    producer.purge()

    def all_answered() -> bool:
        seen.extend(rows(producer))
        return len(seen) >= 2

    wait_until(all_answered, limit_s=20, what="two answers")

    assert {number for number, *_ in seen} == {5, 6}
    assert all(error in PURGED and partition == -1 for _, error, _, partition in seen)


def test_what_finds_no_room_is_refused() -> None:
    """A record that does not fit into the queue is rejected at once with QUEUE_FULL."""
    producer = Producer(NOWHERE | {"queue.buffering.max.messages": 2, "delivery.timeout.ms": 60_000}, "t")

    assert produced(producer, 0, 3) == [0, 0, QUEUE_FULL]
    producer.purge()
    wait_until(lambda: sum(1 for _ in rows(producer)) == 2, limit_s=20, what="both answers")
    assert produced(producer, 3, 1) == [0]


def test_a_setting_that_the_library_does_not_know_is_refused() -> None:
    """A setting that librdkafka does not know is rejected by name."""
    with pytest.raises(BadInput, match=r"no\.such\.setting"):
        Producer({"no.such.setting": 1}, "t")


@pytest.mark.parametrize(("code", "name"), [(TIMED_OUT, "_MSG_TIMED_OUT"), (QUEUE_FULL, "_QUEUE_FULL")])
def test_names_of_errors(code: int, name: str) -> None:
    """Errors have the names that confluent-kafka gives them."""
    assert error_name(code) == name
