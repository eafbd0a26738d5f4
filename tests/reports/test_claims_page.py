"""The page of one version's answers."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from history.results.claims import ClaimsResult
from reports.claims_page import render
from reports.page import write
from tests.reports.in_browser import WIDTHS, open_page

CRITERIA = {"known": "partly", "shows": "its HW is its LEO", "refutes": "its HW stays below"}


UNSEEN = {"verdict": "not observable", "sentence": "No trace.", "experiment": "", "run_id": "", "evidence": []}
REFUTED = {
    "verdict": "refuted",
    "sentence": "HW 20, LEO 35.",
    "experiment": "eviction",
    "run_id": "r1",
    "evidence": [{"source": "brokers/broker-1/server.log:7", "at_s": 1.5, "text": "Shrinking ISR <now>"}],
}
WALKTHROUGH = {
    "title": "By fetches",
    "short": "Fetches",
    "words": "One by one.",
    "columns": ["ms", "HW"],
    "rows": [[5, None]],
}


def result(**changes: Any) -> ClaimsResult:
    """Return a result with two claims, one of them not observable."""
    about = CRITERIA | {"notes": ["N0"], "changes": "from 3.7 (KAFKA-15583)"}
    usual = {
        "campaign_id": "c1",
        "settings": {},
        "counts": {"refuted": 1, "not observable": 1},
        "kafka": "4.3.0",
        "modes": ["kraft"],
        "created_at": "2026-11-21T08:00:00+00:00",
        "state": "",
        "sentence": "Of 2 claims, on Kafka 4.3.0: 0 shown, 1 refuted, 1 not observable.",
        "runs": {"eviction": "r1"},
        "walkthroughs": [WALKTHROUGH],
        "claims": {"C9": {"text": "An order.", **about}, "C48": {"text": "HW = LEO.", **about}},
        "answers": {"C9": UNSEEN, "C48": REFUTED},
    }
    return ClaimsResult.model_validate({**usual, **changes})


def test_each_claim_leads_to_its_evidence_and_that_to_its_run() -> None:
    """A claim's row links to its evidence, which links to its run; an unobservable claim has no evidence."""
    html = render(result(), {"r1": "../../../runs/r1/report/index.html"})

    assert 'href="#table-c48"' in html
    assert 'id="table-c48"' in html
    assert 'id="table-c9"' not in html
    assert "Shrinking ISR &lt;now&gt;" in html
    assert 'href="../../../runs/r1/report/index.html"' in html
    assert 'href="../../../runs/r1/brokers/broker-1/server.log"' in html
    assert "1.500 s" in html
    assert "One by one." in html
    assert ">Fetches</a>" in html
    assert html.count("its HW stays below") == 2


def test_all_claims_are_in_sight() -> None:
    """The table of claims does not scroll in a box; long tables of evidence do."""
    few = result()
    claims = {f"C{number}": few.claims["C48"] for number in range(1, 49)}
    walk = few.walkthroughs[0].model_copy(update={"rows": few.walkthroughs[0].rows * 25})
    html = render(result(claims=claims, answers=dict.fromkeys(claims, few.answers["C9"]), walkthroughs=[walk]), {})

    assert html.count('class="scroll tall"') == 1
    assert 'class="scroll tall" role="region" aria-label="By fetches"' in html


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_disk_for_everybody(browser: Browser, tmp_path: Path, width: int) -> None:
    """The page opens from disk without network, messages, overflow or serious axe-core findings."""
    page = write(render(result(), {}), tmp_path / "claims" / "c1" / "index.html", tmp_path)
    opened = open_page(browser, page, width)

    assert (opened.strangers, opened.overflow, opened.inaccessible(), opened.complaints) == ([], 0, [], [])
