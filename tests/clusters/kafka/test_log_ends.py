"""Fetch responses without records, as kafka-python encodes them."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse

from clusters.kafka import log_ends
from clusters.kafka.log_ends import decode_ends

TOPIC = FetchResponse.FetchableTopicResponse
PARTITION = TOPIC.PartitionData
V12 = FetchResponse[12]


def partition(index: int, end: int | None = 12, error: int = 0, **change: Any) -> Any:
    """Return a partition of epoch 3 that ends at an offset, or has no diverging epoch."""
    fields = {
        "partition_index": index,
        "error_code": error,
        "high_watermark": 2**40 + index,
        "last_stable_offset": -1,
        "log_start_offset": 5,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": None,
    }
    found = PARTITION(**(fields | change))
    if end is not None:
        found.diverging_epoch = PARTITION.EpochEndOffset(epoch=3, end_offset=end)
    return found


def encoded(*topics: list[Any], throttle: int = 0, error: int = 0) -> memoryview:
    """Return a response with these partitions of topics t0, t1 and so on."""
    responses = [TOPIC(topic=f"t{number}", partitions=partitions) for number, partitions in enumerate(topics)]
    reply = V12(throttle_time_ms=throttle, error_code=error, session_id=0, responses=responses)
    return memoryview(bytes(reply.encode()))


def shown(reply: Any) -> list[Any]:
    """Return what the probe reads of a response."""
    return [
        (reply.throttle_time_ms, reply.error_code),
        *(
            (
                *(topic.topic, each.partition_index, each.error_code, each.high_watermark, each.last_stable_offset),
                *(each.log_start_offset, each.diverging_epoch and each.diverging_epoch.end_offset),
            )
            for topic in reply.responses
            for each in topic.partitions
        ),
    ]


USUAL = {
    "ends": encoded([partition(0), partition(1, 0)], [partition(7)]),
    "errors": encoded([partition(0, None, 1), partition(1, None, 3)], throttle=30),
    "each topic has its layout": encoded([partition(0)], [partition(0, None, 1)]),
    "empty records": encoded([partition(0, records=b"", aborted_transactions=[])]),
    "many": encoded([partition(index) for index in range(300)]),
    "no topic": encoded(error=70),
}
UNUSUAL = {
    "both in one topic": encoded([partition(0), partition(1, None, 1)]),
    "records": encoded([partition(0, records=b"x" * 200)]),
    "an aborted transaction": encoded(
        [partition(0, aborted_transactions=[PARTITION.AbortedTransaction(producer_id=1, first_offset=2)])]
    ),
    "no partition": encoded([]),
}


@pytest.mark.parametrize("layout", USUAL | UNUSUAL)
def test_a_response_is_read_as_by_kafka_python(layout: str) -> None:
    """Every layout yields the same values."""
    data = (USUAL | UNUSUAL)[layout]
    assert shown(decode_ends(V12, data)) == shown(V12.decode(data))


@pytest.mark.parametrize("layout", USUAL | UNUSUAL)
def test_usual_layouts_need_no_kafka_python(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only others do."""
    monkeypatch.setattr(log_ends, "decode", lambda kind, data: None)
    assert (decode_ends(V12, (USUAL | UNUSUAL)[layout]) is not None) is (layout in USUAL)


@pytest.mark.parametrize("layout", USUAL)
def test_a_response_that_is_cut_off_is_left_to_kafka_python(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any byte."""
    monkeypatch.setattr(log_ends, "decode", lambda kind, data: None)
    whole = USUAL[layout]
    assert {decode_ends(V12, whole[:size]) for size in range(0, len(whole), 7)} == {None}
