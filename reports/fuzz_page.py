"""The page of randomised schedules: seeds, violations, and runs."""

from __future__ import annotations

from collections.abc import Mapping

from history.results.schedules import ScheduleRun, SchedulesResult
from reports.cells import Cell, Column, linked, table
from reports.page import Command, Links, Listing, Section, Words, of_campaign

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
        Column("schedule", lambda run: linked(run.run_id, links, run.item), "name"),
        Column("seed", lambda run: str(run.seed), "number"),
        Column("steps", lambda run: run.steps, "number"),
        Column("verdict", lambda run: Cell(run.verdict, run.verdict)),
        Column("violations", lambda run: ", ".join(run.violations)),
        Column("the judge's sentence", lambda run: run.sentence, "text"),
    ]
    schedules = Listing("schedules", table("In their order", columns, result.runs))
    return of_campaign(
        result.kind.capitalize(),
        result,
        [
            Section("schedules", "Schedules", [schedules]),
            *_smallest(result, links),
            Section("limits", "Limits", [Words(LIMITS)]),
        ],
        kind="randomised schedules of faults",
        means=MEANS,
        facts=[("Kafka", result.kafka), ("Planned", result.planned)],
    )


def _smallest(result: SchedulesResult, links: Mapping[str, str]) -> list[Section]:
    found = result.smallest
    if found is None:
        return []
    violated = ", ".join(found.run.violations)
    words = [f"{found.of_item} has {found.of_steps} steps. These {found.run.steps} still violate {violated}."]
    words += [f"The limit of {found.runs} runs was reached, so an even smaller schedule may exist."] * found.is_limited
    to_run = [Links([("its run", links[found.run.run_id])])] if found.run.run_id in links else []
    return [Section("smallest", "Smallest schedule", [Words(words), *to_run, Command(found.schedule)])]
