"""The partitions that a page shows of very many."""

from history.partition import TopicPartition
from reports.shown import MOST_SHOWN, Row, disagreements, first_topic, partitions_of, shown_of

WHERE = TopicPartition("orders", 0)


def _after(broker: int, end: int | None, *, capture: str = "after") -> Row:
    values = {"high_watermark": 7, "log_end_offset": end, "leader_epoch": 5, "log_start_offset": 0}
    return {**WHERE._asdict(), "broker_id": broker, "capture": capture, **values}


def test_replicas_that_end_apart_disagree() -> None:
    """Replicas with different log end offsets at ``after`` disagree on that value only."""
    assert disagreements([_after(1, 9), _after(2, 9), _after(3, 10)]) == {WHERE: ["log_end_offset"]}


def test_replicas_may_differ_before_the_end() -> None:
    """A difference at a phase boundary is no disagreement, and a silent replica is ignored."""
    rows = [_after(1, 9), _after(2, None), _after(3, 10, capture="steady")]

    assert disagreements(rows) == {WHERE: []}


def _rows(*partitions: int) -> list[Row]:
    return [{"topic": "orders", "partition": partition} for partition in partitions]


def _numbers(shown: frozenset[TopicPartition]) -> list[int]:
    return sorted(where.partition for where in shown)


def test_of_few_partitions_all_are_shown() -> None:
    """Up to the limit all partitions are shown."""
    tables = {"delivery": _rows(*range(MOST_SHOWN)), "timeline_isr": _rows(3, 3)}

    assert _numbers(shown_of(tables)) == list(range(MOST_SHOWN))
    assert shown_of(tables) == partitions_of(tables)


def test_of_many_partitions_those_with_cases_come_first() -> None:
    """Above the limit, partitions with cases come first, then those whose replicas disagree.

    Those with the most changes follow, then the first ones by number.
    """
    many = MOST_SHOWN + 200
    apart = [{**_after(broker, 9 + broker), "partition": 150} for broker in (1, 2)]
    changed = _rows(*(partition for partition in range(many) for _ in range(5 if partition == 120 else 2)))
    tables = {"delivery": _rows(*range(many)), "anomalies": _rows(199), "offsets": apart, "timeline_isr": changed}

    assert _numbers(shown_of(tables)) == [*range(MOST_SHOWN - 3), 120, 150, 199]
    assert len(partitions_of(tables)) == many


def test_a_case_of_no_partition_shows_none() -> None:
    """An anomaly of the whole run shows no partition."""
    assert shown_of({"anomalies": [{"topic": None, "partition": None}], "delivery": _rows(1)}) == {("orders", 1)}


def test_the_topic_with_most_to_tell_comes_first() -> None:
    """A topic with a case or a leader change comes before one that is first by name."""
    ballast = {"topic": "ballast", "partition": 0}
    tables = {"delivery": [ballast, *_rows(0)], "timeline_isr": [ballast, *_rows(0, 0)]}

    assert first_topic(tables) == "orders"
    assert first_topic({**tables, "anomalies": [ballast]}) == "ballast"
    assert first_topic({**tables, "timeline_isr": []}) == "ballast"
    assert first_topic({}) == ""
