"""The page of randomised schedules: every schedule with its seed, what it violated, and its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from history.results.schedules import ScheduleRun, SchedulesResult
from reports.cells import Cell, Table, cells
from reports.site import Listing, Page, Section, Words
from reports.site import render as render_page

MEANS = {
    "pass": "No guarantee was violated.",
    "fail": "A guarantee was violated that the configuration does not excuse.",
    "unknown": "Not every schedule could be judged, and no other violated a guarantee.",
}
LIMITS = [
    "What is not in the fault mix is not tried, and a bug that is a race may not show in so few schedules.",
    "A violation is an S1 invariant or anomaly that the configuration does not permit.",
]


def render(result: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """The page as HTML; ``links`` maps run ids to the addresses of their pages, as far as there are any."""
    campaign = SchedulesResult.model_validate(result)
    rows = [_row(run, links) for run in campaign.runs]
    columns = ("schedule", "seed", "steps", "verdict", "violations", "the judge's sentence")
    return render_page(
        Page(
            title=f"{campaign.kind.capitalize()} {campaign.campaign_id}",
            kind="randomised schedules of faults",
            sentence=campaign.sentence,
            state=campaign.state,
            state_word=campaign.state,
            meaning=MEANS[campaign.state],
            facts=[("Kafka", campaign.kafka), ("Planned", campaign.created_at[:16].replace("T", " "))],
            sections=[
                Section("schedules", "Schedules", [Listing("schedules", Table("In their order", columns, rows))]),
                Section("limits", "Limits", [Words(LIMITS)]),
            ],
        )
    )


def _row(run: ScheduleRun, links: Mapping[str, str]) -> tuple[Cell, ...]:
    return cells(
        Cell(run.item, link=links.get(run.run_id, "")),
        run.seed,
        run.steps,
        Cell(run.verdict, run.verdict),
        ", ".join(run.violations),
        run.sentence,
    )
