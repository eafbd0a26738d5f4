"""Effects, verdicts and powers, against values from tables or computed by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.statistics.effects import (
    Effect,
    censored_effect,
    censored_verdict,
    detection_rate,
    fisher,
    holm,
    log_ratio,
    paired_effect,
    pairs_needed,
    percent,
    sd_interval,
    smallest_effect,
    verdict_of,
)
from history.errors import BadInput

FIVE = [0.1, 0.2, 0.3, 0.4, 0.5]  # mean 0.3, sd sqrt(0.025); t(0.975, 4) = 2.77645, so +/- 2.77645 * 0.0707107
LOGS = st.lists(st.floats(-2, 2), min_size=2, max_size=20)
TIMES = st.lists(st.tuples(st.floats(0.1, 100), st.booleans()), min_size=1, max_size=12)


def effect(mean: float, half: float, p: float = 0.001) -> Effect:
    """Return an effect whose interval reaches ``half`` to both sides."""
    return Effect(10, mean, half, mean - half, mean + half, p)


# --- effects --------------------------------------------------------------------------------------


def test_a_ratio_of_two_runs():
    """11 against 10 is +10%, and the reverse its negative; very large ratios are capped."""
    assert percent(log_ratio(10, 11)) == pytest.approx(10)
    assert percent(2000.0) == percent(1000.0) == pytest.approx(999_900)
    assert log_ratio(11, 10) == -log_ratio(10, 11)


@pytest.mark.parametrize(("base", "head"), [(0, 1), (1, 0), (-1, 2), (math.nan, 1)])
def test_what_is_not_above_zero_has_no_ratio(base, head):
    """Values that are not above zero are rejected with their numbers."""
    with pytest.raises(BadInput, match="must be above 0"):
        log_ratio(base, head)


def test_the_paired_interval():
    """Interval and p of five log ratios follow the t distribution with 4 degrees of freedom."""
    found = paired_effect(FIVE)

    assert found is not None
    assert found[:5] == pytest.approx((5, 0.3, 0.158114, 0.103676, 0.496324), abs=1e-6)
    assert found.p == pytest.approx(0.01324, abs=1e-5)  # t = 4.2426


def test_one_pair_has_no_interval():
    """One pair has no interval; two have."""
    assert paired_effect([0.3]) is None
    assert paired_effect([0.3, 0.4]) is not None


def test_pairs_without_any_noise():
    """Equal pairs without noise give p = 1 if the effect is zero, otherwise p = 0."""
    none, certain = paired_effect([0.0, 0.0]), paired_effect([0.5, 0.5])

    assert none is not None
    assert certain is not None
    assert (none.low, none.high, none.p) == (0.0, 0.0, 1.0)
    assert (certain.low, certain.high, certain.p) == (0.5, 0.5, 0.0)


@settings(derandomize=True)
@given(LOGS)
def test_swapping_the_arms_mirrors_the_effect(logs):
    """Swapping the sides negates the effect."""
    one, other = paired_effect(logs), paired_effect([-log for log in logs])

    assert one is not None
    assert other is not None
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low))
    assert one.p == pytest.approx(other.p)


@settings(derandomize=True)
@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.sampled_from([1e-3, 60, 1e9]))
def test_the_unit_does_not_matter(base, head, factor):
    """The ratio does not depend on the unit."""
    assert log_ratio(base * factor, head * factor) == pytest.approx(log_ratio(base, head), abs=1e-9)


# --- Holm and the four verdicts -------------------------------------------------------------------


def test_holm():
    """Holm's correction multiplies 0.01, 0.03 and 0.04 by 3, 2 and 1, and keeps them monotonic."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@settings(derandomize=True)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_the_order_and_lies_between_none_and_bonferroni(p_values):
    """Adjusted p values keep the order and are between the raw ones and Bonferroni's."""
    adjusted = holm(p_values)

    assert sorted(zip(p_values, adjusted, strict=True)) == list(zip(sorted(p_values), sorted(adjusted), strict=True))
    assert all(p <= a <= min(1, len(p_values) * p) + 1e-12 for p, a in zip(p_values, adjusted, strict=True))


@pytest.mark.parametrize(
    ("found", "p_adjusted", "verdict"),
    [
        (effect(math.log(1.06), 0.05), 0.01, "regression"),
        (effect(math.log(1.04), 0.03), 0.01, "inconclusive"),  # excludes 0, but the estimate is within the margin
        (effect(math.log(1.06), 0.07), 0.09, "inconclusive"),  # beyond the margin, but the interval holds 0
        (effect(math.log(1.06), 0.05), 0.06, "inconclusive"),  # Holm does not let it pass
        (effect(math.log(1.04), 0.009), 0.001, "equivalent"),  # a difference for certain, smaller than the margin
        (effect(0.0, 0.048), 1.0, "equivalent"),  # log 1.05 is 0.04879
        (effect(0.0, 0.049), 1.0, "inconclusive"),
        (effect(-math.log(1.06), 0.05), 0.01, "improvement"),
    ],
)
def test_the_four_verdicts(found, p_adjusted, verdict):
    """The four verdicts at a margin of 5%, each with a near miss."""
    assert verdict_of(found, margin=0.05, better="lower", p_adjusted=p_adjusted) == verdict


def test_where_more_is_better_less_is_a_regression():
    """A decrease of 6% is an improvement for latency and a regression for a rate."""
    lower = effect(-math.log(1.06), 0.05)

    assert verdict_of(lower, margin=0.05, better="lower", p_adjusted=0.01) == "improvement"
    assert verdict_of(lower, margin=0.05, better="higher", p_adjusted=0.01) == "regression"


@settings(derandomize=True)
@given(LOGS, st.sampled_from([0.01, 0.05, 0.2]))
def test_swapping_the_arms_swaps_the_verdict(logs, margin):
    """Swapping the sides swaps regression and improvement."""
    mirror = {"regression": "improvement", "improvement": "regression"}
    found, swapped = paired_effect(logs), paired_effect([-log for log in logs])
    assert found is not None
    assert swapped is not None

    verdict = verdict_of(found, margin=margin, better="lower", p_adjusted=found.p)
    other = verdict_of(swapped, margin=margin, better="lower", p_adjusted=swapped.p)
    assert other == mirror.get(verdict, verdict)


# --- what could be seen ---------------------------------------------------------------------------


def test_the_interval_of_a_standard_deviation():
    """The interval of a standard deviation follows the chi-squared distribution."""
    assert sd_interval(1.0, 10) == pytest.approx((0.6878, 1.8256), abs=1e-4)


def test_detection_rate_without_a_margin_is_the_power_of_the_t_test():
    """Without a margin, the detection rate is the published power of the paired t test."""
    assert detection_rate(1.0, sd=1.0, pairs=10, margin=0) == pytest.approx(0.803, abs=1e-3)
    assert detection_rate(1.0, sd=1.0, pairs=8, margin=0) == pytest.approx(0.68, abs=1e-2)
    assert detection_rate(0.0, sd=1.0, pairs=10, margin=0) == pytest.approx(0.025, abs=1e-6)


def test_an_effect_as_large_as_the_margin_is_found_every_other_time():
    """An effect as large as the margin is detected in half of the cases."""
    assert detection_rate(math.log(1.05), sd=0.001, pairs=10, margin=0.05) == pytest.approx(0.5, abs=1e-3)
    assert detection_rate(math.log(1.04), sd=0.0, pairs=10, margin=0.05) == 0.0
    assert detection_rate(math.log(1.06), sd=0.0, pairs=10, margin=0.05) == 1.0


def test_the_pairs_that_a_worsening_needs():
    """The number of pairs is the smallest that detects a worsening in 80% of the cases."""
    noisy = {"sd": 0.10, "margin": 0.05}
    needed = pairs_needed(math.log1p(0.10), **noisy)

    assert needed is not None
    assert detection_rate(math.log1p(0.10), pairs=needed, **noisy) >= 0.8
    assert detection_rate(math.log1p(0.10), pairs=needed - 1, **noisy) < 0.8
    assert pairs_needed(math.log1p(0.10), tests=3, **noisy) > needed
    assert pairs_needed(math.log1p(0.10), sd=0.0, margin=0.05) == 2
    assert pairs_needed(math.log1p(0.05), sd=0.01, margin=0.05) is None


def test_the_smallest_effect_is_found_four_times_of_five():
    """The smallest effect is detected in 80% of the cases; more metrics increase it, more pairs decrease it."""
    least = smallest_effect(sd=0.07, pairs=10, margin=0.05)

    assert least is not None
    assert detection_rate(least, sd=0.07, pairs=10, margin=0.05) == pytest.approx(0.8, abs=1e-6)
    assert percent(least) == pytest.approx(7.56, abs=0.01)
    assert (smallest_effect(sd=0.07, pairs=10, margin=0.05, tests=2) or 0) > least
    assert (smallest_effect(sd=0.07, pairs=20, margin=0.05) or 1) < least
    assert smallest_effect(sd=0.07, pairs=1, margin=0.05) is None


# --- counts and censored times --------------------------------------------------------------------


def test_fisher():
    """Fisher's exact test: 5 of 10 against 0 of 10 is 0.0325, 1 of 10 is chance, and no runs give 1."""
    assert fisher(5, 10, 0, 10) == pytest.approx(504 / 15504)
    assert fisher(1, 10, 0, 10) == pytest.approx(1.0)
    assert fisher(3, 3, 0, 0) == 1.0


def test_censored_times():
    """Censored times are compared by the log-rank test, with means up to the last time seen on both sides."""
    found = censored_effect([(1, False), (2, False), (3, False)], [(4, False), (5, True), (5, True)])

    assert found is not None
    assert found.limit == 5
    assert found.base == pytest.approx((3, 3, 2, 2))
    assert found.head[:3] == (3, 1, None)  # two thirds had not ended: there is no median
    assert found.head.restricted_mean == pytest.approx(4 + 2 / 3)
    assert found.p == pytest.approx(0.0246, abs=1e-4)  # (3 - 1.15) / sqrt(0.25 + 0.24 + 0.1875) = 2.2476
    assert censored_verdict(found, margin=0.1, better="lower", p_adjusted=found.p) == "regression"
    assert censored_verdict(found, margin=2.0, better="lower", p_adjusted=found.p) == "inconclusive"
    assert censored_verdict(found, margin=0.1, better="lower", p_adjusted=0.06) == "inconclusive"


def test_means_end_where_one_arm_was_no_longer_seen():
    """Restricted means end at the earlier end of observation of the two sides."""
    found = censored_effect([(1, False), (2, True)], [(1, False), (10, False)])

    assert found is not None
    assert found.limit == 2
    assert found.base.restricted_mean == found.head.restricted_mean == 1.5


def test_no_unavailability_against_some():
    """Zero against non-zero times has no ratio, but can be a regression."""
    zeros, some = [(0.0, False)] * 6, [(5.0, False)] * 6
    found, none = censored_effect(zeros, some), censored_effect(zeros, zeros)

    assert found is not None
    assert none is not None
    assert found.log is None
    assert censored_verdict(found, margin=0.1, better="lower", p_adjusted=found.p) == "regression"
    assert censored_verdict(none, margin=0.1, better="lower", p_adjusted=none.p) == "inconclusive"


def test_times_that_never_ended_say_nothing():
    """If all times are censored, p is 1; a side without runs gives None."""
    found = censored_effect([(4, True)], [(4, True), (5, True)])

    assert found is not None
    assert found.p == 1.0
    assert censored_effect([], [(1, False)]) is None


@settings(derandomize=True)
@given(TIMES, TIMES)
def test_swapping_the_arms_mirrors_censored_effects(base, head):
    """Swapping the sides keeps p and inverts the ratio of censored effects."""
    one, other = censored_effect(base, head), censored_effect(head, base)

    assert one is not None
    assert other is not None
    assert one.p == pytest.approx(other.p)
    assert one.log == pytest.approx(-(other.log or 0))
