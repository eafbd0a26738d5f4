"""The rounds of a campaign: the plan's runs, then those that the results make necessary.

The folder has all state, so each round is a resumed campaign.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from pydantic import TypeAdapter

from campaigns import kinds
from campaigns.campaign import CampaignFolder, Item, Strict
from campaigns.places import Places
from campaigns.recording import counted, recorded_runs
from history import archive
from history.events import Event, EventLog, read_events
from history.folder import write_atomically

RECORD, _CONCLUDE = "record", "conclude"  # stages of an item, and of the result
_BEGUN, _SAID = "campaign_begun", "decision"


class Round(Strict):
    """Decided items; a round is final if all runs before it were archived."""

    items: list[Item]
    is_final: bool


_ROUNDS = TypeAdapter(list[Round])


class Progress(NamedTuple):
    """Where a campaign is; ``items`` counts the states of last tries."""

    state: str
    items: Mapping[str, int]
    round: int
    last: Event


def dag_run_id(first: str, number: int) -> str:
    """Name the DAG run of a round after the first one's."""
    return first if number == 1 else f"{first}_round_{number}"


def item_run_id(folder: CampaignFolder, item: str = "", number: int | str = "") -> str:
    """Name the DAG run of an item's try; without one, return the campaign's prefix."""
    digest = hashlib.sha256(str(folder.path.resolve()).encode()).hexdigest()[:4]
    return ":".join(filter(None, [f"{folder.path.name}-{digest}:{item}", str(number)]))


def begin(folder: CampaignFolder) -> None:
    """Begin or resume a campaign: broken items are tried again; decisions made before all runs are made again."""
    rounds = _read(folder)
    while rounds and not rounds[-1].is_final:
        rounds.pop()
    _write(folder, rounds)
    EventLog(folder.stages).add(_BEGUN)


def decided(folder: CampaignFolder) -> list[Item]:
    """Return the items of the plan and of all rounds."""
    return [*folder.read_plan().items, *chain.from_iterable(each.items for each in _read(folder))]


def item_of(folder: CampaignFolder, name: str) -> Item:
    """Return a decided item by name."""
    return next(item for item in decided(folder) if item.name == name)


def pending(folder: CampaignFolder, places: Places) -> list[Item]:
    """Return the outstanding items that were not tried since ``begin``."""
    tried = set(tried_names(folder))
    return [item for item in outstanding(folder, decided(folder), places) if item.name not in tried]


def outstanding(folder: CampaignFolder, items: Iterable[Item], places: Places) -> list[Item]:
    """Return the items without a counting run; those that broke before come last."""
    campaign, tries = folder.read_plan(), Counter(_tried(_events(folder)))
    done = set(recorded_runs(campaign, places))
    if not kinds.of(campaign.kind).reads_run_folders:
        rows = counted(archive.read(places.archive, campaign=campaign.campaign_id))
        done |= {row["labels"]["item"] for row in rows}
    return sorted((item for item in items if item.name not in done), key=lambda item: tries[item.name])


def begin_round(folder: CampaignFolder, items: Iterable[Item]) -> list[str]:
    """Record which items a round has; return their names."""
    names = [item.name for item in items]
    EventLog(folder.stages).add("round", items=names)
    return names


def decide(folder: CampaignFolder, places: Places) -> list[Item]:
    """Decide on the next round and store it; return its items, none at the end or if this round was not recorded."""
    if pending(folder, places):
        return []
    campaign, rounds = folder.read_plan(), _read(folder)
    kind = kinds.of(campaign.kind)
    if kind.search:
        items, is_final = kind.search.next_items(folder, places), True  # it reads the runs anew each round
    elif rounds:
        return []
    else:
        rows = kind.judged(counted(archive.read(places.archive)))
        items = kind.follow_up(campaign, rows, folder)
        archived = {row["labels"].get("item") for row in campaign.own(rows)}
        is_final = archived >= {item.name for item in campaign.items}
    if items or not kind.search:
        _write(folder, [*rounds, Round(items=items, is_final=is_final)])
    return items


def progress(folder: CampaignFolder) -> Progress:
    """Return a begun campaign's progress."""
    events = _events(folder)
    last = events[-1]
    tries = {event.target: event.detail.get("state", "recording") for event in events if event.step == RECORD}
    items = Counter(tries.get(item.name, "pending") for item in decided(folder))
    items["recorded"] = items.pop("success", 0)
    ended = last.detail["state"] if last.kind == "stage_ended" and not last.target else ""
    state = "failed" if ended == "failed" else "concluded" if ended and last.step == _CONCLUDE else "in_progress"
    return Progress(state, items, 1 + sum(bool(each.items) for each in _read(folder)), last)


def begin_item(folder: CampaignFolder, item: Item) -> None:
    """Record that an item is tried."""
    EventLog(folder.stages).add("stage_started", step=RECORD, target=item.name)


def end_item(folder: CampaignFolder, item: Item, why: str = "") -> None:
    """Record that an item was recorded, or why not."""
    state = {"state": "failed", "why": why} if why else {"state": "success"}
    EventLog(folder.stages).add("stage_ended", step=RECORD, target=item.name, **state)


def tried_names(folder: CampaignFolder) -> list[str]:
    """Return the items that were tried since ``begin``."""
    return _tried(_since_begun(folder))


def say(folder: CampaignFolder, text: str, target: str = "") -> None:
    """Record what a search decided."""
    EventLog(folder.stages).add(_SAID, target=target, why=text)


def passed_over(folder: CampaignFolder) -> set[str]:
    """Return the targets that a search has passed over since ``begin``."""
    return {event.target for event in _since_begun(folder) if event.kind == _SAID and event.target}


def _since_begun(folder: CampaignFolder) -> list[Event]:
    events = _events(folder)
    began = [number for number, event in enumerate(events) if event.kind == _BEGUN]
    return events[began[-1] :] if began else events


def _tried(events: Iterable[Event]) -> list[str]:
    return [event.target for event in events if event.kind == "stage_started" and event.step == RECORD]


def _events(folder: CampaignFolder) -> list[Event]:
    return list(read_events(folder.stages)) if folder.stages.exists() else []


def _read(folder: CampaignFolder) -> list[Round]:
    return _ROUNDS.validate_json(folder.rounds.read_bytes()) if folder.rounds.exists() else []


def _write(folder: CampaignFolder, rounds: list[Round]) -> None:
    write_atomically(folder.rounds, _ROUNDS.dump_json(rounds, indent=1).decode())
