"""Comparisons whose truth is known are ordinary ones."""

import pytest

from campaigns.compare.campaign import plan
from tests.acceptance.injected import METRIC, SERIES, SHOWS_IN, names, settings


@pytest.mark.parametrize("size", ["00", "03", "10"])
def test_every_series_is_a_comparison_that_can_be_run(size):
    """An injected one is slower in head alone, by whole milliseconds; with none both sides are the same."""
    made = plan(settings(size, pairs=3, aa_pairs=2), campaign_id="c", created_at="2026-01-01", seed=1)
    waits = {
        item.labels["role"]: int(item.changes["cluster"]["config"]["replica.fetch.wait.max.ms"]) for item in made.items
    }

    assert waits == {"base": 56, "base2": 56, "head": {"00": 56, "03": 58, "10": 62}[size]}
    assert made.settings["primary"] == {METRIC: 0.05}
    assert (made.settings["injected_slowdown"] or {"shows_in": SHOWS_IN})["shows_in"] == SHOWS_IN


def test_the_series_hold_what_is_published():
    """Ten pairs of a version against itself, of ten and of twenty percent; every size; a version against itself."""
    assert {size: told[:2] for size, told in SERIES["main"].items()} == {"00": (6, 10), "10": (3, 10), "20": (3, 10)}
    assert list(SERIES["sizes"]) == ["03", "05", "10", "20"]
    assert list(SERIES["itself"]) == ["00"]


def test_every_size_is_tried_before_any_is_tried_again():
    """A series that is broken off holds about as many of each."""
    found = [name for name, _ in names(["sizes", "itself"])]

    assert found[:6] == [
        *(f"truth-sizes-{size}-1" for size in SERIES["sizes"]),
        "truth-itself-00-1",
        "truth-sizes-03-2",
    ]
    assert len(found) == len(set(found)) == 4 * 4 + 8
    assert [name for name, _ in names(["main-20"])] == ["truth-main-20-1", "truth-main-20-2", "truth-main-20-3"]
    assert len(list(names())) == len(found) + 6 + 3 + 3
