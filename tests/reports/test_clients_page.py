"""The page of a client matrix."""

from __future__ import annotations

from history.results.clients import ClientRun, ClientsResult
from reports.clients_page import render


def test_each_client_stands_with_its_verdict_and_its_run() -> None:
    """One that has no run has no link."""
    runs = [
        ClientRun(client="3.9.1", run_id="run-1", verdict="pass", sentence="All held."),
        ClientRun(client="2.8.2", run_id="", verdict="unknown", sentence="It was not recorded."),
    ]
    result = ClientsResult(
        campaign_id="c1",
        created_at="2026-11-23T08:00:00+00:00",
        state="unknown",
        sentence="Java clients of 2 releases: 1 pass, 1 unknown.",
        seed=1,
        settings={"kafka": "4.3.1", "scenario": "java_client"},
        runs=runs,
    )
    html = render(result, {"run-1": "../run-1/report/index.html"})

    assert '<body data-verdict="unknown">' in html
    assert 'href="../run-1/report/index.html"' in html
    assert html.count("report/index.html") == 1
    for text in ("3.9.1", "2.8.2", "All held.", "It was not recorded.", "4.3.1"):
        assert text in html
