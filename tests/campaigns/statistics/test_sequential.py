"""When runs are enough to call a build good or bad."""

from __future__ import annotations

import random

import pytest

from campaigns.statistics.sequential import (
    ENOUGH,
    ERROR,
    evidence_of_effects,
    evidence_of_events,
    sd_bound,
    share,
)


def test_a_share_is_never_certain() -> None:
    """Three of three are no proof that it happens always."""
    assert share(3, 3) == pytest.approx(0.875)
    assert share(0, 3) == pytest.approx(0.125)


def test_two_violations_or_three_clean_runs_decide() -> None:
    """Where the bad end showed it in three of three; one run less is not enough."""
    bad = share(3, 3)

    assert evidence_of_events([True], bad) < ENOUGH < evidence_of_events([True, True], bad)
    assert evidence_of_events([False] * 2, bad) > -ENOUGH > evidence_of_events([False] * 3, bad)


def test_pairs_decide_by_the_nearer_end() -> None:
    """Half of the effect says nothing; no effect and the whole of it say as much, one way and the other."""
    assert evidence_of_effects([0.1], 0.2, 0.05) == pytest.approx(0.0)
    assert evidence_of_effects([0.2], 0.2, 0.05) == pytest.approx(8.0)
    assert evidence_of_effects([0.0], 0.2, 0.05) == pytest.approx(-8.0)
    assert evidence_of_effects([-0.2], -0.2, 0.05) == pytest.approx(8.0)


def test_few_pairs_leave_a_wide_bound() -> None:
    """Of three, more than three times what they scatter by."""
    assert sd_bound(0.1, 3) == pytest.approx(0.308, abs=0.001)
    assert sd_bound(0.1, 30) == pytest.approx(0.121, abs=0.001)


@pytest.mark.parametrize("is_bad", [True, False])
def test_the_test_is_as_often_wrong_as_it_says(is_bad: bool) -> None:
    """In at most one of a hundred cases, by 2,000 that were drawn."""
    drawn, wrong, bad = random.Random(1), 0, share(3, 5)
    for _ in range(2_000):
        seen: list[bool] = []
        while abs(evidence_of_events(seen, bad)) < ENOUGH:
            seen.append(drawn.random() < (bad if is_bad else ERROR))
        wrong += (evidence_of_events(seen, bad) > 0) != is_bad

    assert wrong <= 2_000 * ERROR
