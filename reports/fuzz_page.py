"""The page of randomised schedules: seeds, violations, and runs."""

from __future__ import annotations

from collections.abc import Mapping

from history.results.schedules import ScheduleRun, SchedulesResult
from reports.cells import Cell, Column, table
from reports.page import Listing, Page, Section, Words
from reports.page import render as render_page

MEANS = {
    "pass": "No guarantee was violated.",
    "fail": "A guarantee was violated that the configuration does not excuse.",
    "unknown": "Not every schedule could be judged, and no other violated a guarantee.",
}
LIMITS = [
    "Only the faults of the mix are tried, and a race may not occur in so few schedules.",
    "A violation is an S1 invariant or anomaly that the configuration does not permit.",
]


def render(result: SchedulesResult, links: Mapping[str, str]) -> str:
    """Render the page as HTML."""
    columns: list[Column[ScheduleRun]] = [
        Column("schedule", lambda run: Cell(run.item, link=links.get(run.run_id, "")), "name"),
        Column("seed", lambda run: str(run.seed), "number"),
        Column("steps", lambda run: run.steps, "number"),
        Column("verdict", lambda run: Cell(run.verdict, run.verdict)),
        Column("violations", lambda run: ", ".join(run.violations)),
        Column("the judge's sentence", lambda run: run.sentence, "text"),
    ]
    schedules = Listing("schedules", table("In their order", columns, result.runs))
    return render_page(
        Page(
            title=f"{result.kind.capitalize()} {result.campaign_id}",
            kind="randomised schedules of faults",
            sentence=result.sentence,
            state=result.state,
            meaning=MEANS[result.state],
            facts=[("Kafka", result.kafka), ("Planned", result.planned)],
            sections=[
                Section("schedules", "Schedules", [schedules]),
                Section("limits", "Limits", [Words(LIMITS)]),
            ],
        )
    )
