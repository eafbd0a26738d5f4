"""A broken invariant is called by a bug's name only where version and broker's log say so."""

import json

import pytest

from judge.checks.known_bugs import named

BROKEN = {"invariant": "I2", "violations": 2, "reason": "first violation on orders-0", "evidence": None}
LINE = {"kind": "hw_lowered", "broker_id": 2, "line": 31, "previous_high_watermark": 9159}


def reason(version="2.8.2", line=None, *, invariant="I2", field="hw_read_first", **evidence):
    """What the row says in the end."""
    shown = json.dumps({"broker_id": 2, field: 9159} | evidence)
    row = BROKEN | {"invariant": invariant, "evidence": shown}
    return named([row], [version], [LINE | (line or {})])[0]["reason"]


def test_kafka_14704_is_named_with_its_line():
    """The high watermark that was too high is the one from which the broker says to have gone back."""
    assert reason() == (
        "first violation on orders-0. This is KAFKA-14704 (a follower raises its high watermark before it cuts its "
        "log; fixed in 3.3.3, 3.4.1 and 3.5.0), as line 31 of broker 2's server.log shows"
    )
    assert "KAFKA-14704" in reason("3.4.0", invariant="I6", field="floor")


def test_a_stale_high_watermark_is_named_where_the_log_was_cut() -> None:
    """Up to 3.4.0 the follower takes the high watermark over before it cuts its log, so that it is another bug's."""
    cut = {"kind": "truncating", "log_end_offset": 9159}

    assert "This is STALE-HW (" in reason("4.3.0", cut, invariant="I10", field="own_log_end")
    assert "STALE-HW" not in reason("3.4.0", cut, invariant="I10", field="own_log_end")
    assert "STALE-HW" not in reason("4.3.0", cut, invariant="I10", field="own_log_end", own_log_end=9160)


@pytest.mark.parametrize(
    ("out_of_sync", "awaited", "is_named"),
    [([(3, 100)], [3], True), ([(2, 150), (3, 149)], [2, 3], True), ([(3, 150)], [3], False), ([(2, 100)], [3], False)],
)
def test_a_high_watermark_that_waits_is_named_where_its_replica_caught_up_meanwhile(
    out_of_sync: list[tuple[int, int]], awaited: list[int], is_named: bool
) -> None:
    """Of a replica that had all of it before, HW waits by another bug, KAFKA-13091."""
    shrinking = {"kind": "isr_shrinking", "out_of_sync": out_of_sync}

    said = reason("4.4.0", shrinking, invariant="I10", field="waited", awaited=awaited, leader_hw=150)
    assert ("This is HW-WAITS (" in said) is is_named


@pytest.mark.parametrize(
    "said",
    [
        reason("3.3.3"),
        reason("3.9.1"),
        reason("unknown"),
        reason(line={"broker_id": 3}),
        reason(line={"previous_high_watermark": 9158}),
        reason(line={"kind": "truncating"}),
        reason(invariant="I3"),
        reason(hw_read_first=9160),
    ],
)
def test_a_near_miss_keeps_its_reason(said):
    """A fixed version, another broker, another value, another line or another invariant."""
    assert said == "first violation on orders-0"


def test_what_holds_is_left_alone():
    """A row without a violation has no evidence to compare."""
    row = BROKEN | {"violations": 0, "reason": None}

    assert named([row], ["2.8.2"], [LINE]) == [row]
