"""Claims about the ISR: each verdict on a dozen rows."""

import pytest

from claims.isr import lag_is_10_s
from claims.recording import Recording
from tests.claims.rows import checked, event, recording, settings, state, still, verdict_of, with_hw

# Broker 3 falls silent at 1 s, the leader appends at 1.5 s, the ISR shrinks at 3 s and nothing is written.
SHRUNK = [state(0), state(3, isr=(1, 2))]
WENT_ON = [
    *still(1, 0, 1.4, 5, 5),
    *still(1, 1.5, 2.9, 5, 8),
    *still(1, 3.1, 5, 8, 8),
    *still(2, 0, 1.4, 5, 5),
    *still(2, 1.5, 5, 5, 8),
    *still(3, 0, 1, 5, 5),
]
STUCK = with_hw(WENT_ON, 5)
# The same leader is left alone at 6 s, and appends at 7 s.
LEFT_ALONE = [*SHRUNK, state(6, isr=(1,))]
ALONE = [*still(1, 5.1, 6.9, 8, 8), *still(1, 7, 9, 10, 10)]
HELD_BACK = with_hw(ALONE, 8)
# A follower's fetch alone moves the HW at 0.5 s.
FETCHED = [*still(1, -1, -0.6, 4, 5), *still(1, -0.5, 0, 5, 5)]
SILENT = [event(1, "injected", "pause", "broker-3"), event(6, "heal", "pause", "broker-3")]
STOPPED = [event(3, "injected", "stop", "broker-3"), event(5, "heal", "stop", "broker-3")]
RETURNED = [state(0), state(2.9, isr=(1, 2)), state(6, isr=(1, 2, 3))]

CASES: list[tuple[str, Recording, str]] = [
    ("C5", recording(WENT_ON, SHRUNK), "shown"),
    ("C5", recording(STUCK, SHRUNK), "not observable"),
    ("C12", recording([*FETCHED, *WENT_ON, *ALONE], [state(-2), *LEFT_ALONE]), "shown"),
    ("C12", recording(STUCK, SHRUNK), "refuted"),
    ("C12", recording(WENT_ON, SHRUNK), "not observable"),
    ("C15", recording([], RETURNED, invariants=[checked("I24")]), "shown"),
    ("C15", recording([], RETURNED, invariants=[checked("I24", violations=1)]), "refuted"),
    ("C15", recording([], RETURNED, invariants=[checked("I24", 0)]), "not observable"),
    ("C16", recording(events=SILENT, lag_ms=2000), "refuted"),
    ("C16", recording([], SHRUNK, events=SILENT, lag_ms=2000), "shown"),
    ("C16", recording(events=SILENT), "not observable"),
    ("C17", recording(events=[settings(replica__lag__time__max__ms="30000")]), "refuted"),
    ("C17", recording(events=[settings(replica__lag__time__max__ms="10000")]), "shown"),
    ("C31", recording(events=[settings(replica__lag__time__max__ms="30000")]), "shown"),
    ("C31", recording(events=[settings(replica__lag__time__max__ms="10000")]), "refuted"),
    ("C31", recording(events=[settings(log__segment__bytes="30000")]), "not observable"),
    ("C17", recording(invariants=[checked("I23")]), "not observable"),
    ("C18", recording(WENT_ON, SHRUNK), "shown"),
    ("C18", recording(STUCK, SHRUNK), "refuted"),
    ("C18", recording([*STUCK, *still(1, 5.1, 5.1, 8, 8)], SHRUNK), "refuted"),
    ("C18", recording(STUCK, SHRUNK, min_isr=3), "not observable"),
    ("C20", recording([], SHRUNK), "shown"),
    ("C20", recording([], [state(0, isr=(2, 3))]), "refuted"),
    ("C20", recording([], [state(0, isr=(), leader=-1)]), "not observable"),
    ("C24", recording([], [state(0, partition_epoch=0)]), "refuted"),
    ("C24", recording([], [state(0, isr=(1,), partition_epoch=0)]), "shown"),
    ("C30", recording([], SHRUNK), "shown"),
    ("C30", recording([], [state(0)]), "not observable"),
    ("C30", recording([], [*SHRUNK, state(4, isr=(1, 4))]), "refuted"),
    ("C38", recording([], RETURNED, events=STOPPED), "shown"),
    ("C38", recording([], RETURNED[:2], events=STOPPED), "not observable"),
    ("C38", recording([], [state(0)], events=STOPPED), "refuted"),
    (
        "C38",
        recording([], RETURNED[:2], events=[*STOPPED, event(40, "collected")]),
        "refuted",
    ),
    ("C48", recording([*WENT_ON, *ALONE], LEFT_ALONE, min_isr=2), "shown"),
    ("C48", recording([*WENT_ON, *HELD_BACK], LEFT_ALONE, min_isr=2), "refuted"),
    ("C48", recording([*WENT_ON, *ALONE], LEFT_ALONE), "not observable"),
]


@pytest.mark.parametrize(("claim", "given", "verdict"), CASES)
def test_the_answer_follows_the_rows(claim: str, given: Recording, verdict: str) -> None:
    """Rows show or refute a claim, and nearly equal rows do not."""
    assert verdict_of(claim, given) == verdict


def test_the_default_lag_is_shown_with_the_check_of_evictions() -> None:
    """The default is shown with the judge's check of evictions, if there was one."""
    described = [settings(replica__lag__time__max__ms="30000")]
    for times, rows in ((5, 2), (0, 1)):
        (case,) = lag_is_10_s(recording(events=described, invariants=[checked("I23", times)]))
        assert len(case.evidence) == rows
