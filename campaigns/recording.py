"""Record a campaign's items; every step can be repeated.

An item's first run that counts is its own (docs/dev/architecture.md). Imports delay each run, so judging and statistics
are in ``campaigns.runner``.
"""

from __future__ import annotations

import shutil
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from campaigns import kinds
from campaigns.campaign import Campaign, Item
from campaigns.places import Places
from clusters.run import stages
from clusters.scenario import durations
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput, EvidenceError
from history.events import errors_of, read_events
from history.folder import RunFolder
from history.manifest import read_manifest

_Item = TypeVar("_Item", bound=Hashable)
_Run = TypeVar("_Run")


def runtime_of(campaign: Campaign) -> str:
    """Return the runtime of its runs."""
    return str(campaign.settings.get("runtime", "docker"))


def expected_seconds(item: Item) -> float:
    """Estimate the time until an item is recorded."""
    return stages.expected_s(load_scenario(item.scenario, item.changes))


def expected_bytes(item: Item) -> float:
    """Estimate the records that its run folder keeps."""
    return durations.expected_bytes(load_scenario(item.scenario, item.changes))


def check_room(campaign_id: str, items: Sequence[Item], places: Places) -> None:
    """Raise BadInput if the runs do not fit on the disk."""
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
    """Yield items and run folders, the oldest first, also of broken runs."""
    for manifest in sorted(places.runs.glob("*/manifest.json")):
        if not RunFolder(manifest.parent).is_sealed:
            continue
        with suppress(EvidenceError):  # a folder of another format is nobody's item
            labels = read_manifest(manifest).labels
            if labels.get("campaign") == campaign.campaign_id:
                yield labels["item"], manifest.parent


def recorded_runs(campaign: Campaign, places: Places) -> dict[str, Path]:
    """Map items to their own runs: complete, without an error of the harness."""
    whole = ((item, run) for item, run in collected_runs(campaign, places) if not errors_of(RunFolder(run)))
    return first_of_each(whole)


def first_of_each(runs: Iterable[tuple[_Item, _Run]]) -> dict[_Item, _Run]:
    """Map items to their first run; taking a later one would be a choice."""
    found: dict[_Item, _Run] = {}
    for item, run in runs:
        found.setdefault(item, run)
    return found


def counted(rows: kinds.Rows) -> kinds.Rows:
    """Return the rows of items' own runs, and of runs without an item.

    The archive alone decides, so that run folders may go. docs/dev/architecture.md says which runs count.
    """
    whole = [row for row in rows if row["verdict"] != "unknown" or row["complete"]]
    oldest_first = sorted(filter(_item_of, whole), key=lambda row: (str(row["started_at"]), row["run_id"]))
    own = set(first_of_each((_item_of(row), row["run_id"]) for row in oldest_first).values())
    return [row for row in whole if row["run_id"] in own or not _item_of(row)]


def _item_of(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return campaign and item, if the run has them."""
    labels = row["labels"]
    return (labels["campaign"], labels["item"]) if "item" in labels else None


def had_fault(run: Path) -> bool:
    """Return whether a run injected a fault, or asked a cluster's owner to."""
    events = RunFolder(run).events
    return events.exists() and any(event.kind in ("inject", "owner_asked") for event in read_events(events))
