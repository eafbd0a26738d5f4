"""Records the items of a campaign, one after the other; every step may be made again.

An item is done once a run of it counts, and its first such run is the item's: docs/dev/architecture.md, many runs. What
this module imports each run of a campaign waits for: judging and statistics are ``campaigns.runner``'s.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from campaigns import kinds
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.places import Places
from clusters.run import experiment, recorder, stages
from clusters.run.host_lock import alone, beside_others
from clusters.scenario import durations
from clusters.scenario.scenario import load_scenario
from history import archive
from history.errors import BadInput, EvidenceError
from history.events import errors_of
from history.folder import RunFolder, write_atomically
from history.manifest import read_manifest

_TRIED = "tried.json"
_Item = TypeVar("_Item", bound=Hashable)
_Run = TypeVar("_Run")


def runtime_of(campaign: Campaign) -> str:
    """Where its runs are run."""
    return str(campaign.settings.get("runtime", "docker"))


def expected_seconds(item: Item) -> float:
    """About how long an item takes until it is recorded."""
    return stages.expected_s(load_scenario(item.scenario, item.changes))


def expected_bytes(item: Item) -> float:
    """About what its run folder keeps of the records that it sends."""
    return durations.expected_bytes(load_scenario(item.scenario, item.changes))


def check_room(campaign_id: str, items: Sequence[Item], places: Places) -> None:
    """Refuse runs that do not fit on the disk: they keep their segments, and are judged once all of them are recorded.

    Raises:
        BadInput: too little is free.
    """
    needed = sum(map(expected_bytes, items))
    disk = next(path for path in (places.runs, *places.runs.resolve().parents) if path.exists())
    free = shutil.disk_usage(disk).free
    if needed > free:
        raise BadInput(
            f"Runs of {campaign_id} to record: {len(items)}. They would keep {needed / 1e9:,.0f} GB of records in "
            f"{places.runs}, where {free / 1e9:,.0f} GB are free; remove folders of archived runs, or ask for fewer or "
            "smaller ones."
        )


# --- what is done, and what is not ---------------------------------------------------------------


def collected_runs(campaign: Campaign, places: Places) -> Iterator[tuple[str, Path]]:
    """(item, run folder) of everything that was collected, oldest first, also where the harness broke."""
    for manifest in sorted(places.runs.glob("*/manifest.json")):
        if not RunFolder(manifest.parent).is_sealed:
            continue
        with suppress(EvidenceError):  # a folder of another format is nobody's item
            labels = read_manifest(manifest).labels
            if labels.get("campaign") == campaign.campaign_id:
                yield labels["item"], manifest.parent


def recorded_runs(campaign: Campaign, places: Places) -> dict[str, Path]:
    """Item → the run folder that is its own: recorded to its end, without an error of the harness."""
    whole = ((item, run) for item, run in collected_runs(campaign, places) if not errors_of(RunFolder(run)))
    return first_of_each(whole)


def first_of_each(runs: Iterable[tuple[_Item, _Run]]) -> dict[_Item, _Run]:
    """Item → its run: the first of those that count, which are given oldest first.

    An item whose run counts is not recorded again; where there is another all the same, to take it would be to choose.
    """
    found: dict[_Item, _Run] = {}
    for item, run in runs:
        found.setdefault(item, run)
    return found


def counted(rows: kinds.Rows) -> kinds.Rows:
    """The archived rows of the runs that are an item's own (``first_of_each``), and of those that are no item's.

    A run in which the harness broke does not count and is recorded again, unless it shows a violated guarantee: that
    was seen, however the run ended. The archive alone decides, so that a run folder may go; where a file of an earlier
    version does not say whether an unknown run was recorded to its end, that run does not count.
    """
    whole = [row for row in rows if row["verdict"] != "unknown" or row["complete"]]
    oldest_first = sorted(filter(_item_of, whole), key=lambda row: (str(row["started_at"]), row["run_id"]))
    own = set(first_of_each((_item_of(row), row["run_id"]) for row in oldest_first).values())
    return [row for row in whole if row["run_id"] in own or not _item_of(row)]


def _item_of(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """Campaign and item; a run that nobody's campaign made has none."""
    labels = row["labels"]
    return (labels["campaign"], labels["item"]) if "item" in labels else None


def outstanding(folder: CampaignFolder, items: Iterable[Item], places: Places) -> list[Item]:
    """The items of which no run counts yet, in their order; those that broke before come last."""
    campaign, tried = folder.read_plan(), _tried(folder)
    done = set(recorded_runs(campaign, places))
    if not kinds.of(campaign.kind).reads_run_folders:
        rows = counted(archive.read(places.archive, campaign=campaign.campaign_id))
        done |= {row["labels"]["item"] for row in rows}
    return sorted((item for item in items if item.name not in done), key=lambda item: tried.get(item.name, 0))


def next_item(folder: CampaignFolder, items: Iterable[Item], places: Places) -> Item | None:
    """The item whose turn it is, noted as tried, so that one that breaks does not keep its place."""
    left = outstanding(folder, items, places)
    if not left:
        return None
    tried = _tried(folder)
    tried[left[0].name] = tried.get(left[0].name, 0) + 1
    write_atomically(folder.path / _TRIED, json.dumps(tried))
    return left[0]


def _tried(folder: CampaignFolder) -> dict[str, int]:
    """Item → how often recording it was begun."""
    try:
        found: dict[str, int] = json.loads((folder.path / _TRIED).read_text())
    except FileNotFoundError:
        return {}
    return found


def items_of(folder: CampaignFolder, places: Places, *, more: bool) -> list[Item]:
    """The items of the plan, or those that its results made necessary."""
    return follow_up(folder, places) if more else folder.read_plan().items


def follow_up(folder: CampaignFolder, places: Places) -> list[Item]:
    """The runs that the first results make necessary; kept beside the plan once all of the plan is archived.

    What a part of the plan asks for is not kept: the rest of it, taken up later, may ask for something else.
    """
    kept = folder.path / "follow_up.json"
    if kept.exists():
        return [Item.model_validate(item) for item in json.loads(kept.read_text())]
    campaign = folder.read_plan()
    rows = counted(archive.read(places.archive))
    kind = kinds.of(campaign.kind)
    items = kind.campaign.follow_up(campaign, rows, **kind.memory(folder))
    archived = {row["labels"].get("item") for row in rows if row["labels"].get("campaign") == campaign.campaign_id}
    if archived >= {item.name for item in campaign.items}:
        write_atomically(kept, json.dumps([item.model_dump() for item in items], indent=1))
    return items


# --- recording --------------------------------------------------------------------------


def record_item(folder: CampaignFolder, item: Item, places: Places) -> Path:
    """Record one item, a benchmark while nothing else loads this host; returns its run folder.

    Raises:
        PlimsollError: it could not be prepared or recorded; what there is was collected, nothing of it lives on.
    """
    campaign = folder.read_plan()
    labels = {**item.labels, "campaign": campaign.campaign_id, "item": item.name}
    hold = alone if kinds.of(campaign.kind).benchmark else beside_others
    with hold(tell=folder.say_waiting):
        run = experiment.prepare(
            item.scenario,
            kafka=item.kafka,
            runtime=runtime_of(campaign),
            seed=item.seed,
            changes=item.changes,
            labels=labels,
            runs=places.runs,
            lease="process",
        )
        recorder.record(run)
    return run
