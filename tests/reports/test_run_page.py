"""The page of one run: complete without a network, and clear about missing parts."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from history.events import Event
from history.manifest import ATTACHED, Incarnation, read_manifest
from reports.page import PLOTLY, Bar, embedded
from reports.run_data import read_run
from reports.run_page import _isr_observer, main, publish
from reports.strip import _is_met, _labelled
from tests.reports.in_browser import WIDTHS, Opened, open_page
from tests.reports.sample_run import BACK_S, KILL_S, write_sample_run

LARGEST_BYTES = 2_000_000
FAULTS = 3
SECTIONS = ["timeline", "replicas", "isr", "sends", "delivery"]
SECTIONS += ["anomalies", "invariants", "offsets", "recovery", "files"]


def _text(folder: Path) -> str:
    return publish(folder).read_text()


def _figure(html: str, name: str) -> dict[str, Any]:
    found = re.search(rf'<script type="application/json" id="figure-{name}">(.*?)</script>', html, re.DOTALL)
    assert found, f"there is no figure {name}"
    figure: dict[str, Any] = json.loads(found[1])
    return figure


# --- the page as text ------------------------------------------------------------------------------


def test_the_verdict_stands_first(tmp_path: Path) -> None:
    """The first heading is the verdict's sentence, and the body element has the verdict for programs."""
    html = _text(write_sample_run(tmp_path / "runs" / "run-1"))
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", html)

    assert heading
    assert heading[1].startswith("Every acknowledged record survived")
    assert '<body data-verdict="pass">' in html


def test_every_section_is_there_in_order(tmp_path: Path) -> None:
    """All ten sections follow the verdict in order, each once."""
    html = _text(write_sample_run(tmp_path / "runs" / "run-1"))

    assert re.findall(r'<h2 id="(\w+)">', html) == SECTIONS


def test_what_could_not_be_offered_is_told(tmp_path: Path) -> None:
    """A load that was not offered is shown with the generator's capacity; a client without records is no load."""
    run = write_sample_run(tmp_path / "runs" / "run-1")
    said = "producer-1: 14 of 40,000 records that were due were never sent; "
    said += "busy 12% of the time, so it could offer at least 7,997/s"

    assert said in _text(run)
    (run / "clients" / "producer.json").unlink()
    assert said not in _text(run)


def test_the_isr_figure_says_who_recorded_it(tmp_path: Path) -> None:
    """The ISR figure names the controller, leaders' metadata, or both if a partition has no row of the controller."""
    run = read_run(write_sample_run(tmp_path / "run"))
    recorded = run.rows("timeline_isr")

    def said(rows: list[dict[str, Any]]) -> str:
        return _isr_observer(replace(run, tables={**run.tables, "timeline_isr": rows}))

    of_leaders = [row for row in recorded if row["observer"] != "controller"]
    both = [*recorded, *(row | {"partition": 9} for row in of_leaders)]
    assert said(recorded) == "As the controller recorded it"
    assert said(of_leaders) == "As each leader's own metadata showed it"
    assert said(both) == (
        "As the controller recorded it, or as each leader's own metadata showed it if that history begins late or is "
        "incomplete"
    )


def test_every_figure_has_its_data_behind_it(tmp_path: Path) -> None:
    """Each of the three figures has its JSON and its table."""
    html = _text(write_sample_run(tmp_path / "runs" / "run-1"))

    for name in ("replicas", "isr", "sends"):
        assert _figure(html, name)["data"]
        assert f'<details data-table="{name}">' in html


def test_lost_records_are_explained(tmp_path: Path) -> None:
    """The failed run explains 200 of its 901 cases and says where the others are."""
    html = _text(write_sample_run(tmp_path / "runs" / "run-1", acks1=True))

    assert "producer-1 #21100 was acknowledged at offset 21100 by broker 1 in epoch 4" in html
    assert "The first 200 of 901 cases are shown" in html
    assert 'href="cases.csv"' in html
    assert html.count("was acknowledged at offset") == 199  # and one inconsistent offset
    with (tmp_path / "runs" / "run-1" / "report" / "cases.csv").open() as file:
        anomalies = [row["anomaly"] for row in csv.DictReader(file)]
    assert anomalies == ["inconsistent_offset"] + ["lost_write"] * 900  # a case that nothing permits comes first


def test_no_anomaly_found_is_not_the_same_as_none_looked_for(tmp_path: Path) -> None:
    """An empty table of anomalies and a missing one yield different pages."""
    folder = write_sample_run(tmp_path / "runs" / "run-1")
    looked_for = _text(folder)
    shutil.rmtree(folder / "verdict" / "anomalies")
    missing = _text(folder)

    assert "No anomalies." in looked_for
    assert "No anomalies." not in missing
    assert "the table <code>verdict/anomalies</code> is missing" in missing


def test_a_run_that_was_not_judged_gives_a_page(tmp_path: Path) -> None:
    """The page of a run without a verdict is unknown, lists the missing tables and shows the offsets."""
    folder = write_sample_run(tmp_path / "runs" / "run-1")
    shutil.rmtree(folder / "verdict")

    html = _text(folder)

    assert '<body data-verdict="unknown">' in html
    assert html.count(": the table was not written</li>") == 9
    assert 'id="table-offsets"' in html


def test_a_run_on_a_cluster_of_others_lists_what_it_cannot_judge(tmp_path: Path) -> None:
    """The page names the missing sources and the checks; the page of Plimsoll's own cluster has no such section."""
    own = write_sample_run(tmp_path / "runs" / "run-1")
    assert "What this run cannot judge" not in _text(own)
    for file, change in (
        ("manifest.json", {"origin": "attached", "evidence": sorted(ATTACHED), "kafka_version": "unknown"}),
        ("verdict/verdict.json", {"evidence": "clients", "not_judged": ["I19", "I20"]}),
    ):
        path = own / file
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    html = _text(own)
    assert "What this run cannot judge" in html
    assert "So these checks were not made: I19, I20." in html
    assert "needs the controller&#39;s history" in html
    assert "Kafka of unknown version" in html


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("4.1-IV1", "Kafka of metadata.version 4.1-IV1 (Kafka 4.1 or newer), KRaft"),
        ("99", "metadata.version 99, KRaft"),
    ],
)
def test_an_unknown_version_has_the_least_that_its_features_need(tmp_path: Path, level: str, shown: str) -> None:
    """A level that is not known names no version; a known version is shown alone."""
    folder = write_sample_run(tmp_path / "runs" / "run-1")
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | {"features": {"metadata.version": level}}
    path.write_text(json.dumps(manifest))
    assert "of metadata.version" not in _text(folder)
    attached = {"origin": "attached", "evidence": sorted(ATTACHED), "kafka_version": "unknown"}
    path.write_text(json.dumps(manifest | attached))
    assert shown in _text(folder)


def test_a_single_partition_needs_no_choice(tmp_path: Path) -> None:
    """A single partition needs no selector; two partitions have one."""
    assert "data-choose>" not in _text(write_sample_run(tmp_path / "runs" / "run-1"))
    assert "data-choose>" in _text(write_sample_run(tmp_path / "runs" / "run-2", partitions=2))


def test_text_of_a_run_cannot_become_markup(tmp_path: Path) -> None:
    """An explanation or a phase name that looks like a script is shown as text."""
    html = _text(write_sample_run(tmp_path / "runs" / "run-1", acks1=True))

    assert "&lt;script&gt;alert(1)" in html
    assert "<script>alert(1)" not in html
    assert json.loads(embedded("</script>")) == "</script>"
    assert "<" not in embedded("</script>")


def test_the_page_names_no_address_but_its_neighbours(tmp_path: Path) -> None:
    """The page loads and links only its run folder and site, and contains no path of the machine."""
    html = _text(write_sample_run(tmp_path / "runs" / "run-1"))

    addresses = re.findall(r'(?:src|href)="([^"#][^"]*)"', html)

    assert addresses
    assert all(address.startswith("../") or address == "cases.csv" for address in addresses)
    assert f'data-plotly="../../../site/{PLOTLY} {PLOTLY}"' in html
    assert str(tmp_path) not in html


def test_every_link_leads_somewhere(tmp_path: Path) -> None:
    """Every link on the page has its file."""
    page = publish(write_sample_run(tmp_path / "runs" / "run-1"))

    for address in re.findall(r'href="([^"#][^"]*)"', page.read_text()):
        assert (page.parent / address).exists(), address


def test_the_page_stays_small(tmp_path: Path) -> None:
    """The page stays small with twice as many samples as are drawn."""
    folder = write_sample_run(tmp_path / "runs" / "run-1", acks1=True, samples_per_s=400)

    assert publish(folder).stat().st_size < LARGEST_BYTES


def _published(root: Path) -> dict[str, bytes]:
    """Return the published files of a run folder and its site."""
    return {
        str(file.relative_to(root)): file.read_bytes()
        for place in ("runs/run-1/report", "site")
        for file in (root / place).rglob("*")
        if file.is_file()
    }


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    """The same run yields the same bytes, also from a copy in a process with other hashes; another run does not."""
    here, there = tmp_path / "here", tmp_path / "there"
    run = write_sample_run(here / "runs" / "run-1", acks1=True)
    shutil.copytree(here, there)
    for seed, root in (("1", here), ("2", there)):
        command = [sys.executable, "-m", "reports.run_page", str(root / "runs" / "run-1")]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
    written = _published(here)

    assert written.keys() == {"runs/run-1/report/cases.csv", "runs/run-1/report/index.html", f"site/{PLOTLY}"}
    assert _published(there) == written
    publish(run)
    assert _published(here) == written
    (run / "clients" / "producer.json").unlink()
    publish(run)
    assert _published(here) != written


def test_a_folder_that_is_no_run_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a run exits with 3 and one sentence; a run yields its page's path and 0."""
    run = write_sample_run(tmp_path / "runs" / "run-1")

    assert main([str(tmp_path)]) == 3
    assert "manifest.json is missing" in capsys.readouterr().err
    assert main([str(run)]) == 0
    assert capsys.readouterr().out == f"report: {run / 'report' / 'index.html'}\n"


# --- the page in a browser -------------------------------------------------------------------------


def _open(browser: Browser, folder: Path, width: int = 1280) -> Opened:
    return open_page(browser, publish(folder), width)


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_opens_from_disk_without_a_network(browser: Browser, tmp_path: Path, width: int) -> None:
    """The page opens from disk with two file requests, without messages, overflow or serious axe-core findings."""
    opened = _open(browser, write_sample_run(tmp_path / "runs" / "run-1", acks1=True), width)

    assert opened.page.evaluate("document.body.dataset.verdict") == "fail"
    assert len(opened.requests) == 2
    assert all(address.startswith("file:") for address in opened.requests)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.inaccessible() == []
    assert opened.complaints == []


@pytest.mark.browser
def test_what_is_drawn_is_what_was_seen(browser: Browser, tmp_path: Path) -> None:
    """The drawn series of the killed broker has a gap, and the others have none."""
    opened = _open(browser, write_sample_run(tmp_path / "runs" / "run-1"))
    drawn = opened.page.evaluate(
        "document.getElementById('plot-replicas').data"
        ".filter((trace) => trace.meta.series === 'LEO' && trace.meta.view === 'offset')"
        ".map((trace) => ({broker: trace.meta.broker, x: [...trace.x], y: [...trace.y]}))"
    )

    assert [line["broker"] for line in drawn] == [1, 2, 3]
    for line in drawn:
        dead = [y for x, y in zip(line["x"], line["y"], strict=True) if KILL_S <= x < BACK_S]
        assert dead
        assert all(y is None for y in dead) == (line["broker"] == 1)


@pytest.mark.browser
def test_the_table_behind_a_figure_opens(browser: Browser, tmp_path: Path) -> None:
    """Opening the details fills in the figure's rows, with a dash for a gap."""
    page = _open(browser, write_sample_run(tmp_path / "runs" / "run-1")).page

    page.click("details[data-table=replicas] summary")
    rows = page.locator("details[data-table=replicas] tbody tr")

    rows.first.wait_for()
    assert rows.count() == 1_203
    assert "–" in rows.filter(has_text=re.compile(r"^22.51")).first.inner_text()


@pytest.mark.browser
def test_a_partition_is_chosen_for_all_figures(browser: Browser, tmp_path: Path) -> None:
    """A chosen partition is drawn alone in every figure with partitions."""
    page = _open(browser, write_sample_run(tmp_path / "runs" / "run-1", partitions=2)).page
    drawn = (
        "['replicas', 'isr'].map((name) => [...new Set(document.getElementById(`plot-${name}`).data"
        ".filter((trace) => trace.visible !== false).map((trace) => trace.meta.partition))].join())"
    )

    assert page.evaluate(drawn) == ["orders-0", "orders-0"]
    page.select_option("section:has(#isr) [data-choose]", "orders-1")
    assert page.input_value("section:has(#replicas) [data-choose]") == "orders-1"
    assert page.evaluate(drawn) == ["orders-1", "orders-1"]


@pytest.mark.browser
def test_the_figures_share_their_time_axis(browser: Browser, tmp_path: Path) -> None:
    """Zooming into one figure zooms the others."""
    page = _open(browser, write_sample_run(tmp_path / "runs" / "run-1")).page

    zoomed = page.evaluate(
        """() => {
          const sends = document.getElementById("plot-sends");
          const told = new Promise((done) => sends.on("plotly_relayout", () => done([...sends.layout.xaxis.range])));
          Plotly.relayout("plot-isr", {"xaxis.range[0]": 5, "xaxis.range[1]": 15});
          return told;
        }"""
    )

    assert zoomed == [5, 15]


@pytest.mark.browser
def test_no_tool_of_a_figure_sends_it_anywhere(browser: Browser, tmp_path: Path) -> None:
    """A figure's tool bar saves an image, zooms, moves and resets; Plotly's upload tools are removed."""
    page = _open(browser, write_sample_run(tmp_path / "runs" / "run-1")).page
    tools = page.locator("#plot-isr .modebar-btn").evaluate_all("(all) => all.map((one) => one.dataset.title)")

    assert len(tools) == 4
    assert not [title for title in tools if re.search("cloud|share|edit|upload", title, re.IGNORECASE)]


@pytest.mark.browser
def test_the_filter_leaves_the_matching_cases(browser: Browser, tmp_path: Path) -> None:
    """The filter leaves the cases whose row contains every word, and shows their number."""
    page = _open(browser, write_sample_run(tmp_path / "runs" / "run-1", acks1=True)).page

    page.fill("#filter-cases", "lost #21150")

    assert page.locator("#table-cases tbody tr:visible").count() == 1
    assert page.inner_text("[data-count=table-cases]") == "1 of 200 shown"


@pytest.mark.browser
def test_figures_follow_the_theme(browser: Browser, tmp_path: Path) -> None:
    """A change from the light to the dark scheme redraws the text in the dark scheme's colour."""
    page = _open(browser, write_sample_run(tmp_path / "runs" / "run-1")).page
    ink = "document.getElementById('plot-sends').layout.font.color"
    light = page.evaluate(ink)

    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("body[data-drawn=dark]", state="attached")

    assert page.evaluate(ink) != light
    assert page.evaluate(ink) == page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')")


@pytest.mark.browser
def test_a_run_that_was_copied_alone_says_what_it_lacks(browser: Browser, tmp_path: Path) -> None:
    """A run copied without its site keeps its text and tables; with the site's Plotly it draws its figures."""
    page = publish(write_sample_run(tmp_path / "runs" / "run-1"))
    alone = tmp_path / "elsewhere" / "a" / "b" / "report"
    shutil.copytree(page.parent, alone)

    opened = open_page(browser, alone / "index.html").page
    assert f"Put the site's {PLOTLY} beside it" in opened.inner_text("#plot-isr")
    opened.click("details[data-table=isr] summary")
    rows = opened.locator("details[data-table=isr] tbody tr")
    rows.first.wait_for()
    assert rows.count() == 10

    shutil.copy(tmp_path / "site" / PLOTLY, alone)
    assert open_page(browser, alone / "index.html").drawn("isr")


def test_no_run_folder_holds_a_copy_of_plotly(tmp_path: Path) -> None:
    """Plotly is once in the site, and in no run folder."""
    page = publish(write_sample_run(tmp_path / "runs" / "run-1"))

    assert sorted(file.name for file in page.parent.iterdir()) == ["cases.csv", "index.html"]
    assert (tmp_path / "site" / PLOTLY).stat().st_size > 1_000_000


def test_many_phases_are_numbered(tmp_path: Path) -> None:
    """Phases whose names do not fit have numbers with a table of names; three names fit."""
    few, many = write_sample_run(tmp_path / "runs" / "run-1"), write_sample_run(tmp_path / "runs" / "run-2", phases=33)
    label, number, nothing = (f'<span class="wide-{word}' for word in ("label", "number", "nothing"))

    assert [_text(few).count(word) for word in (label, number, nothing)] == [3 + FAULTS, 0, 0]
    assert _text(many).count(label) == FAULTS
    assert _text(many).count(number) + _text(many).count(nothing) == 33
    assert _text(many).count(number) > 10
    assert "<summary>The phases, in order.</summary>" in _text(few)
    assert "<summary>The phases, in order.</summary>" not in _text(many)
    assert ">load step 33</td>" in _text(many)


def test_numbers_that_would_touch_are_left_out() -> None:
    """Of numbers that would touch only the first is shown."""
    bars = [Bar("a long name of a phase", str(n), left, 1.0) for n, left in ((1, 0.0), (2, 1.0), (3, 50.0))]

    assert [bar.wide for bar in _labelled(bars)] == ["number", "nothing", "number"]


@pytest.mark.parametrize(
    ("kind", "detail", "met"),
    [
        ("condition_met", {}, True),
        ("wait_timed_out", {}, False),
        ("precondition", {"met": True}, True),
        ("precondition", {"met": False}, False),
        ("error", {}, False),
    ],
)
def test_only_what_was_met_has_a_tick(kind: str, detail: dict[str, Any], met: bool) -> None:
    """Only a met condition has a tick; a precondition is recorded in both cases."""
    assert _is_met(Event(0, "", kind, "chaos", "", "", detail)) == met


def test_a_positive_control_says_what_is_expected(tmp_path: Path) -> None:
    """A positive control shows the expected anomaly and the setting that permits it; other runs show neither."""
    control, other = (_text(write_sample_run(tmp_path / "runs" / f"run-{n}", acks1=n == 1)) for n in (1, 2))

    assert "Expected: lost records, permitted by acks=1." in control
    assert "Expected:" not in other


def test_a_rolled_run_names_every_version(tmp_path: Path) -> None:
    """The page of a rolled run shows every version, a build's origin, and the features that brokers finalised."""
    folder = write_sample_run(tmp_path / "runs" / "run-1")
    file = folder / "manifest.json"
    start = Incarnation(node="broker-1", incarnation=2, kafka_version="4.4.0-SNAPSHOT", started_ns=1)
    told = {"kafka_origin": "archive trunk.tgz", "incarnations": [start], "features": {"metadata.version": "4.3-IV0"}}
    read_manifest(file).model_copy(update=told).write(file)
    html = _text(folder)

    assert "4.3.0, then 4.4.0-SNAPSHOT, KRaft, archive trunk.tgz" in html
    assert "metadata.version 4.3-IV0" in html
