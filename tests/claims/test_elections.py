"""Claims about elections: each verdict on a dozen rows."""

from collections.abc import Callable

import pytest

from claims import elections
from claims.answer import Answer
from claims.recording import Recording
from tests.claims.rows import ORDERS, event, judged, line, poll, recording, send, state, still

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
READ = [poll(1, offset) for offset in range(5)]

CASES: list[tuple[Callable[[Recording], Answer], Recording, str]] = [
    (elections.new_leader_has_what_was_visible, recording(BEFORE, FAILED, lines=[LED]), "shown"),
    (
        elections.new_leader_has_what_was_visible,
        recording(BEFORE, FAILED, lines=[{**LED, "log_end_offset": 4}]),
        "refuted",
    ),
    (
        elections.new_leader_has_what_was_visible,
        recording(BEFORE, [state(0, isr=(1, 3)), FAILED[1]], lines=[LED]),
        "refuted",
    ),
    (elections.new_leader_has_what_was_visible, recording(BEFORE, FAILED), "not observable"),
    (elections.followers_first_cut_to_their_hw, recording(BEFORE, FAILED, lines=[FOLLOWS]), "refuted"),
    (elections.followers_first_cut_to_their_hw, recording(BEFORE, FAILED, lines=[LED, FOLLOWS, CUT]), "shown"),
    (
        elections.followers_first_cut_to_their_hw,
        recording(BEFORE, FAILED, lines=[LED_SHORT, FOLLOWS, {**CUT, "log_end_offset": 6}]),
        "refuted",
    ),
    (
        elections.followers_first_cut_to_their_hw,
        recording(BEFORE, FAILED, lines=[{**LED, "log_end_offset": 4}, FOLLOWS, CUT]),
        "not observable",
    ),
    (elections.followers_first_cut_to_their_hw, recording(BEFORE, FAILED, lines=[FOLLOWS, CUT]), "not observable"),
    (
        elections.followers_first_cut_to_their_hw,
        recording(BEFORE, FAILED, lines=[{**FOLLOWS, "high_watermark": 8}]),
        "not observable",
    ),
    (elections.alike_but_not_without_loss, recording(sends=[send(1, 0), send(1, 1)], final=[poll(9, 0)]), "shown"),
    (elections.alike_but_not_without_loss, recording(sends=[send(1, 0)], final=[poll(9, 0)]), "not observable"),
    (elections.replicas_nominate_themselves, recording([], FAILED, lines=[LED_SHORT, FOLLOWS]), "refuted"),
    (elections.replicas_nominate_themselves, recording([], FAILED, lines=[LED, FOLLOWS]), "not observable"),
    (
        elections.replicas_nominate_themselves,
        recording([], [state(0), state(4, isr=(2, 3), leader=3, epoch=1)], lines=PASSED_OVER),
        "shown",
    ),
    (
        elections.replicas_nominate_themselves,
        recording([], [state(0), state(4, leader=2, epoch=1)], lines=[LED_SHORT, FOLLOWS]),  # the old one stays
        "not observable",
    ),
    (elections.first_live_member_in_order_leads, recording([], FAILED), "shown"),
    (
        elections.first_live_member_in_order_leads,
        recording([], [state(0), state(4, isr=(2, 3), leader=3, epoch=1)], found=judged("I20")),
        "refuted",
    ),
    (elections.first_live_member_in_order_leads, recording([], [state(0)]), "not observable"),
    (elections.elections_only_when_leaders_fail, recording(BEFORE, FAILED), "shown"),
    (elections.elections_only_when_leaders_fail, recording(ALIVE, GIVEN_BACK), "refuted"),
    (elections.preferred_election_restores_the_first, recording([], GIVEN_BACK, events=ELECTED), "shown"),
    (
        elections.preferred_election_restores_the_first,
        recording([], [GIVEN_BACK[0], state(4, leader=3, epoch=2)], events=ELECTED),
        "refuted",
    ),
    (elections.preferred_election_restores_the_first, recording([], [state(0)], events=ELECTED), "not observable"),
    (
        elections.preferred_election_restores_the_first,
        recording([], [GIVEN_BACK[0], state(4, leader=3, epoch=2)], events=REFUSED),
        "not observable",
    ),
    (elections.returning_replica_cuts_to_hw_on_disk, recording(BEFORE, FAILED, lines=[LOADED, FIRST]), "refuted"),
    (
        elections.returning_replica_cuts_to_hw_on_disk,
        recording(BEFORE, FAILED, lines=[LED, LOADED, FIRST, CUT_AGAIN]),
        "shown",
    ),
    (
        elections.returning_replica_cuts_to_hw_on_disk,
        recording(BEFORE, FAILED, lines=[{**LED, "log_end_offset": 3}, LOADED, FIRST, CUT_AGAIN]),
        "not observable",
    ),
    (
        elections.returning_replica_cuts_to_hw_on_disk,
        recording(BEFORE, FAILED, lines=[LED_SHORT, LOADED, FIRST, {**CUT_AGAIN, "log_end_offset": 6}]),
        "refuted",
    ),
    (
        elections.returning_replica_cuts_to_hw_on_disk,
        recording(BEFORE, FAILED, lines=[LOADED, {**FIRST, "log_end_offset": 3}]),
        "not observable",
    ),
    (elections.cutting_above_hw_is_safe, recording(BEFORE, FAILED, lines=[LOADED, FIRST]), "refuted"),
    (
        elections.cutting_above_hw_is_safe,
        recording(BEFORE, FAILED, lines=[{**LOADED, "high_watermark": 5}, FIRST]),
        "shown",
    ),
    (elections.cutting_above_hw_is_safe, recording(BEFORE, FAILED), "not observable"),
    (elections.nothing_read_vanishes, recording(BEFORE, FAILED, polls=READ, final=READ), "shown"),
    (
        elections.nothing_read_vanishes,
        recording(BEFORE, FAILED, polls=READ, final=READ, found=judged("I16")),
        "refuted",
    ),
    (
        elections.nothing_read_vanishes,
        recording(BEFORE, FAILED, polls=READ, final=READ, found=judged("nonrepeatable_read")),
        "refuted",
    ),
    (elections.nothing_read_vanishes, recording(BEFORE, polls=READ, final=READ), "not observable"),
]


@pytest.mark.parametrize(("ask", "told", "verdict"), CASES)
def test_the_answer_follows_the_rows(ask: Callable[[Recording], Answer], told: Recording, verdict: str) -> None:
    """Rows show or refute a claim, and nearly equal rows do not."""
    assert ask(told).verdict == verdict


@pytest.mark.parametrize("ask", dict.fromkeys(case[0] for case in CASES))
def test_nothing_recorded_is_nothing_observed(ask: Callable[[Recording], Answer]) -> None:
    """An empty recording neither shows nor refutes a claim."""
    assert ask(Recording(states={ORDERS: [state(0)]}, events=[event(0, "run_started")])).verdict == "not observable"


def test_a_lower_hw_of_a_new_leader_is_told() -> None:
    """The answer names a new leader's lower HW, which is legal while read records remain (KIP-207)."""
    after = still(2, 4.1, 5, 4, 8, epoch=1)

    assert (
        "fell from 5 to 4"
        in elections.nothing_read_vanishes(recording([*BEFORE, *after], FAILED, polls=READ, final=READ)).sentence
    )
