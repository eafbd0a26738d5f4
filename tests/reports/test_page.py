"""Pages of more than one run: data in, one page out, the same for everybody who looks."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from reports.cells import Cell, plain, table
from reports.page import PLOTLY, Listing, Page, Plot, Section, Words, embedded, render, write
from tests.reports.in_browser import WIDTHS, open_page

TABLE = table("Two runs", plain("run", "p99"), [(Cell("run-1", link="../runs/run-1"), 12), ("run-2", 15)])
FIGURE = {
    "data": [{"type": "scatter", "mode": "markers", "name": "p99", "x": [1, 2], "y": [12, 15]}],
    "layout": {"height": 300, "xaxis": {"title": {"text": "run"}}, "yaxis": {"title": {"text": "ms"}}},
}
PAGE = Page(
    title="A comparison",
    kind="one comparison",
    sentence="3.9.1 is as fast as 3.9.0 <here>.",
    state="pass",
    facts=[("Base", "3.9.0"), ("Head", "3.9.1")],
    root="",
    sections=[
        Section("effects", "Effects", [Words("One paragraph."), Plot("p99", FIGURE, "p99 of two runs", "How.", TABLE)]),
        Section("runs", "Runs", [Words(["one", "two"], "note"), Listing("runs", TABLE, filtered=True)]),
    ],
)


def test_a_page_is_what_its_data_say() -> None:
    """Sentence, state, facts, every block in order; text never becomes markup."""
    html = render(PAGE)

    assert "3.9.1 is as fast as 3.9.0 &lt;here&gt;." in html
    assert '<body data-verdict="pass">' in html
    assert html.index("One paragraph.") < html.index('id="plot-p99"') < html.index("<li>one</li>")
    assert '<a href="../runs/run-1">run-1</a>' in html
    assert "<" not in embedded("</script>")


def test_a_page_that_judges_nothing_has_no_verdict() -> None:
    """No state, no word and no icon of one."""
    html = render(Page(title="All", kind="index", sentence="12 runs.", sections=[]))

    assert "data-verdict" not in html
    assert 'href="../../index.html"' in html


def test_all_pages_share_one_copy_of_plotly(tmp_path: Path) -> None:
    """It lies in the site's own folder, and is fetched from there."""
    page = write(render(PAGE), tmp_path / "index.html", tmp_path)

    assert (tmp_path / PLOTLY).is_file()
    assert f'data-plotly="{PLOTLY}"' in page.read_text()


def test_a_page_without_figures_loads_none() -> None:
    """A table needs no library."""
    assert 'data-plotly=""' in render(Page(title="All", kind="index", sentence="12 runs.", sections=[]))


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_disk_for_everybody(browser: Browser, tmp_path: Path, width: int) -> None:
    """No network, no complaint, nothing wider than the window, nothing that axe-core calls serious."""
    opened = open_page(browser, write(render(PAGE), tmp_path / "index.html", tmp_path), width)

    assert (opened.strangers, opened.overflow, opened.inaccessible(), opened.complaints) == ([], 0, [], [])


@pytest.mark.browser
def test_figures_hold_what_their_tables_hold(browser: Browser, tmp_path: Path) -> None:
    """The drawn values and the cells behind them are the same, and the filter leaves the matching rows."""
    opened = open_page(browser, write(render(PAGE), tmp_path / "index.html", tmp_path))

    assert opened.drawn("p99") == [{"name": "p99", "x": [1, 2], "y": [12, 15]}]
    assert [row[1] for row in opened.table("p99")] == ["12", "15"]
    opened.page.fill("#filter-runs", "run-2")
    assert opened.page.locator("#table-runs tbody tr:visible").count() == 1
    assert opened.page.inner_text("[data-count=table-runs]") == "1 of 2 shown"
