"""Publish runs and campaigns: pages, archive rows, index."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from campaigns import kinds
from campaigns.campaign import CampaignFolder
from campaigns.places import Places
from history import archive
from history.errors import EvidenceError
from history.folder import RunFolder
from history.results.base import Summary
from reports import index_page, run_page
from reports.index_page import Campaigns, Concluded
from reports.page import write


def publish(run: Path) -> Path:
    """Write a run's page and, if judged, archive rows; raise EvidenceError for another folder."""
    page = run_page.publish(run, Places.beside(run.parent).site)
    if RunFolder(run).verdict_file.is_file():
        with suppress(EvidenceError):  # judged without metrics, or altered; its page reports that
            archive.add(Places.beside(run.parent).archive, archive.rows_of(RunFolder(run)))
    return page


def rebuild(places: Places) -> list[str]:
    """Rewrite all run folders' archive rows; return a sentence for each without any."""
    problems = []
    for seal in sorted(places.runs.glob("*/sealed.json")):
        try:
            archive.add(places.archive, archive.rows_of(RunFolder(seal.parent)))
        except EvidenceError as error:
            problems.append(str(error))
    return problems


class Archived(NamedTuple):
    """An archived run and its number of metrics; ``campaign`` may be empty."""

    run_id: str
    kafka_version: str
    verdict: str
    metrics: int
    campaign: str


def archived(places: Places) -> list[Archived]:
    """Return archived runs, oldest first."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for row in archive.read(places.archive):
        runs.setdefault(row["run_id"], []).append(row)
    return [
        Archived(run_id, rows[0]["kafka_version"], rows[0]["verdict"], len(rows), rows[0]["labels"].get("campaign", ""))
        for run_id, rows in runs.items()
    ]


def links_from(page: Path, rows: Sequence[Mapping[str, Any]], places: Places) -> dict[str, str]:
    """Map run ids and sibling campaigns to relative addresses of existing pages."""
    pages = {row["run_id"]: places.runs / row["run_id"] / "report" / "index.html" for row in rows}
    pages |= {other.parent.name: other for other in page.parent.parent.glob("*/index.html") if other != page}
    return {run_id: os.path.relpath(str(path), str(page.parent)) for run_id, path in pages.items() if path.is_file()}


def concluded(places: Places) -> list[Campaigns]:
    """Return each kind's concluded campaigns, newest first."""
    return [
        Campaigns(kind.command, kind.many, kind.examples[0], _results(places.site / kind.command), kind.one)
        for kind in map(kinds.of, kinds.names())
    ]


def _results(folder: Path) -> list[Concluded]:
    found = [
        Concluded(f"{folder.name}/{file.parent.name}/index.html", _summary(CampaignFolder(file.parent)))
        for file in folder.glob("*/result.json")
    ]
    return sorted(found, key=lambda each: each.result.created_at, reverse=True)


def _summary(folder: CampaignFolder) -> Summary:
    try:
        return Summary.read(folder.result)
    except EvidenceError as error:  # an earlier format
        plan = folder.read_plan()
        return Summary(campaign_id=plan.campaign_id, created_at=plan.created_at, state="unknown", sentence=str(error))


def write_index(places: Places) -> Path:
    """Write the index page."""
    page = places.site / "index.html"
    rows = archive.read(places.archive)
    return write(index_page.render(rows, concluded(places), links_from(page, rows, places)), page, places.site)
