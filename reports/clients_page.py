"""The page of a client matrix: a row per release."""

from __future__ import annotations

from collections.abc import Mapping

from history.results.clients import ClientRun, ClientsResult
from reports.cells import Cell, Column, linked, table
from reports.page import Listing, Section, Words, of_campaign

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
        Column("client", lambda run: linked(run.run_id, links, run.client), "name"),
        Column("verdict", lambda run: Cell(run.verdict, run.verdict), "name"),
        Column("the judge's sentence", lambda run: run.sentence, "text"),
    ]
    clients = Listing("clients", table("Verdict by client", columns, result.runs))
    settings = [(name.capitalize(), str(result.settings[name])) for name in ("kafka", "scenario")]
    return of_campaign(
        "Client matrix",
        result,
        [Section("clients", "Clients", [clients]), Section("limits", "Limits", [Words(LIMITS)])],
        kind="client matrix",
        means=MEANS,
        facts=[*settings, ("Planned", result.planned)],
        state_word=result.state,
    )
