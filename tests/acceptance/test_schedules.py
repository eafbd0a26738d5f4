"""Series of randomised schedules: their content and their rows."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from clusters.scenario.scenario import merge_patch
from clusters.scenario.schedules import FaultMix, randomised_schedule
from history.results.schedules import ScheduleRun, SchedulesResult
from tests.acceptance.schedules import SCHEDULES, SERIES, Series, row


def run(seed: int, verdict: Any, violations: list[str]) -> ScheduleRun:
    """Return a run of a schedule."""
    return ScheduleRun(
        item="schedule", seed=seed, steps=9, run_id="r", verdict=verdict, sentence="So.", violations=violations
    )


def test_there_are_a_hundred_schedules_and_none_twice() -> None:
    """At least a hundred schedules exist without duplicates; each series has its seeds and its name."""
    drawn = [series.seed + number for series in SERIES for number in range(SCHEDULES)]

    assert len(set(drawn)) == len(drawn) >= 100
    assert len({series.name for series in SERIES}) == len(SERIES)


@pytest.mark.parametrize("series", SERIES, ids=lambda series: series.name)
def test_every_series_makes_schedules(series: Series) -> None:
    """Every series makes schedules with load, and at rest where its mix allows; each has a fault of the mix."""
    mix = FaultMix.model_validate(merge_patch(yaml.safe_load(series.mix.read_text()), series.changes))

    for seed in range(series.seed, series.seed + 3):
        for load in (True, False) if mix.at_rest else (True,):
            made = randomised_schedule(mix, seed=seed, length_s=60, load=load)
            assert any(step.fault for phase in made.phases for step in phase.steps)


def test_a_row_names_what_was_violated_and_what_could_not_be_judged() -> None:
    """A row names the seeds of schedules with violations or without a verdict, and counts the others."""
    result = SchedulesResult(
        kind="fuzz",
        campaign_id="c",
        created_at="2026-11-26T00:00:00+00:00",
        state="fail",
        sentence="One.",
        kafka="4.4.0",
        settings={},
        runs=[run(1, "pass", []), run(2, "fail", ["I6"]), run(3, "unknown", [])],
    )
    found = row(SERIES[0], result)

    assert (found["schedules"], found["violations"], found["unknown"]) == (3, {"2": ["I6"]}, {"3": "So."})
