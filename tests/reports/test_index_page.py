"""The index page: runs and campaigns, newest first, and instructions where there are none."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from history.results.base import Summary
from reports.index_page import Campaigns, Concluded, render
from reports.page import write
from tests.reports.in_browser import WIDTHS, open_page


def _run(run_id: str, day: int, verdict: str = "pass", scenario: str = "steady") -> dict[str, Any]:
    told = {"run_id": run_id, "started_at": f"2026-01-{day:02}T02:00:00+00:00", "scenario": scenario}
    return told | {"kafka_version": "3.9.1", "runtime": "docker", "verdict": verdict, "sentence": f"{run_id} in words."}


RUNS = [_run("run-1", 1), _run("run-1", 1), _run("run-2", 2, "fail", "acks1_lag_leader_kill"), _run("run-3", 3)]
RESULT = {"campaign_id": "nightly-1", "created_at": "2026-01-02T01:00:00+00:00", "state": "fail"}
NIGHTLY_RUN = Concluded("nightly/nightly-1/index.html", Summary(**RESULT, sentence="1 correctness failure."))
KINDS = [
    Campaigns("nightly", "Nightly runs", "nightly", [NIGHTLY_RUN]),
    Campaigns("compare", "Comparisons", "compare --base 3.0.2 --head 3.1.2", []),
]
LINKS = {"run-3": "../runs/run-3/report/index.html"}


def test_runs_are_counted_once_and_stand_newest_first() -> None:
    """A run is counted once although the archive has a row for each metric; only an existing folder is linked."""
    html = render(RUNS, KINDS, LINKS)

    assert "3 runs: 2 pass, 1 fail; 1 nightly run." in html
    table = html[html.index('id="table-all-runs"') :]
    assert table.index("run-3") < table.index("run-2") < table.index("run-1")
    assert '<a href="../runs/run-3/report/index.html">run-3</a>' in table
    assert "<td>run-1</td>" in table


def test_campaigns_say_their_sentence() -> None:
    """Campaigns are listed with sentence, state and link; a kind without campaigns shows how to start one."""
    html = render(RUNS, KINDS, {})

    assert '<a href="nightly/nightly-1/index.html">nightly-1</a>' in html
    assert "1 correctness failure." in html
    assert "No comparisons yet: <code>./plimsoll compare --base 3.0.2 --head 3.1.2</code>." in html
    assert "No nightly runs yet" not in html


def test_an_empty_archive_says_how_to_begin() -> None:
    """An empty archive shows how to begin, without a figure."""
    html = render([], [], {})

    assert "<code>make demo</code> records the first" in html
    assert "plot-verdicts" not in html


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_disk_for_everybody(browser: Browser, tmp_path: Path, width: int) -> None:
    """The page opens from disk without network, messages, overflow or findings; its figure equals its table."""
    opened = open_page(browser, write(render(RUNS, KINDS, LINKS), tmp_path / "index.html", tmp_path), width)

    assert (opened.strangers, opened.overflow, opened.inaccessible(), opened.complaints) == ([], 0, [], [])
    drawn = {
        (x, y, trace["name"]) for trace in opened.drawn("verdicts") for x, y in zip(trace["x"], trace["y"], strict=True)
    }
    assert drawn == {tuple(row) for row in opened.table("verdicts")}
