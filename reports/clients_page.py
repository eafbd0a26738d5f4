"""The page of a client matrix: a row per release."""

from __future__ import annotations

from collections.abc import Mapping

from history.results.clients import ClientRun, ClientsResult
from reports.cells import Cell, Column, table
from reports.page import Listing, Page, Section, Words
from reports.page import render as render_page

MEANS = {
    "pass": "Each client kept what it was promised.",
    "fail": "A guarantee was violated in the run of a client.",
    "unknown": "A client has no verdict; no run violated a guarantee.",
}
LIMITS = [
    "The client is Kafka's own VerifiableProducer of each release; all records are read by the consumers that read "
    "every other run.",
    "It does not say when it sent a record: no run has latencies, and checks that need that time had nothing to check.",
    "One run of each client shows whether it can work with these brokers, not how often something goes wrong.",
]


def render(result: ClientsResult, links: Mapping[str, str]) -> str:
    """Render the page as HTML."""
    columns: list[Column[ClientRun]] = [
        Column("client", lambda run: Cell(run.client, link=links.get(run.run_id, "")), "name"),
        Column("verdict", lambda run: Cell(run.verdict, run.verdict), "name"),
        Column("the judge's sentence", lambda run: run.sentence, "text"),
    ]
    return render_page(
        Page(
            title=f"Client matrix {result.campaign_id}",
            kind="client matrix",
            sentence=result.sentence,
            state=result.state,
            state_word=result.state,
            meaning=MEANS[result.state],
            facts=[
                ("Kafka", str(result.settings["kafka"])),
                ("Scenario", str(result.settings["scenario"])),
                ("Planned", result.planned),
            ],
            sections=[
                Section("clients", "Clients", [Listing("clients", table("Verdict by client", columns, result.runs))]),
                Section("limits", "Limits", [Words(LIMITS)]),
            ],
        )
    )
