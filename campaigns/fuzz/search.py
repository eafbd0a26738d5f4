"""Shrink a violating schedule; each smaller one is a round of the campaign."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from campaigns import randomised, rounds
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.places import Places
from campaigns.recording import recorded_runs
from clusters.scenario.scenario import Scenario
from clusters.scenario.schedules import as_yaml
from clusters.scenario.shrink import shrink
from history.folder import write_atomically
from history.results.schedules import ScheduleRun

FILE = "smallest.yaml"  # in the campaign's folder; plimsoll run repeats it


@dataclass
class Shrinking:
    """A violating schedule, drawn and the smallest so far, with their runs; ``next`` is to be run."""

    drawn: Scenario
    first: ScheduleRun
    smallest: Scenario
    last: ScheduleRun
    runs: int = 0
    is_limited: bool = False
    next: Item | None = None


class _NotRunError(Exception):
    """A schedule was not run yet."""


def next_items(folder: CampaignFolder, places: Places) -> list[Item]:
    """Return the next smaller schedule, if one of the plan violates a guarantee; store the smallest so far."""
    campaign, limit = folder.read_plan(), folder.read_plan().settings["shrink_runs"]
    found = shrinking(campaign, recorded_runs(campaign, places), rounds.tried_names(folder))
    if found is None:
        return []
    write_atomically(folder.path / FILE, as_yaml(found.smallest))
    if found.next is None:
        return []
    steps = f"{randomised.steps_of(found.smallest)} of {randomised.steps_of(found.drawn)} steps show it"
    rounds.say(folder, f"shrinking {found.first.item}, run {found.runs + 1} of at most {limit}: so far {steps}")
    return [found.next]


def shrinking(campaign: Campaign, runs: Mapping[str, Path], broken: Collection[str] | None = None) -> Shrinking | None:
    """Shrink the first violating schedule; ``broken`` ones, by default all without a run, violate nothing."""
    planned = ((item, randomised.run_of(item, runs.get(item.name))) for item in campaign.items)
    item, first = next(((item, run) for item, run in planned if run.violations), (None, None))
    limit = int(campaign.settings["shrink_runs"])
    if item is None or first is None or not limit:
        return None
    drawn = randomised.schedule_of(item)
    found = Shrinking(drawn, first, drawn, first)

    def shows(smaller: Scenario) -> bool:
        tried = randomised.item_of(name_of(smaller), smaller, item.kafka, item.seed or 0)
        if found.runs == limit:
            found.is_limited = True
            return False
        if tried.name not in runs and broken is None:
            return False
        if tried.name not in runs and tried.name not in (broken or ()):
            found.next = tried
            raise _NotRunError
        found.runs += 1
        run = randomised.run_of(tried, runs.get(tried.name))
        if {*run.violations}.isdisjoint(first.violations):
            return False
        found.smallest, found.last = smaller, run
        return True

    with suppress(_NotRunError):
        shrink(drawn, shows)
    return found


def name_of(schedule: Scenario) -> str:
    """Name a smaller schedule's item."""
    return f"shrunk-{schedule.digest[:12]}"
