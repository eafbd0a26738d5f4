"""A topic, phase, sentence or log line is shown as text, and the pages' policy runs no other scripts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page

from history.folder import RunFolder
from history.results.claims import ClaimsResult
from reports import claims_page
from reports import page as pages
from reports.cells import Cell, plain, table
from reports.page import Links, Listing, Plot, Section, Words, render, write
from reports.run_page import publish
from service.pages_server import serve
from tests.reports.in_browser import open_page
from tests.reports.sample_run import write_sample_run
from tests.reports.test_claims_page import result
from tests.reports.test_page import FIGURE

RUNS = "window.wasRun = 1"
EVIL = (
    f"<script>{RUNS}</script><img src=x onerror='{RUNS}'></script><svg onload=\"{RUNS}\"></svg>"
    f"</title></style><a href='javascript:{RUNS}'>x</a>{{{{7*7}}}}"
)
WAS_RUN = "window.wasRun === undefined ? 'no' : 'yes'"
# Text from outside: a run's topics and phases, messages of brokers and clients, and the judge's findings.
TOLD = ("orders", "follower lags", "leader dies", "session expiry", "producer-1", "Every acknowledged", "I10: ")
TOLD += ("Shrinking ISR",)
# A page shows an imported history's keys and values of records; no other key or value, and no header.
LOG_LINE, KEY, VALUE = f"No space left on device{EVIL}", f"account 7{EVIL}", f"deposit 12{EVIL}"


def hostile(value: Any) -> Any:
    """Return a JSON value with markup added to every text from outside, keys included."""
    if isinstance(value, str):
        for word in TOLD:
            value = value.replace(word, f"{word}{EVIL}")
        return value
    if isinstance(value, list):
        return [hostile(each) for each in value]
    if isinstance(value, dict):
        return {hostile(key): hostile(each) for key, each in value.items()}
    return value


def tell_more(run: RunFolder, origin: str) -> None:
    """Add a broker's log line as a fault's proof, and keys and values of an imported history."""
    events = [json.loads(line) for line in run.events.read_text().splitlines()]
    for event in (event for event in events if event["kind"] == "injected"):
        event["detail"]["log"] = [LOG_LINE]
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    manifest = json.loads(run.manifest.read_text())
    manifest |= {"origin": origin, "scenario": {**manifest["scenario"], "keys": {"orders-0": json.dumps(KEY)}}}
    run.manifest.write_text(json.dumps(manifest))
    (file,) = run.judged("anomalies").glob("*.parquet")
    cases = pq.read_table(file)
    named = {"explanation": f"Key {KEY}, value {VALUE}.", "evidence": json.dumps({"key": KEY, "value": VALUE})}
    rows = [{**case, **named} if case["anomaly"] == "inconsistent_offset" else case for case in cases.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=cases.schema), file)


def hostile_run(folder: Path, origin: str = "recorded") -> Path:
    """Write a recorded (or imported) and judged run whose every text contains a script."""
    run = write_sample_run(folder, acks1=True)
    tell_more(RunFolder(run), origin)
    for file in [*run.rglob("*.json"), *run.rglob("*.jsonl")]:
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        file.write_text("".join(json.dumps(hostile(json.loads(line))) + "\n" for line in lines))
    for file in run.rglob("*.parquet"):
        rows = pq.read_table(file)
        pq.write_table(pa.Table.from_pylist(hostile(rows.to_pylist()), schema=rows.schema), file)
    return run


def markup(page: Page) -> dict[str, Any]:
    """Return the page's elements that pages never contain, and whether a foreign script ran."""
    count = "(what) => document.querySelectorAll(what).length"
    return {
        "was run": page.evaluate(WAS_RUN),
        "pictures": page.evaluate(count, "img"),
        "scripts": page.evaluate(count, "script:not([data-plotly]):not([type='application/json']):not([src])"),
        "links": page.evaluate(count, "a[href^='javascript']"),
    }


NONE = {"was run": "no", "pictures": 0, "scripts": 0, "links": 0}


@pytest.mark.browser
@pytest.mark.parametrize("origin", ["recorded", "jepsen"])
def test_a_run_shows_what_it_was_told_as_text(browser: Browser, tmp_path: Path, origin: str) -> None:
    """A run's page shows all text from outside as text, draws its figures and violates no policy."""
    opened = open_page(browser, publish(hostile_run(tmp_path / "runs" / "run-1", origin)))
    for details in opened.page.query_selector_all("details"):
        details.evaluate("(each) => { each.open = true; }")
    opened.page.wait_for_selector("details[data-table] td", state="attached")

    assert markup(opened.page) == NONE
    assert opened.complaints == []
    shown = opened.page.inner_text("main")
    for text in (*(f"{word}{EVIL}" for word in ("orders", "follower lags", "leader dies")), LOG_LINE, KEY, VALUE):
        assert text in shown, text
    assert (json.dumps(KEY) in shown) == (origin == "jepsen")  # the key that a partition stands for
    assert opened.drawn("replicas")


@pytest.mark.browser
def test_a_claim_shows_a_log_line_as_text(browser: Browser, tmp_path: Path) -> None:
    """A claim's page shows a broker's log line as text."""
    told = ClaimsResult.model_validate(hostile(result().model_dump(mode="json")))
    opened = open_page(browser, write(claims_page.render(told, {}), tmp_path / "index.html", tmp_path))

    assert markup(opened.page) == NONE
    assert opened.complaints == []
    assert f"Shrinking ISR{EVIL} <now>" in [cell for row in opened.table("c48") for cell in row]


@pytest.mark.browser
def test_figures_show_markup_as_text(browser: Browser, tmp_path: Path) -> None:
    """Names, axes and annotations of a figure are shown as text, although Plotly would render links in them."""
    link = f"<a href='https://elsewhere.example/'>{EVIL}</a>"
    figure = json.loads(json.dumps(FIGURE))
    figure["data"] = [{**figure["data"][0], "name": link, "text": [link, link], "mode": "markers+text"}] * 2
    figure["layout"] |= {"annotations": [{"text": link, "x": 1, "y": 1}], "showlegend": True}
    figure["layout"]["xaxis"] |= {"title": {"text": link}, "tickvals": [1], "ticktext": [link]}
    rows = table(link, plain(link), [(Cell(link, link=f"javascript:{RUNS}"),), (Cell("fine", link="../fine"),)])
    told = pages.Page(
        title=EVIL,
        kind=EVIL,
        sentence=link,
        sections=[
            Section("a", link, [Words(link), Plot("p99", figure, link, link, rows), Listing("l", rows)]),
            Section("b", link, [Links([(link, f"JavaScript:{RUNS}"), ("page", "page.html")])]),
        ],
        facts=[(link, link)],
        root="",
    )
    opened = open_page(browser, write(render(told), tmp_path / "index.html", tmp_path))

    assert markup(opened.page) == NONE
    assert opened.complaints == []
    plot = opened.page.locator("#plot-p99")
    assert plot.locator("a[*|href*='elsewhere']").count() == 0
    assert EVIL in (plot.locator(".annotation-text").first.text_content() or "")
    addresses = opened.page.evaluate("[...document.querySelectorAll('main a')].map((a) => a.getAttribute('href'))")
    assert {address for address in addresses if not address.startswith("#")} == {"../fine", "page.html"}


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A page with unescaped markup."""
    page = publish(write_sample_run(tmp_path / "runs" / "run-1"))
    page.write_text(page.read_text().replace("</main>", f'{EVIL}<script src="x.js"></script></main>', 1))
    (page.parent / "x.js").write_text(RUNS)
    return page


@pytest.mark.browser
def test_the_policy_runs_no_script_but_the_pages_own(browser: Browser, broken: Path) -> None:
    """The policy runs no script but the page's: none in the page, in a handler or in a file of the same folder."""
    opened = open_page(browser, broken)
    opened.page.evaluate("document.querySelector('a[href^=javascript]').click()")

    assert opened.page.evaluate(WAS_RUN) == "no"
    assert len([said for said in opened.complaints if "Content Security Policy" in said]) >= 4
    assert opened.drawn("replicas")


@pytest.mark.browser
def test_without_the_policy_they_would_run(browser: Browser, broken: Path) -> None:
    """Without the policy the scripts run (control of the test above)."""
    broken.write_text(broken.read_text().replace("Content-Security-Policy", "x-none", 1))

    assert open_page(browser, broken).page.evaluate(WAS_RUN) == "yes"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The pages' server, with a run full of scripts."""
    publish(hostile_run(tmp_path / "runs" / "run-1"))
    server = serve(0, tmp_path / "runs")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/runs/run-1/report/index.html"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.browser
def test_a_served_page_is_drawn_under_its_policy(browser: Browser, served: str) -> None:
    """A served page draws its figures under the policy, as from disk, without messages or other scripts."""
    complaints: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(served)
    page.wait_for_selector("body[data-drawn]", state="attached")

    assert markup(page) == NONE
    assert page.evaluate("document.getElementById('plot-replicas').data.length") > 0
    assert [said for said in complaints if "favicon" not in said and "404" not in said] == []
