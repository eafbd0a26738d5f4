"""A violated invariant is attributed to a known bug only if version and broker log match."""

import json

import pytest

from judge.checks.known_bugs import named

BROKEN = {"invariant": "I2", "verdict": "fail", "reason": "first violation on orders-0"}
BROKEN |= {"evidence": None, "known_bug": ""}
LINE = {"kind": "hw_lowered", "broker_id": 2, "line": 31, "previous_high_watermark": 9159, "high_watermark": 9100}


def reason(version="2.8.2", line=None, *, invariant="I2", field="hw_read_first", **evidence):
    """Return the reason of the violated invariant's row."""
    shown = json.dumps({"broker_id": 2, field: 9159} | evidence)
    row = BROKEN | {"invariant": invariant, "evidence": shown}
    return named([row], [version], [LINE | (line or {})])[0]["reason"]


def test_kafka_14704_is_named_with_its_line():
    """KAFKA-14704 needs a log line that lowers the HW from the violating value; the reason names that line."""
    assert reason() == (
        "first violation on orders-0. This is KAFKA-14704 (a follower raises its high watermark before it truncates "
        "its log; from 2.8.0 to before 3.3.3, and from 3.4.0 to before 3.4.1), as line 31 of broker 2's server.log "
        "shows"
    )
    assert "KAFKA-14704" in reason("3.4.0", invariant="I6", field="floor")


@pytest.mark.parametrize(
    ("offset", "version", "is_named"),
    [
        (9158, "3.4.0", True),
        (9100, "3.4.0", True),
        (9159, "3.4.0", False),
        (9099, "3.4.0", False),
        (9100, "3.4.1", False),
    ],
)
def test_a_read_of_a_record_above_the_lowered_high_watermark_is_kafka_14704(
    offset: int, version: str, is_named: bool
) -> None:
    """I16 is KAFKA-14704 if a broker, of any id, lowered its HW from above the read offset to it or below."""
    row = BROKEN | {"invariant": "I16", "evidence": json.dumps({"consumer_id": "read-1", "offset": offset})}

    assert ("This is KAFKA-14704 (" in named([row], [version], [LINE])[0]["reason"]) is is_named


def test_a_stale_high_watermark_is_named_where_the_log_was_cut() -> None:
    """STALE-HW needs a truncation at the violating offset; up to 3.4.0 this is another bug."""
    cut = {"kind": "truncating", "log_end_offset": 9159}

    assert "This is STALE-HW (" in reason("4.3.0", cut, invariant="I10", field="own_log_end")
    assert "STALE-HW" not in reason("3.4.0", cut, invariant="I10", field="own_log_end")
    assert "STALE-HW" not in reason("4.3.0", cut, invariant="I10", field="own_log_end", own_log_end=9160)


@pytest.mark.parametrize(
    ("evictions", "awaited", "is_named"),
    [
        ([(3, 100)], [3], True),
        ([(2, 150), (3, 149)], [2, 3], True),
        ([(3, 150)], [3], False),
        ([(3, 100), (3, 150)], [3], False),
        ([(2, 100)], [3], False),
    ],
)
def test_a_high_watermark_that_waits_is_named_where_its_replica_caught_up_meanwhile(
    evictions: list[tuple[int, int]], awaited: list[int], is_named: bool
) -> None:
    """HW-WAITS needs a replica whose log ended below the HW at its last eviction; otherwise it is KAFKA-13091."""
    shown = {"broker_id": 1, "awaited": awaited, "leader_hw": 150, "t_ns": 9}
    row = BROKEN | {"invariant": "I10", "evidence": json.dumps(shown)}
    line = {"kind": "isr_shrinking", "broker_id": 1}
    before = [line | {"line": n, "t_ns": n, "out_of_sync": [gone]} for n, gone in enumerate(evictions)]
    after = [line | {"line": 20, "t_ns": 20, "out_of_sync": [(3, 120)]}]

    assert ("This is HW-WAITS (" in named([row], ["4.4.0"], before + after)[0]["reason"]) is is_named
    assert "HW-WAITS" not in named([row], ["4.4.0"], after)[0]["reason"]


@pytest.mark.parametrize(("mode", "is_named"), [("zookeeper", True), ("kraft", False)])
def test_a_bug_of_one_mode_is_not_named_in_the_other(mode: str, is_named: bool) -> None:
    """HW-WAITS is not named in KRaft mode up to 3.5, where an eviction began a new epoch."""
    shown = {"broker_id": 1, "awaited": [3], "leader_hw": 150, "t_ns": 9}
    row = BROKEN | {"invariant": "I10", "evidence": json.dumps(shown)}
    line = {"kind": "isr_shrinking", "broker_id": 1, "line": 1, "t_ns": 1, "out_of_sync": [(3, 100)]}

    assert ("This is HW-WAITS (" in named([row], ["3.5.2"], [line], mode)[0]["reason"]) is is_named


@pytest.mark.parametrize(
    ("refused", "version", "is_named"),
    [
        ((22, [2]), "3.9.1", True),
        ((22, [1, 2]), "3.9.1", False),
        ((21, [2]), "3.9.1", False),
        ((22, [2]), "4.0.0", False),
    ],
)
def test_a_stale_isr_is_named_where_a_controller_was_refused_what_zookeeper_holds(
    refused: tuple[int, list[int]], version: str, is_named: bool
) -> None:
    """STALE-ISR needs a rejected ISR change with the same ISR and epoch, at any broker."""
    row = BROKEN | {"invariant": "I38", "evidence": json.dumps({"leader": 2, "leader_epoch": 22, "isr": [2]})}
    line = {"kind": "isr_refused", "broker_id": 3, "line": 7, "leader_epoch": refused[0], "isr": refused[1]}

    assert ("This is STALE-ISR (" in named([row], [version], [line])[0]["reason"]) is is_named


@pytest.mark.parametrize("invariant", ["I2", "I6", "I10", "I16", "I38"])
def test_an_invariant_that_holds_has_no_bug(invariant: str) -> None:
    """An invariant that holds is not attributed to a bug."""
    row = BROKEN | {"invariant": invariant, "verdict": "pass", "reason": "", "evidence": None}
    kinds = ("hw_lowered", "truncating", "isr_shrinking", "isr_refused")
    lines = [LINE | {"kind": kind, "log_end_offset": None, "leader_epoch": 1, "isr": [1]} for kind in kinds]

    assert named([row], ["2.8.2", "3.9.1"], lines) == [row]


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
    """Another version, broker, value, line or invariant leaves the reason unchanged."""
    assert said == "first violation on orders-0"


def test_what_holds_is_left_alone():
    """A row without a violation is unchanged."""
    row = BROKEN | {"verdict": "pass", "reason": None}

    assert named([row], ["2.8.2"], [LINE]) == [row]
