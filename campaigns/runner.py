"""Plan a campaign, judge and archive its runs, write the result."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from campaigns import kinds, rounds, upload
from campaigns.campaign import Campaign, CampaignFolder, Item, check_name
from campaigns.places import Places
from campaigns.recording import check_room, collected_runs, counted, recorded_runs, runtime_of
from campaigns.site import links_from, publish, write_index
from clusters.attached.cluster_file import Described
from clusters.attached.named import file_of
from clusters.run import experiment
from clusters.run.host import sharing_host
from history import archive
from history.access import variables
from history.errors import BadInput, NoDocker
from history.events import EventLog
from history.folder import write_atomically
from history.product import product
from history.results.base import Summary
from history.results.cases import junit, markdown
from reports.page import write
from spark.connection import spark_connection
from spark.submit import judge

TOGETHER = 12  # runs per Spark application


def plan(
    kind: str,
    settings: Mapping[str, Any],
    *,
    name: str | None,
    seed: int | None,
    places: Places,
    upload_to: str | None = None,
    cluster_named: Callable[[str], Path | Described] = file_of,
) -> CampaignFolder:
    """Plan a campaign, or resume the one with this name, question and seed.

    Everything is downloaded now, so that no run is rejected or delayed later. ``cluster_named`` reads clusters of
    others by name; the default reads files alone.

    Raises: BadInput: a setting is wrong, a run is impossible, the disk is too small, or the name is taken.
    """
    spark_connection(variables())  # fail before anything is recorded
    if upload_to:
        upload.check(upload_to)
    now = datetime.now(UTC)
    campaign_id = name or f"{now:%Y%m%d-%H%M%S}"
    check_name(campaign_id)
    _check_kind(kind, campaign_id, places)
    folder = CampaignFolder.of(places.site, kinds.of(kind).command, campaign_id)
    created_at = now.isoformat(timespec="seconds")
    if folder.plan.exists():
        begun = folder.read_plan()
        created_at, seed = begun.created_at, begun.seed if seed is None else seed
    seed = secrets.randbelow(2**31) if seed is None else seed
    with kinds.of(kind).naming_options(settings):
        planned = kinds.of(kind).campaign.plan(settings, campaign_id=campaign_id, created_at=created_at, seed=seed)
        _check_items(planned, cluster_named)
    left = rounds.outstanding(folder, planned.items, places) if folder.plan.exists() else planned.items
    check_room(planned.campaign_id, left, places)
    folder.write_plan(planned)
    rounds.begin(folder)
    if upload_to:
        upload.remember(folder, upload_to)
    return folder


def _check_items(campaign: Campaign, cluster_named: Callable[[str], Path | Described]) -> None:
    """Check one item of each role, and on clusters of others, which have caps, each that differs."""
    later: Callable[[Campaign], list[Item]] = getattr(kinds.of(campaign.kind).campaign, "later", lambda _: [])
    different = {
        (item.scenario, item.kafka, item.cluster, item.labels.get("role"), str(item.changes) * bool(item.cluster)): item
        for item in [*campaign.items, *later(campaign)]
    }
    for item in different.values():
        _check_item(item, campaign, cluster_named(item.cluster) if item.cluster else None)


def _check_item(item: Item, campaign: Campaign, cluster: Path | Described | None) -> None:
    made_by = {"kafka": item.kafka, "runtime": runtime_of(campaign)}
    try:
        experiment.check(item.scenario, **made_by, cluster=cluster, changes=item.changes)
    except NoDocker as error:
        kind = kinds.of(campaign.kind)
        if any(option.name == "runtime" for option in kind.options):
            raise
        raise BadInput(
            f"{kind.title}: its runs need Docker, and no Docker daemon answers; start dockerd and repeat the command."
        ) from error


def _check_kind(kind: str, campaign_id: str, places: Places) -> None:
    """Runs and the archive identify a campaign by name alone, whatever its kind."""
    for other in kinds.names():
        folder = CampaignFolder.of(places.site, kinds.of(other).command, campaign_id)
        if other != kind and folder.plan.exists():
            raise BadInput(f"{folder.path} has the name {campaign_id} already; give this campaign another --name.")


def judge_recorded(folder: CampaignFolder, places: Places) -> list[str]:
    """Judge and archive new runs; meanwhile no benchmark is recorded, since Spark uses the brokers' CPUs."""
    campaign = folder.read_plan()
    rows = archive.read(places.archive, campaign=campaign.campaign_id)
    known = {row["run_id"] for row in rows}
    fresh = [run for _, run in collected_runs(campaign, places) if run.name not in known]
    EventLog(folder.stages).add("judging", runs=[run.name for run in fresh])
    for together in (fresh[first : first + TOGETHER] for first in range(0, len(fresh), TOGETHER)):
        with sharing_host(f"judging campaign {campaign.campaign_id}", folder.say_waiting):
            judge(together)
        for run in together:
            publish(run)
    upload.upload(folder, [run for _, run in collected_runs(campaign, places)])  # retries failed uploads
    return [run.name for run in fresh]


def conclude(folder: CampaignFolder, places: Places) -> Summary:
    """Write result, page, and index; return the result."""
    campaign = folder.read_plan()
    kind, rows = kinds.of(campaign.kind), archive.read(places.archive)
    evidence = recorded_runs(campaign, places) if kind.reads_run_folders else kind.judged(counted(rows))
    judges = {row["judge"] for row in rows if row["labels"].get("campaign") == campaign.campaign_id} - {None}
    result = kind.campaign.result(campaign, evidence, **kind.memory(folder)).model_copy(
        update={"plimsoll": str(product()), "judges": sorted(judges)}
    )
    if with_recordings := getattr(kind.campaign, "with_recordings", None):
        result = with_recordings(result, recorded_runs(campaign, places))
    result.write(folder.result)
    report = result.report(f"plimsoll {kind.command}", datetime.now(UTC))
    write_atomically(folder.junit, junit(report))
    write_atomically(folder.summary, markdown(report))
    if kind.outputs:
        kind.outputs.conclude(folder, result, rows, places, datetime.now(UTC))
    write(kind.page.render(result, links_from(folder.page, rows, places)), folder.page, places.site)
    write_index(places)
    return result
