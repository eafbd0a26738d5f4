"""When runs are enough to call a build good or bad."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from campaigns.statistics.sequential import ENOUGH, ERROR, clean_runs, evidence_of_effects, evidence_of_events

LEAST = 0.1
TEN_PERCENT = math.log1p(0.1)


def test_two_violations_call_a_build_bad_and_many_clean_runs_good() -> None:
    """One run less is not enough; where a bad build shows it in half of its runs or more, seven clean ones suffice."""
    assert 0 < evidence_of_events([True], LEAST) < ENOUGH < evidence_of_events([True, True], LEAST)
    assert evidence_of_events([False] * 48, LEAST) > -ENOUGH > evidence_of_events([False] * 49, LEAST)
    assert evidence_of_events([], LEAST) == 0.0
    assert [clean_runs(least) for least in (0.1, 0.25, 0.5, 0.9)] == [49, 17, 7, 3]


def test_pairs_decide_once_their_scatter_is_known() -> None:
    """Five at least; half of the least change says nothing, and what scatters as widely as it differs neither."""
    assert evidence_of_effects([0.3, 0.31, 0.29, 0.3], TEN_PERCENT) < ENOUGH
    assert evidence_of_effects([0.3, 0.31, 0.29, 0.3, 0.31], TEN_PERCENT) > ENOUGH
    assert evidence_of_effects([0.0, 0.01, -0.01, 0.0, 0.01], TEN_PERCENT) < -ENOUGH
    assert abs(evidence_of_effects([TEN_PERCENT / 2 + each for each in (0.1, -0.1) * 3], TEN_PERCENT)) < 0.5
    assert abs(evidence_of_effects([0.3, -0.2, 0.4, -0.3, 0.3], TEN_PERCENT)) < ENOUGH


def test_a_metric_of_which_more_is_better_is_worse_below_zero() -> None:
    """The sign of the least change says which way."""
    less = [-0.3, -0.31, -0.29, -0.3, -0.31]

    assert evidence_of_effects(less, -TEN_PERCENT) > ENOUGH
    assert evidence_of_effects(less, TEN_PERCENT) < -ENOUGH
    assert evidence_of_effects([0.2], TEN_PERCENT) == 0.0


def answered(draw: Callable[[], float], evidence: Callable[[Sequence[float]], float], limit: int) -> float:
    """The evidence with which a sequence ends: at an answer, or at the limit."""
    seen: list[float] = []
    while len(seen) < limit and abs(evidence(seen)) < ENOUGH:
        seen.append(draw())
    return evidence(seen)


@pytest.mark.parametrize(
    ("true", "wrong_is_bad"), [(0.01, True), (0.1, False), (0.2, False), (0.5, False), (0.9, False)]
)
def test_the_bound_holds_for_shares_that_the_test_does_not_know(true: float, wrong_is_bad: bool) -> None:
    """Good builds with a false alarm in 1 % of runs, bad ones from the least share on: at most 1 % are wrong."""
    drawn = random.Random(1)
    ends = [
        answered(lambda: drawn.random() < true, lambda seen: evidence_of_events([*map(bool, seen)], LEAST), 80)
        for _ in range(400)
    ]

    assert sum(end >= ENOUGH if wrong_is_bad else end <= -ENOUGH for end in ends) <= 400 * ERROR + 4


@pytest.mark.parametrize(("true", "wrong_is_bad"), [(0.0, True), (-0.2, True), (TEN_PERCENT, False), (0.3, False)])
@pytest.mark.parametrize("sd", [0.03, 0.1])
def test_the_bound_holds_for_effects_and_scatters_that_the_test_does_not_know(
    true: float, wrong_is_bad: bool, sd: float
) -> None:
    """No effect or an improvement, the least effect and a larger one."""
    drawn = random.Random(2)
    ends = [
        answered(lambda: drawn.gauss(true, sd), lambda seen: evidence_of_effects(seen, TEN_PERCENT), 30)
        for _ in range(200)
    ]

    assert sum(end >= ENOUGH if wrong_is_bad else end <= -ENOUGH for end in ends) <= 200 * ERROR + 3
