"""Claims about elections: each verdict on a dozen rows."""

import pytest

from claims.elections import nothing_read_vanishes
from claims.recording import Recording
from tests.claims.rows import anomaly, checked, event, line, recording, state, still, verdict_of

# Broker 1 leads until 2 s, broker 2 from 4 s on, and broker 3 follows; HW 5, LEO 8 before.
FAILED = [state(0), state(4, isr=(2, 3), leader=2, epoch=1)]
BEFORE = [*still(1, 0, 2, 5, 8), *still(2, 0, 3.9, 5, 8), *still(3, 0, 3.9, 4, 8)]
LED = line(4.01, "leader_started", 2, 1, leo=8, hw=5)
FOLLOWS = line(4.02, "follower_started", 3, 1, leo=8, hw=4)
CUT = line(4.1, "truncating", 3, leo=4)
LED_SHORT = {**LED, "log_end_offset": 6}  # the follower has more
PASSED_OVER = [line(4.01, "leader_started", 3, 1, leo=8, hw=4), line(4.02, "follower_started", 2, 1, leo=6, hw=4)]
# Broker 1 is back at 6 s.
LOADED = line(6, "log_loaded", 1, hw=3)
FIRST = line(6.1, "follower_started", 1, 1, leo=8, hw=3)
CUT_AGAIN = line(6.2, "truncating", 1, leo=3)
GIVEN_BACK = [state(0, leader=2, epoch=1), state(4, leader=1, epoch=2)]
ALIVE = [*still(2, 0, 3.9, 5, 5, epoch=1), *still(2, 4.1, 6, 5, 5, epoch=2)]
ELECTED = [event(4.1, "elected", "elect", who="preferred", refused=None)]
REFUSED = [event(4.1, "elected", "elect", who="preferred", refused="It is not in sync.")]

CASES: list[tuple[str, Recording, str]] = [
    ("C6", recording([], FAILED, invariants=[checked("I8")]), "shown"),
    ("C6", recording([], FAILED, invariants=[checked("I8", violations=1)]), "refuted"),
    ("C6", recording([], [state(0, isr=(1, 3)), FAILED[1]], invariants=[checked("I8")]), "refuted"),
    ("C6", recording([], FAILED, invariants=[checked("I8", 0)]), "not observable"),
    ("C6", recording([], [state(0)], invariants=[checked("I8")]), "not observable"),
    ("C26", recording(BEFORE, FAILED, lines=[FOLLOWS]), "refuted"),
    ("C26", recording(BEFORE, FAILED, lines=[LED, FOLLOWS, CUT]), "shown"),
    (
        "C26",
        recording(BEFORE, FAILED, lines=[LED_SHORT, FOLLOWS, {**CUT, "log_end_offset": 6}]),
        "refuted",
    ),
    (
        "C26",
        recording(BEFORE, FAILED, lines=[{**LED, "log_end_offset": 4}, FOLLOWS, CUT]),
        "not observable",
    ),
    ("C26", recording(BEFORE, FAILED, lines=[FOLLOWS, CUT]), "not observable"),
    (
        "C26",
        recording(BEFORE, FAILED, lines=[{**FOLLOWS, "high_watermark": 8}]),
        "not observable",
    ),
    ("C27", recording(anomalies=[anomaly("lost_write")]), "shown"),
    ("C27", recording(anomalies=[anomaly("truncated_ack")]), "shown"),
    ("C27", recording(anomalies=[anomaly("inconsistent_offset")]), "not observable"),
    ("C34", recording([], FAILED, lines=[LED_SHORT, FOLLOWS]), "refuted"),
    ("C34", recording([], FAILED, lines=[LED, FOLLOWS]), "not observable"),
    (
        "C34",
        recording([], [state(0), state(4, isr=(2, 3), leader=3, epoch=1)], lines=PASSED_OVER),
        "shown",
    ),
    (
        "C34",
        recording([], [state(0), state(4, leader=2, epoch=1)], lines=[LED_SHORT, FOLLOWS]),  # the old one stays
        "not observable",
    ),
    ("C35", recording([], FAILED, invariants=[checked("I20")]), "shown"),
    (
        "C35",
        recording([], [state(0), state(4, isr=(2, 3), leader=3, epoch=1)], invariants=[checked("I20", violations=1)]),
        "refuted",
    ),
    ("C35", recording([], [state(0)]), "not observable"),
    ("C36", recording(BEFORE, FAILED), "shown"),
    ("C36", recording(ALIVE, GIVEN_BACK), "refuted"),
    ("C36", recording(ALIVE, GIVEN_BACK[:1]), "not observable"),
    ("C37", recording([], GIVEN_BACK, events=ELECTED), "shown"),
    (
        "C37",
        recording([], [GIVEN_BACK[0], state(4, leader=3, epoch=2)], events=ELECTED),
        "refuted",
    ),
    ("C37", recording([], [state(0)], events=ELECTED), "not observable"),
    (
        "C37",
        recording([], [GIVEN_BACK[0], state(4, leader=3, epoch=2)], events=REFUSED),
        "not observable",
    ),
    ("C39", recording(BEFORE, FAILED, lines=[LOADED, FIRST]), "refuted"),
    (
        "C39",
        recording(BEFORE, FAILED, lines=[LED, LOADED, FIRST, CUT_AGAIN]),
        "shown",
    ),
    (
        "C39",
        recording(BEFORE, FAILED, lines=[{**LED, "log_end_offset": 3}, LOADED, FIRST, CUT_AGAIN]),
        "not observable",
    ),
    (
        "C39",
        recording(BEFORE, FAILED, lines=[LED_SHORT, LOADED, FIRST, {**CUT_AGAIN, "log_end_offset": 6}]),
        "refuted",
    ),
    (
        "C39",
        recording(BEFORE, FAILED, lines=[LOADED, {**FIRST, "log_end_offset": 3}]),
        "not observable",
    ),
    ("C40", recording(BEFORE, FAILED, lines=[LOADED, FIRST]), "refuted"),
    (
        "C40",
        recording(BEFORE, FAILED, lines=[{**LOADED, "high_watermark": 5}, FIRST]),
        "shown",
    ),
    ("C40", recording(BEFORE, FAILED), "not observable"),
    ("C46", recording(BEFORE, FAILED, invariants=[checked("I16")]), "shown"),
    (
        "C46",
        recording(BEFORE, FAILED, invariants=[checked("I16", violations=1)]),
        "refuted",
    ),
    (
        "C46",
        recording(BEFORE, FAILED, anomalies=[anomaly("nonrepeatable_read")]),
        "refuted",
    ),
    ("C46", recording(BEFORE, invariants=[checked("I16")]), "not observable"),
]


@pytest.mark.parametrize(("claim", "given", "verdict"), CASES)
def test_the_answer_follows_the_rows(claim: str, given: Recording, verdict: str) -> None:
    """Rows show or refute a claim, and nearly equal rows do not."""
    assert verdict_of(claim, given) == verdict


def test_a_lower_hw_of_a_new_leader_is_evidence() -> None:
    """A new leader's lower HW, which is legal while read records remain (KIP-207), is evidence; a higher one is not."""

    def seen(hw: int) -> list[str]:
        given = recording([*BEFORE, *still(2, 4.1, 5, hw, 8, epoch=1)], FAILED, invariants=[checked("I16")])
        rows = [row for case in nothing_read_vanishes(given) for row in case.evidence]
        return [row.text for row in rows if row.source == "replicas/"]

    assert seen(4) == [
        "orders-0 on broker 1: HW 5, LEO 8, epoch 0",
        "orders-0 on broker 2: HW 4, LEO 8, epoch 1, the next leader",
    ]
    assert seen(6) == []
