"""Shrink a violating schedule; each smaller one is a campaign item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from campaigns import randomised
from campaigns.campaign import CampaignFolder
from campaigns.fuzz import SHRINK_RUNS
from campaigns.places import Places
from campaigns.recording import record_item, recorded_runs
from campaigns.runner import judge_recorded
from clusters.scenario.scenario import Scenario
from clusters.scenario.schedules import as_yaml
from clusters.scenario.shrink import shrink
from history.errors import BadInput, PlimsollError
from history.folder import write_atomically
from history.results.schedules import ScheduleRun

Say = Callable[[str], object]
Execute = Callable[[Scenario], ScheduleRun]


@dataclass(frozen=True)
class Counterexample:
    """A violating schedule, drawn and shrunk, with a run of each."""

    drawn: Scenario
    first: ScheduleRun
    smaller: Scenario
    last: ScheduleRun
    is_smallest: bool


def search(folder: CampaignFolder, options: Mapping[str, Any], places: Places, say: Say) -> list[str]:
    """Shrink the first violating schedule and store it; return terminal lines."""
    campaign = folder.read_plan()
    recorded = recorded_runs(campaign, places)
    runs = ((item, randomised.run_of(item, recorded.get(item.name))) for item in campaign.items)
    violating = next(((item, run) for item, run in runs if run.violations), None)
    limit = SHRINK_RUNS if options.get("shrink_runs") is None else int(options["shrink_runs"])
    if violating is None or limit < 1:
        return []
    item, first = violating
    execute = executor(folder, item.seed or 0, places)
    found = shrunk(randomised.schedule_of(item), first, execute, limit=limit, known=set(recorded), say=say)
    file = folder.path / "smallest.yaml"
    write_atomically(file, as_yaml(found.smaller))
    of_limit = "" if found.is_smallest else f" (after {limit} runs it may not be the smallest)"
    return [
        f"shrunk: {randomised.steps_of(found.drawn)} steps to {randomised.steps_of(found.smaller)}{of_limit}",
        f"violations: {', '.join(found.last.violations)}",
        f"schedule: {file}",
        f"run: {places.runs / found.last.run_id}",
        f"again: plimsoll run {file} --kafka {campaign.settings['kafka']}",
    ]


def name_of(schedule: Scenario) -> str:
    """Name a smaller schedule's item."""
    return f"shrunk-{schedule.digest[:12]}"


def shrunk(
    drawn: Scenario, first: ScheduleRun, execute: Execute, *, limit: int, known: set[str], say: Say
) -> Counterexample:
    """Return the smallest schedule found with a same violation; ``known`` items do not count against ``limit``."""
    best, last, spent, stopped = drawn, first, 0, False

    def shows(smaller: Scenario) -> bool:
        nonlocal best, last, spent, stopped
        if name_of(smaller) not in known:
            if spent >= limit:
                stopped = True
                return False
            spent += 1
            known.add(name_of(smaller))
            say(f"shrinking, run {spent} of at most {limit} …")
        run = execute(smaller)
        shown = not {*run.violations}.isdisjoint(first.violations)
        how = "still show it" if shown else f"do not show it ({run.verdict})"
        say(f"  {randomised.steps_of(smaller)} of {randomised.steps_of(drawn)} steps {how}")
        if shown:
            best, last = smaller, run
        return shown

    shrink(drawn, shows)
    return Counterexample(drawn, first, best, last, not stopped)


def executor(folder: CampaignFolder, seed: int, places: Places) -> Execute:
    """Return a function that records and judges; a failed run violates nothing."""
    campaign = folder.read_plan()

    def execute(schedule: Scenario) -> ScheduleRun:
        item = randomised.item_of(name_of(schedule), schedule, str(campaign.settings["kafka"]), seed)
        if item.name not in recorded_runs(campaign, places):
            try:
                record_item(folder, item, places)
            except BadInput:
                raise
            except PlimsollError:
                return randomised.run_of(item, None)
        judge_recorded(folder, places)
        return randomised.run_of(item, recorded_runs(campaign, places).get(item.name))

    return execute
