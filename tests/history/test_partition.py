"""A partition and its name."""

from __future__ import annotations

import pytest

from history.partition import TopicPartition


@pytest.mark.parametrize(
    ("name", "parsed"),
    [("orders-0", ("orders", 0)), ("a-b-12", ("a-b", 12)), ("__consumer_offsets-3", ("__consumer_offsets", 3))],
)
def test_a_name_is_read_back(name: str, parsed: tuple[str, int]) -> None:
    """The last dash divides; a topic may have others."""
    assert TopicPartition.parse(name) == parsed
    assert str(TopicPartition.parse(name)) == name


@pytest.mark.parametrize("name", ["orders", "orders-", "-0", "orders-x", "orders-0-delete", "orders 0-1", ""])
def test_what_is_no_partition_is_refused(name: str) -> None:
    """The sentence says what one looks like."""
    with pytest.raises(ValueError, match="is no partition such as orders-0"):
        TopicPartition.parse(name)


def test_a_row_has_one() -> None:
    """By its columns, whatever else it has."""
    assert TopicPartition.of({"offset": 7, "partition": 1, "topic": "a"}) == TopicPartition("a", 1)
