"""Plan a soak's schedule and summarise its violations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from pydantic import Field

from campaigns import randomised
from campaigns.campaign import Campaign, When
from campaigns.soak import KIND
from clusters.scenario.schedules import randomised_schedule
from history.results.schedules import SchedulesResult


class Settings(randomised.Question):
    """A soak's settings."""

    minutes: float = Field(default=10, gt=0, le=randomised.MAX_S / 60)


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan one schedule from this seed; raise BadInput for settings without a schedule."""
    question = KIND.check(Settings, settings)
    mix = randomised.fault_mix(question.fault_mix, question.runtime)
    schedule = randomised_schedule(mix, seed=when["seed"], length_s=60 * question.minutes)
    items = [randomised.item_of("soak", schedule, question.kafka, when["seed"])]
    return Campaign(kind=KIND.name, settings=question.model_dump(mode="json"), items=items, **when)


def result(campaign: Campaign, runs: Mapping[str, Path]) -> SchedulesResult:
    """Summarise the run folder."""
    return randomised.result("soak", campaign, runs)
