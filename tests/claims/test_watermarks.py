"""Claims about HW and LEO: each verdict on a dozen rows."""

from pathlib import Path

import pytest

from claims.recording import Recording
from tests.claims.rows import anomaly, checked, event, note, poll, recording, send, state, still, verdict_of, with_hw

AT_REST = [*still(1, 0, 2, 5, 5), *still(2, 0, 2, 5, 5), *still(3, 0, 2, 5, 5)]
# Broker 3 falls silent at 1 s with LEO 5; the leader and broker 2 go on to 8.
HELD = [
    *still(1, 0, 1.5, 5, 5),
    *still(1, 1.6, 4, 5, 8),
    *still(2, 0, 1.5, 5, 5),
    *still(2, 1.6, 4, 5, 8),
    *still(3, 0, 1, 5, 5),
]
PASSED = with_hw(HELD, 8, leo=8)
# The leader is alone in the ISR from 1 s on and appends at 2 s: with its HW, or without.
# Broker 3 falls silent with the last record, before the fetch by which its leader would hear of it.
UNHEARD = [*still(1, 0, 0.9, 4, 4), *still(1, 1, 4, 4, 5), *still(2, 0, 4, 4, 5), *still(3, 0, 0.9, 4, 4)]
UNHEARD += still(3, 1, 1.1, 4, 5)
HEARD = [*UNHEARD, *still(3, 1.2, 4, 4, 5)]
BACK = [*UNHEARD, *still(3, 3.9, 4, 4, 5)]  # it speaks again, and has not fetched yet
ALONE = [state(0), state(1, isr=(1,))]
MOVED = [*still(1, 0, 1.9, 5, 5), *still(1, 2, 4, 8, 8), *still(2, 0, 0.9, 5, 5), *still(3, 0, 0.9, 5, 5)]
FROZEN = with_hw(MOVED, 5)
BRIEF = [*still(1, 0, 0.5, 5, 5), *still(2, 0, 0.5, 5, 5), *still(3, 0, 0.5, 5, 5)]
SILENT = [event(1.1, "injected", "pause", "broker-3"), event(4, "heal", "pause", "broker-3")]
EVERYTHING = [poll(1, offset) for offset in range(5)]

CASES: list[tuple[str, Recording, str]] = [
    ("C1", recording(HELD), "shown"),
    ("C1", recording(PASSED), "refuted"),
    ("C1", recording(FROZEN, ALONE), "refuted"),
    ("C1", recording(AT_REST), "not observable"),
    ("C1", recording(HEARD), "refuted"),
    ("C1", recording(UNHEARD), "not observable"),
    ("C1", recording(BACK), "not observable"),
    ("C2", recording(HELD, polls=EVERYTHING), "shown"),
    (
        "C2",
        recording(HELD, polls=EVERYTHING, anomalies=[anomaly("precommitted_read")]),
        "refuted",
    ),
    ("C2", recording(HELD, polls=EVERYTHING, anomalies=[anomaly("poll_skip")]), "shown"),
    ("C2", recording(HELD, polls=EVERYTHING[1:]), "not observable"),
    ("C3", recording(AT_REST, lines=[note(1, 2, 5)]), "shown"),
    ("C3", recording(AT_REST), "not observable"),
    ("C4", recording(HELD), "shown"),
    ("C4", recording(FROZEN, ALONE), "refuted"),
    ("C4", recording(HEARD), "refuted"),
    ("C4", recording(UNHEARD), "shown"),
    (
        "C7",
        recording([*still(1, 0, 1, 5, 5), *still(1, 2, 3, 6, 6)], sends=[send(1.5, 5)]),
        "shown",
    ),
    (
        "C7",
        recording([*still(1, 0, 1, 5, 5), *still(1, 2, 3, 7, 7)], sends=[send(1.5, 6)]),
        "refuted",
    ),
    ("C7", recording(still(1, 0, 1, 5, 5), sends=[send(1.5, 5)]), "not observable"),
    ("C8", recording(HELD), "shown"),
    ("C8", recording([*still(1, 0, 3, 5, 5), *still(2, 0, 3, 5, 6)]), "refuted"),
    ("C8", recording(AT_REST), "not observable"),
    (
        "C10",
        recording([*HELD, *still(3, 4.5, 5, 8, 8)], lines=[note(0.5, 3, 5), note(1.7, 2, 8)], events=SILENT),
        "refuted",
    ),
    (
        "C10",
        recording([*HELD, *still(3, 4.5, 5, 5, 5)], lines=[note(1.7, 3, 8)], events=SILENT),
        "shown",
    ),
    (
        "C10",  # it had them, and a new leader took them from it
        recording([*HELD, *still(3, 4.5, 5, 5, 5, epoch=1)], lines=[note(1.7, 3, 8)], events=SILENT),
        "not observable",
    ),
    (
        "C10",
        recording([*AT_REST, *still(3, 3, 4, 5, 5)], lines=[note(0.5, 3, 5)], events=SILENT),
        "not observable",
    ),
    ("C11", recording(AT_REST), "shown"),
    ("C11", recording([*still(1, 0, 2, 5, 5), *still(2, 0, 2, 4, 5)]), "refuted"),
    (
        "C13",
        recording([*still(1, 0, 2, 5, 5), *still(2, 0, 1, 4, 5), *still(2, 1.1, 2, 5, 5)], polls=[poll(0.95, 4)]),
        "shown",
    ),
    ("C13", recording(AT_REST, polls=[poll(0.95, 4)]), "not observable"),
    ("C13", recording(AT_REST, anomalies=[anomaly("precommitted_read")]), "refuted"),
    ("C4", recording(BRIEF), "not observable"),
    ("C11", recording(BRIEF), "not observable"),
    ("C22", recording(BRIEF), "not observable"),
    ("C25", recording(BRIEF), "not observable"),
    ("C14", recording(AT_REST, invariants=[checked("I2")]), "shown"),
    ("C14", recording(AT_REST, invariants=[checked("I2", violations=1)]), "refuted"),
    ("C14", recording(AT_REST, invariants=[checked("I1", violations=1)]), "not observable"),
    ("C1", recording(HELD, invariants=[checked("I7", violations=1)]), "refuted"),
    ("C1", recording(HELD, invariants=[checked("I7")]), "shown"),
    ("C19", recording(HELD), "shown"),
    ("C19", recording(PASSED), "refuted"),
    ("C19", recording(AT_REST), "not observable"),
    (
        "C21",
        recording(
            [*still(1, 0, 1, 5, 5), *still(1, 1.2, 2, 6, 6), *still(2, 0, 1, 5, 5), *still(2, 1.5, 2, 6, 6)],
            lines=[note(1.1, 3, 6), note(1.15, 2, 6)],
        ),
        "shown",
    ),
    (
        "C21",
        recording(AT_REST, lines=[note(1.1, 3, 5), note(1.15, 2, 5)]),
        "not observable",
    ),
    ("C22", recording(AT_REST), "refuted"),
    ("C22", recording([*still(1, 0, 2, 5, 5), *still(2, 0, 2, 5, 6)]), "shown"),
    (
        "C23",
        recording([*still(1, 0, 1, 4, 4), *still(1, 2, 3, 5, 5), *still(1, 4, 5, 6, 6)]),
        "refuted",
    ),
    (
        "C23",
        recording(
            [
                *still(1, 0, 1, 4, 4),
                *still(1, 2, 3, 5, 5, log_start_offset=4),
                *still(1, 4, 5, 6, 6, log_start_offset=5),
            ]
        ),
        "not observable",
    ),
    ("C25", recording(AT_REST), "refuted"),
    (
        "C25",
        recording([*still(1, 0, 2, 6, 6), *still(2, 0, 2, 6, 6), *still(3, 0, 2, 5, 5)]),
        "shown",
    ),
    (
        "C47",
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
        "C47",
        recording(
            [*still(1, 0, 1, 5, 5), *still(1, 1.1, 3, 6, 6), *still(2, 0, 1, 5, 5), *still(2, 1.1, 3, 6, 6)],
            sends=[send(1.05, 5)],
        ),
        "not observable",
    ),
]


@pytest.mark.parametrize(("claim", "given", "verdict"), CASES)
def test_the_answer_follows_the_rows(claim: str, given: Recording, verdict: str) -> None:
    """Rows show or refute a claim, and nearly equal rows do not."""
    assert verdict_of(claim, given) == verdict


def test_committed_offsets_leave_open_what_committed_them(tmp_path: Path) -> None:
    """Without committed offsets a moving HW refutes that it commits; a topic of them decides nothing."""
    moving = [*still(1, 0, 1, 4, 4), *still(1, 2, 3, 5, 5), *still(1, 4, 5, 6, 6)]
    assert verdict_of("C23", recording(moving, folder=tmp_path)) == "refuted"

    (tmp_path / "brokers" / "broker-1" / "data" / "__consumer_offsets-0").mkdir(parents=True)
    assert verdict_of("C23", recording(moving, folder=tmp_path)) == "not observable"
