"""Simulated bisections: answers for builds whose truth is known (docs/trust.md)."""

import json

from campaigns.statistics.sequential import ERROR
from tests.decisions import bisection
from tests.decisions.bisection import CASES, Case, simulated
from tests.docs.writers import trust


def test_a_build_without_the_violation_is_good_after_the_same_number_of_runs() -> None:
    """A build without the violation is good after 7 runs, if a bad build shows it in half of its runs."""
    row = simulated(Case(least=0.5, true=0.0))

    assert (row["good"], row["bad"], row["mean_runs"]) == (row["simulations"], 0, 7.0)


def test_every_case_is_counted_and_no_wrong_answer_is_above_its_bound() -> None:
    """Every case on the page is counted, and no rate of wrong answers is above its limit.

    A rate between good and the least share is no wrong answer in either direction.
    """
    rows = json.loads(bisection.RESULTS.read_text())

    assert [row["case"] for row in rows] == list(CASES)
    for row in rows:
        upper_good = bisection.FALSE_ALARM if row["sd"] is None else 0.0
        if row["true"] <= upper_good:
            assert row["bad_interval"][0] <= ERROR
            assert row["bad"] <= ERROR * row["simulations"]
        if row["true"] >= row["least"]:
            assert row["good"] <= ERROR * row["simulations"]
    assert "## How often is a bisection's answer about a build wrong? (simulated)" in trust.page()
