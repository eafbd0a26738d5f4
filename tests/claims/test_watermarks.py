"""Claims about HW and LEO: each verdict on a dozen rows."""

from collections.abc import Callable

import pytest

from claims import watermarks
from claims.answer import Answer
from claims.recording import Recording
from tests.claims.rows import ORDERS, event, judged, note, poll, recording, send, state, still

AT_REST = [*still(1, 0, 2, 5, 5), *still(2, 0, 2, 5, 5), *still(3, 0, 2, 5, 5)]
# Broker 3 falls silent at 1 s with LEO 5; the leader and broker 2 go on to 8.
HELD = [
    *still(1, 0, 1.5, 5, 5),
    *still(1, 1.6, 4, 5, 8),
    *still(2, 0, 1.5, 5, 5),
    *still(2, 1.6, 4, 5, 8),
    *still(3, 0, 1, 5, 5),
]
PASSED = [sample._replace(hw=8) if sample.leo == 8 and sample.broker == 1 else sample for sample in HELD]
# The leader is alone in the ISR from 1 s on and appends at 2 s: with its HW, or without.
# Broker 3 falls silent with the last record, before the fetch by which its leader would hear of it.
UNHEARD = [*still(1, 0, 0.9, 4, 4), *still(1, 1, 4, 4, 5), *still(2, 0, 4, 4, 5), *still(3, 0, 0.9, 4, 4)]
UNHEARD += still(3, 1, 1.1, 4, 5)
HEARD = [*UNHEARD, *still(3, 1.2, 4, 4, 5)]
BACK = [*UNHEARD, *still(3, 3.9, 4, 4, 5)]  # it speaks again, and has not fetched yet
ALONE = [state(0), state(1, isr=(1,))]
MOVED = [*still(1, 0, 1.9, 5, 5), *still(1, 2, 4, 8, 8), *still(2, 0, 0.9, 5, 5), *still(3, 0, 0.9, 5, 5)]
FROZEN = [sample._replace(hw=5) for sample in MOVED]
SILENT = [event(1.1, "injected", "pause", "broker-3"), event(4, "heal", "pause", "broker-3")]
EVERYTHING = [poll(1, offset) for offset in range(5)]

CASES: list[tuple[Callable[[Recording], Answer], Recording, str]] = [
    (watermarks.committed_is_on_all_of_the_isr, recording(HELD), "shown"),
    (watermarks.committed_is_on_all_of_the_isr, recording(PASSED), "refuted"),
    (watermarks.committed_is_on_all_of_the_isr, recording(FROZEN, ALONE), "refuted"),
    (watermarks.committed_is_on_all_of_the_isr, recording(AT_REST), "not observable"),
    (watermarks.committed_is_on_all_of_the_isr, recording(HEARD), "refuted"),
    (watermarks.committed_is_on_all_of_the_isr, recording(UNHEARD), "not observable"),
    (watermarks.committed_is_on_all_of_the_isr, recording(BACK), "not observable"),
    (watermarks.consumers_read_up_to_the_hw, recording(HELD, polls=EVERYTHING), "shown"),
    (
        watermarks.consumers_read_up_to_the_hw,
        recording(HELD, polls=EVERYTHING, found=judged("precommitted_read")),
        "refuted",
    ),
    (watermarks.consumers_read_up_to_the_hw, recording(HELD, polls=EVERYTHING, found=judged("poll_skip")), "shown"),
    (watermarks.consumers_read_up_to_the_hw, recording(HELD, polls=EVERYTHING[1:]), "not observable"),
    (watermarks.replicas_keep_hw_and_leo, recording(AT_REST, remotes=[note(1, 2, 5)]), "shown"),
    (watermarks.replicas_keep_hw_and_leo, recording(AT_REST), "not observable"),
    (watermarks.hw_is_the_least_leo_in_the_isr, recording(HELD), "shown"),
    (watermarks.hw_is_the_least_leo_in_the_isr, recording(FROZEN, ALONE), "refuted"),
    (watermarks.hw_is_the_least_leo_in_the_isr, recording(HEARD), "refuted"),
    (watermarks.hw_is_the_least_leo_in_the_isr, recording(UNHEARD), "shown"),
    (
        watermarks.leo_is_the_next_offset,
        recording([*still(1, 0, 1, 5, 5), *still(1, 2, 3, 6, 6)], sends=[send(1.5, 5)]),
        "shown",
    ),
    (
        watermarks.leo_is_the_next_offset,
        recording([*still(1, 0, 1, 5, 5), *still(1, 2, 3, 7, 7)], sends=[send(1.5, 6)]),
        "refuted",
    ),
    (watermarks.leo_is_the_next_offset, recording(still(1, 0, 1, 5, 5), sends=[send(1.5, 5)]), "not observable"),
    (watermarks.leo_moves_on_append, recording(HELD), "shown"),
    (watermarks.leo_moves_on_append, recording([*still(1, 0, 3, 5, 5), *still(2, 0, 3, 5, 6)]), "refuted"),
    (watermarks.leo_moves_on_append, recording(AT_REST), "not observable"),
    (
        watermarks.leaders_note_leos_that_followers_lack,
        recording([*HELD, *still(3, 4.5, 5, 8, 8)], remotes=[note(0.5, 3, 5), note(1.7, 2, 8)], events=SILENT),
        "refuted",
    ),
    (
        watermarks.leaders_note_leos_that_followers_lack,
        recording([*HELD, *still(3, 4.5, 5, 5, 5)], remotes=[note(1.7, 3, 8)], events=SILENT),
        "shown",
    ),
    (
        watermarks.leaders_note_leos_that_followers_lack,  # it had them, and a new leader took them from it
        recording([*HELD, *still(3, 4.5, 5, 5, 5, epoch=1)], remotes=[note(1.7, 3, 8)], events=SILENT),
        "not observable",
    ),
    (
        watermarks.leaders_note_leos_that_followers_lack,
        recording([*AT_REST, *still(3, 3, 4, 5, 5)], remotes=[note(0.5, 3, 5)], events=SILENT),
        "not observable",
    ),
    (watermarks.follower_hw_is_the_lesser, recording(AT_REST), "shown"),
    (watermarks.follower_hw_is_the_lesser, recording([*still(1, 0, 2, 5, 5), *still(2, 0, 2, 4, 5)]), "refuted"),
    (
        watermarks.leader_hw_is_the_partitions,
        recording([*still(1, 0, 2, 5, 5), *still(2, 0, 1, 4, 5), *still(2, 1.1, 2, 5, 5)], polls=[poll(0.95, 4)]),
        "shown",
    ),
    (watermarks.leader_hw_is_the_partitions, recording(AT_REST, polls=[poll(0.95, 4)]), "not observable"),
    (watermarks.leader_hw_is_the_partitions, recording(AT_REST, found=judged("precommitted_read")), "refuted"),
    (watermarks.hw_is_at_most_leo, recording(AT_REST), "shown"),
    (watermarks.hw_is_at_most_leo, recording(AT_REST, found=judged("I2")), "refuted"),
    (watermarks.hw_is_at_most_leo, recording(AT_REST, found=judged("I1")), "shown"),
    (watermarks.slow_member_holds_the_hw, recording(HELD), "shown"),
    (watermarks.slow_member_holds_the_hw, recording(PASSED), "refuted"),
    (watermarks.slow_member_holds_the_hw, recording(AT_REST), "not observable"),
    (
        watermarks.fetch_carries_leo_and_brings_hw,
        recording(
            [*still(1, 0, 1, 5, 5), *still(1, 1.2, 2, 6, 6), *still(2, 0, 1, 5, 5), *still(2, 1.5, 2, 6, 6)],
            remotes=[note(1.1, 3, 6), note(1.15, 2, 6)],
        ),
        "shown",
    ),
    (
        watermarks.fetch_carries_leo_and_brings_hw,
        recording(AT_REST, remotes=[note(1.1, 3, 5), note(1.15, 2, 5)]),
        "not observable",
    ),
    (watermarks.follower_leo_is_leaders_plus_one, recording(AT_REST), "refuted"),
    (watermarks.follower_leo_is_leaders_plus_one, recording([*still(1, 0, 2, 5, 5), *still(2, 0, 2, 5, 6)]), "shown"),
    (
        watermarks.moving_hw_commits_and_deletes,
        recording([*still(1, 0, 1, 4, 4), *still(1, 2, 3, 5, 5), *still(1, 4, 5, 6, 6)]),
        "refuted",
    ),
    (
        watermarks.moving_hw_commits_and_deletes,
        recording([*still(1, 0, 1, 4, 4), *still(1, 2, 3, 5, 5, log_start=4), *still(1, 4, 5, 6, 6, log_start=5)]),
        "not observable",
    ),
    (watermarks.hw_is_least_of_all_plus_one, recording(AT_REST), "refuted"),
    (
        watermarks.hw_is_least_of_all_plus_one,
        recording([*still(1, 0, 2, 6, 6), *still(2, 0, 2, 6, 6), *still(3, 0, 2, 5, 5)]),
        "shown",
    ),
    (
        watermarks.follower_hw_is_a_fetch_behind,
        recording(
            [
                *still(1, 0, 1, 5, 5),
                *still(1, 1.1, 3, 6, 6),
                *still(2, 0, 1, 5, 5),
                *still(2, 1.1, 1.4, 5, 6),
                *still(2, 1.5, 3, 6, 6),
            ],
            sends=[send(1.05, 5)],
        ),
        "shown",
    ),
    (
        watermarks.follower_hw_is_a_fetch_behind,
        recording(
            [*still(1, 0, 1, 5, 5), *still(1, 1.1, 3, 6, 6), *still(2, 0, 1, 5, 5), *still(2, 1.1, 3, 6, 6)],
            sends=[send(1.05, 5)],
        ),
        "not observable",
    ),
]


@pytest.mark.parametrize(("ask", "told", "verdict"), CASES)
def test_the_answer_follows_the_rows(ask: Callable[[Recording], Answer], told: Recording, verdict: str) -> None:
    """Rows show or refute a claim with evidence, and nearly equal rows do not."""
    answer = ask(told)

    assert answer.verdict == verdict
    assert bool(answer.evidence) == (verdict != "not observable")


@pytest.mark.parametrize("ask", dict.fromkeys(case[0] for case in CASES))
def test_nothing_recorded_is_nothing_observed(ask: Callable[[Recording], Answer]) -> None:
    """An empty recording neither shows nor refutes a claim."""
    assert ask(Recording(states={ORDERS: [state(0)]}, events=[event(0, "run_started")])).verdict == "not observable"
