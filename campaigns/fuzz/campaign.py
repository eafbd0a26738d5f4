"""Plan randomised schedules and summarise their violations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from pydantic import Field

from campaigns import randomised
from campaigns.campaign import MAX_TIMES, Campaign, When
from campaigns.fuzz import KIND
from clusters.scenario.schedules import randomised_schedule
from history.results.schedules import SchedulesResult


class Settings(randomised.Question):
    """Settings of a fuzz campaign."""

    schedules: int = Field(default=20, ge=1, le=MAX_TIMES)
    seconds: float = Field(default=90, gt=0, le=randomised.MAX_S)


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
    """Summarise the schedules' run folders."""
    return randomised.result("fuzz", campaign, runs)
