"""Plan randomised schedules and summarise their violations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from pydantic import Field

from campaigns import randomised
from campaigns.campaign import MAX_TIMES, Campaign, When
from campaigns.fuzz import KIND
from campaigns.fuzz.search import FILE, shrinking
from clusters.scenario.schedules import as_yaml, randomised_schedule
from history.results.schedules import SchedulesResult, Smallest


class Settings(randomised.Question):
    """Settings of a fuzz campaign."""

    schedules: int = Field(default=20, ge=1, le=MAX_TIMES)
    seconds: float = Field(default=90, gt=0, le=randomised.MAX_S)
    shrink_runs: int = Field(default=40, ge=0, le=MAX_TIMES)


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan a schedule per seed, every second one with a load; raise BadInput for settings without a schedule."""
    question = KIND.check(Settings, settings)
    mix = randomised.fault_mix(question.fault_mix, question.runtime)
    items, seed = [], when["seed"]
    for number in range(question.schedules):
        load = number % 2 == 1 or not mix.at_rest
        schedule = randomised_schedule(mix, seed=seed + number, length_s=question.seconds, load=load)
        items.append(randomised.item_of(f"schedule-{number + 1}", schedule, question.kafka, seed + number))
    return Campaign(kind=KIND.name, settings=question.model_dump(mode="json"), items=items, **when)


def result(campaign: Campaign, runs: Mapping[str, Path]) -> SchedulesResult:
    """Summarise the schedules' run folders, and the smallest schedule of those that shrink a violating one."""
    found, summary = shrinking(campaign, runs), randomised.result("fuzz", campaign, runs)
    if found is None or not found.runs:
        return summary
    smallest = Smallest(
        of_item=found.first.item,
        of_steps=found.first.steps,
        run=found.last,
        runs=found.runs,
        is_limited=found.is_limited,
        schedule=as_yaml(found.smallest),
    )
    return summary.model_copy(update={"smallest": smallest, "lines": [*summary.lines, _line(smallest)]})


def _line(smallest: Smallest) -> str:
    limited = f" (after {smallest.runs} runs it may not be the smallest)" if smallest.is_limited else ""
    found = f"{smallest.of_steps} steps shrunk to {smallest.run.steps}{limited}"
    return f"{smallest.of_item}: {found}: {', '.join(smallest.run.violations)}; see {FILE} and {smallest.run.run_id}"
