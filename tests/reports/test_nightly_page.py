"""The page of a nightly run: the complete result."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from history.results.nightly import NightlyResult
from reports.nightly_page import render
from reports.nightly_plots import nightly_runs_figure, own_of
from reports.page import write
from tests.reports.in_browser import WIDTHS, Opened, open_page
from tests.reports.nightly_runs import first_nightly_runs, late_nightly_run


@pytest.fixture(scope="module")
def late() -> NightlyResult:
    """A nightly run with an example of everything."""
    return late_nightly_run()


@pytest.fixture(scope="module")
def first() -> NightlyResult:
    """The second nightly run ever."""
    return first_nightly_runs()


def links(result: NightlyResult) -> dict[str, str]:
    """Return a link for every run of this nightly run."""
    return {run.run_id: f"../../../runs/{run.run_id}/report/index.html" for run in result.runs if run.run_id}


def section(html: str, name: str) -> str:
    """Return the text of a section, without its markup."""
    found = re.search(rf'<section aria-labelledby="{name}">(.*?)</section>', html, re.DOTALL)
    assert found
    return " ".join(re.sub(r"<script.*?</script>|<[^>]+>", " ", found[1], flags=re.DOTALL).split())


def test_the_nightly_run_in_a_sentence(late: NightlyResult) -> None:
    """The page shows the result's sentence and state."""
    html = render(late, {})

    assert '<body data-verdict="fail">' in html
    assert "2 correctness failures (1 new, 1 waived), 1 confirmed slowdown, 1 missing run" in html


def test_alerts_stand_first(late: NightlyResult) -> None:
    """Alerts come first: those raised with a link to a run, those suppressed with the reason."""
    told = section(render(late, links(late)), "alerts")
    alert = late.alerts[1].model_copy(update={"why": "the limit is reached"})
    suppressed = late.model_copy(update={"alerts": [], "suppressed": [alert]})

    assert (
        "correctness new steady on 3.9.1 failed in 1 of 3 runs: 5 acknowledged records are gone. raised its page"
        in told
    )
    assert "performance new p99 latency, acks1_lag_leader_kill on 4.3.0: +16" in told
    assert "There are no alerts." not in told
    assert "There are no alerts." in section(render(suppressed, {}), "alerts")
    assert "suppressed: the limit is reached" in section(render(suppressed, {}), "alerts")


def test_the_matrix_tells_every_cell(late: NightlyResult) -> None:
    """The matrix shows each cell's verdict counts and a link to its worst run, or that it was not planned."""
    html = render(late, links(late))
    told = section(html, "matrix")

    assert "steady 1 missing, 2 pass 1 fail, 2 pass 3 pass" in told
    assert "transactions not planned 2 pass not planned" in told
    assert f'href="{links(late)["nightly-12-steady-3.9.1-2"]}">1 fail, 2 pass</a>' in html
    assert "waived by ada until 2026-12-31" in told


def test_changes_have_their_sizes_and_reasons(late: NightlyResult) -> None:
    """Confirmed changes come first with sizes and reasons; a candidate that was not rerun says so."""
    told = section(render(late, links(late)), "changes")

    assert told.index("confirmed") < told.index("candidate regression")
    assert re.search(r"→ 23\S* ms \+1\d % \(.*?\) \+1\d % \(.*?\), 5 pairs its page", told)
    assert "it was not rerun, so nothing is known yet" in told


def test_a_first_nightly_run_says_what_it_does_not_know(first: NightlyResult) -> None:
    """A first nightly run's page shows that there is no basis for a comparison."""
    html = render(first, {})

    assert '<body data-verdict="pass">' in html
    assert "Nothing was compared: no series has the 9 nightly runs on one host that it needs." in section(
        html, "changes"
    )
    assert "0 of 12 have enough nightly runs to compare" in html
    assert section(html, "series").count("2 of the 9 nightly runs that a comparison needs") == 13


def test_without_benchmarks_nothing_is_told_of_measuring(late: NightlyResult) -> None:
    """Without benchmarks the page has no control, series or repetitions; verdicts, waivers and earlier runs stay."""
    correctness = late.model_copy(update={"settings": {**late.settings, "scenarios": []}, "series": []})
    of_measuring = ('id="control"', 'id="history"', 'id="series"', "Repetitions", "enough nightly runs")
    html, usual = render(correctness, {}), render(late, {})

    assert [what for what in of_measuring if what in html] == []
    assert [what for what in of_measuring if what not in usual] == []
    assert all(f'id="{name}"' in html for name in ("alerts", "matrix", "waivers", "before", "runs", "limits"))


def test_nothing_is_linked_that_is_not_there(late: NightlyResult) -> None:
    """Only existing pages are linked."""
    html = render(late, {"nightly-11": "../nightly-11/index.html"})

    addresses = re.findall(r'href="([^"#][^"]*)"', html)
    assert [address for address in addresses if "runs/" in address] == []
    assert "../nightly-11/index.html" in addresses
    assert "../nightly-10/index.html" not in addresses
    assert "page removed" in section(html, "alerts")


def test_text_never_becomes_markup(late: NightlyResult) -> None:
    """A reason that looks like a tag is shown as text."""
    assert "KAFKA-1 &lt;see notes&gt;" in render(late, {})
    assert "elect_s, up to 30 %" in section(render(late, {}), "waivers")


def test_a_nightly_run_without_a_run_has_a_page(first: NightlyResult) -> None:
    """A nightly run without a run, series or host has a page."""
    empty = first.model_copy(update={name: [] for name in ("series", "cells", "runs", "nightly_runs", "hosts")})

    assert "There are no figures yet." in render(empty, {})


# --- the figure ------------------------------------------------------------------------------------------


def test_a_strip_for_each_scenario_and_a_line_for_each_version(late: NightlyResult) -> None:
    """The figure has a strip for each scenario and a line for each version; a changed level has a vertical line."""
    own = own_of(late.series)["latency_p99_ms"]
    figure = nightly_runs_figure(own)

    lines = [trace for trace in figure["data"] if trace["mode"] == "lines+markers"]
    assert {trace["yaxis"] for trace in lines} == {"y", "y2", "y3"}
    assert sorted(trace["name"] for trace in lines if trace["showlegend"]) == ["2.8.2", "3.9.1", "4.3.0"]
    assert {shape["x0"] for shape in figure["layout"]["shapes"]} == {"2026-10-11T02:00:00+00:00"}
    assert len(figure["layout"]["shapes"]) == 3


def test_small_wobbles_look_small(late: NightlyResult) -> None:
    """A strip's scale spans at least a factor of 1.6 and holds all its points."""
    layout = nightly_runs_figure(own_of(late.series)["latency_p99_ms"])["layout"]

    for axis in ("yaxis", "yaxis2", "yaxis3"):
        low, high = layout[axis]["range"]
        assert high / low >= 1.6
        assert low < 19.8
        assert high > 23.2


# --- in a browser ------------------------------------------------------------------------------------------


def opened(browser: Browser, folder: Path, result: NightlyResult, width: int = 1280) -> Opened:
    """Open the page from disk."""
    page = write(render(result, links(result)), folder / "nightly" / "n" / "index.html", folder)
    return open_page(browser, page, width)


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_disk_for_everybody(browser: Browser, tmp_path: Path, late: NightlyResult, width: int) -> None:
    """The page opens from disk without network, messages, overflow or serious axe-core findings."""
    page = opened(browser, tmp_path, late, width)

    assert (page.strangers, page.overflow, page.inaccessible(), page.complaints) == ([], 0, [], [])


@pytest.mark.browser
def test_figures_hold_what_their_tables_hold(browser: Browser, tmp_path: Path, late: NightlyResult) -> None:
    """Each drawn median, lowest and highest value is in the figure's table, and every row is drawn."""
    page = opened(browser, tmp_path, late)

    for name in ("control", "history-latency_p99_ms", "history-elect_s"):
        traces = page.drawn(name)
        rows = page.table(name)
        for start, column in ((0, 4), (1, 5), (2, 3)):  # a band's low and high, then its line
            drawn = [f"{y:.5g}" for trace in traces[start::3] for y in trace["y"]]
            assert drawn == [row[column] for row in rows]
        assert rows


@pytest.mark.browser
def test_a_first_nightly_run_is_drawn(browser: Browser, tmp_path: Path, first: NightlyResult) -> None:
    """A first nightly run is drawn with two points in a line; the filter leaves one scenario's series."""
    page = opened(browser, tmp_path, first)

    assert page.complaints == []
    assert {len(trace["y"]) for trace in page.drawn("history-latency_p99_ms")} == {2}
    page.page.fill("#filter-series", "elected")
    assert page.page.inner_text("[data-count=table-series]") == "3 of 13 shown"
