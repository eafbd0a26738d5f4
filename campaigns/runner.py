"""Runs a campaign: records its items one after the other, judges and archives them, and writes the result.

Every step may be made again: an item that was recorded is not recorded twice, and one that was archived is done.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from campaigns.campaign import CORRECTNESS, Campaign, CampaignFolder, Item, Kind, check_name
from campaigns.claims import campaign as claims
from campaigns.nightly import outputs
from campaigns.nightly.settings import check
from campaigns.site import Places, links_from, publish, write_index
from clusters import experiment
from clusters.host_lock import alone, beside_others
from clusters.scenario import load_scenario
from clusters.world import World
from history import archive
from history.errors import EvidenceError
from history.events import recorded
from history.folder import RunFolder, write_atomically
from history.manifest import read_manifest
from reports.site import write
from spark.submit import judge

Rows = Sequence[Mapping[str, Any]]
_TRIED = "tried.json"
TOGETHER = 6  # runs that one Spark application judges


class KindOfCampaign(Protocol):
    """What a module of this package offers."""

    def plan(self, settings: Mapping[str, Any], *, campaign_id: str, created_at: str, seed: int) -> Campaign: ...
    def follow_up(self, campaign: Campaign, rows: Rows) -> list[Item]: ...
    def result(self, campaign: Campaign, rows: Rows) -> dict[str, Any]: ...


class PageOfKind(Protocol):
    """What its page's module offers; ``links`` maps run ids to addresses relative to the page."""

    def render(self, result: Mapping[str, Any], links: Mapping[str, str]) -> str: ...


def _kind(kind: Kind) -> KindOfCampaign:
    return cast("KindOfCampaign", import_module(f"campaigns.{kind}.campaign"))


def _page(kind: Kind) -> PageOfKind:
    return cast("PageOfKind", import_module(f"reports.{kind}_page"))


# --- the plan ------------------------------------------------------------------------------------


def plan(
    kind: Kind, settings: Mapping[str, Any], *, name: str | None, seed: int | None, places: Places
) -> CampaignFolder:
    """Fix what will be run; a campaign of the same name and question is taken up where it stopped, seed included.

    Everything that a run needs is fetched here, so that nothing is refused, or waited for, between two runs.

    Raises:
        BadInput: the settings are wrong, a run of them cannot be had, or another campaign has this name.
    """
    now = datetime.now(UTC)
    campaign_id = name or f"{now:%Y%m%d-%H%M%S}"
    check_name(campaign_id)
    folder = CampaignFolder.of(places.site, kind, campaign_id)
    created_at = now.isoformat(timespec="seconds")
    if folder.plan.exists():
        begun = folder.read_plan()
        created_at, seed = begun.created_at, begun.seed if seed is None else seed
    seed = secrets.randbelow(2**31) if seed is None else seed
    planned = _kind(kind).plan(settings, campaign_id=campaign_id, created_at=created_at, seed=seed)
    for item in {(item.scenario, item.kafka, item.labels.get("role")): item for item in planned.items}.values():
        experiment.check(item.scenario, kafka=item.kafka, runtime=_runtime(planned), changes=item.changes)
    folder.write_plan(planned)
    return folder


def _runtime(campaign: Campaign) -> str:
    return str(campaign.settings.get("runtime", "docker"))


def expected_seconds(item: Item) -> float:
    """About how long an item takes until it is recorded."""
    return experiment.expected_seconds(load_scenario(item.scenario, item.changes))


# --- what is done, and what is not ---------------------------------------------------------------


def recorded_runs(campaign: Campaign, places: Places) -> dict[str, Path]:
    """Item → the run folder that was recorded for it, to its end."""
    found = {}
    for manifest in places.runs.glob("*/manifest.json"):
        if not RunFolder(manifest.parent).is_sealed:
            continue
        with suppress(EvidenceError):  # a folder of another format is nobody's item
            labels = read_manifest(manifest).labels
            if labels.get("campaign") == campaign.campaign_id:
                found[labels["item"]] = manifest.parent
    return found


def outstanding(folder: CampaignFolder, items: Iterable[Item], places: Places) -> list[Item]:
    """The items that were neither recorded nor archived yet, in their order; those that broke before come last."""
    campaign, tried = folder.read_plan(), _tried(folder)
    rows = archive.read(places.archive, campaign=campaign.campaign_id)
    done = recorded_runs(campaign, places).keys() | {row["labels"]["item"] for row in rows}
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
    """The runs that the first results make necessary; found once, and kept beside the plan."""
    kept = folder.path / "follow_up.json"
    if not kept.exists():
        campaign = folder.read_plan()
        items = _kind(campaign.kind).follow_up(campaign, archive.read(places.archive))
        write_atomically(kept, json.dumps([item.model_dump() for item in items], indent=1))
    return [Item.model_validate(item) for item in json.loads(kept.read_text())]


# --- recording, judging --------------------------------------------------------------------------


def record_item(folder: CampaignFolder, item: Item, places: Places) -> Path:
    """Record one item, a benchmark while nothing else loads this host; returns its run folder.

    Raises:
        PlimsollError: it could not be prepared or recorded; what there is was collected, nothing of it lives on.
    """
    campaign = folder.read_plan()
    labels = {**item.labels, "campaign": campaign.campaign_id, "item": item.name}
    with beside_others() if campaign.kind in CORRECTNESS else alone():
        run = experiment.prepare(
            item.scenario,
            kafka=item.kafka,
            runtime=_runtime(campaign),
            seed=item.seed,
            changes=item.changes,
            labels=labels,
            runs=places.runs,
            lease="process",
        )
        record(run)
    return run


def record(run: Path) -> None:
    """A prepared run from its first node to its last, by the calls that a scenario's DAG makes.

    Raises:
        PlimsollError: the harness broke; what there is was collected, nothing of it lives on.
    """
    with World.open(run) as world:
        phases = len(world.scenario.phases)
    with experiment.hold_lease(run):
        try:
            with recorded(run, "record"):
                experiment.start_cluster(run)
                experiment.create_topics(run)
                experiment.start_clients(run)
                experiment.capture(run, "before")
                for index in range(phases):
                    experiment.run_phase(run, index)
                experiment.stop_producers(run)
                experiment.quiesce(run)
                experiment.drain(run)
                experiment.capture(run, "after")
        finally:
            experiment.salvage(run)


def judge_recorded(folder: CampaignFolder, places: Places) -> list[str]:
    """Judge, publish and archive what was recorded and is not archived yet; returns the ids of those runs.

    No benchmark is recorded meanwhile, not even another campaign's: Spark takes the CPUs that its brokers are owed.
    """
    campaign = folder.read_plan()
    rows = archive.read(places.archive, campaign=campaign.campaign_id)
    known = {row["run_id"] for row in rows}
    fresh = sorted(run for run in recorded_runs(campaign, places).values() if run.name not in known)
    for together in (fresh[first : first + TOGETHER] for first in range(0, len(fresh), TOGETHER)):
        with beside_others():
            judge(together)
        for run in together:
            publish(run)
    return [run.name for run in fresh]


# --- the result ----------------------------------------------------------------------------------


def _result(campaign: Campaign, rows: Rows, places: Places) -> dict[str, Any]:
    if campaign.kind == "claims":  # answered from what was recorded; the archive holds none of it
        return claims.result(campaign, recorded_runs(campaign, places))
    return _kind(campaign.kind).result(campaign, rows)


def conclude(folder: CampaignFolder, places: Places) -> dict[str, Any]:
    """Write the result for machines and the page for people, and the index anew; returns the result."""
    campaign = folder.read_plan()
    rows = archive.read(places.archive)
    found = _result(campaign, rows, places)
    write_atomically(folder.result, json.dumps(found, indent=1, ensure_ascii=False, default=str) + "\n")
    if campaign.kind == "nightly":
        outputs.write(folder, found)
        outputs.prune(places.runs, folder.path.parent, rows, check(campaign.settings), datetime.now(UTC))
    write(_page(campaign.kind).render(found, links_from(folder.page, rows, places)), folder.page, places.site)
    write_index(places)
    return found
