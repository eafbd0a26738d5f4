"""The page of a capacity plan: the answer first, a table for every figure, and the unknowns."""

import re
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from campaigns.capacity.campaign import result
from history.results.capacity import CapacityResult
from reports.capacity_page import render
from reports.page import write
from tests.campaigns.capacity_rows import archive, campaign
from tests.reports.in_browser import WIDTHS, open_page

SECTIONS = [
    "plan",
    "latency",
    "catch_up",
    "check",
    "downtime",
    "demand",
    "disk",
    "partitions",
    "headroom",
    "throttle",
    "limits",
]
FIGURES = ["latency", "catch-up", "longest-down", "partitions", "ledger"]


@cache
def _told() -> CapacityResult:
    asked = campaign(partitions=[3, 30, 300], racks=3, disk_gb=400, old_reads_share="10%")
    return result(asked, archive(asked))


def _written(tmp_path: Path) -> Path:
    """Write the page into a site with the site's Plotly."""
    return write(render(_told(), {}), tmp_path / "capacity" / "plan-1" / "index.html", tmp_path)


def test_the_answer_stands_first_and_every_part_follows() -> None:
    """The answer's sentence and verdict come first, followed by the eleven sections in order."""
    html = render(_told(), {})

    assert "3 brokers carry 3.9 MB/s" in re.findall(r"<h1[^>]*>(.*?)</h1>", html)[0]
    assert '<body data-verdict="fail">' in html
    assert "There are too few brokers." in html
    assert re.findall(r'<h2 id="([\w-]+)">', html) == SECTIONS
    assert re.findall(r'id="figure-([\w-]+)"', html) == FIGURES
    assert re.findall(r'class="([\w ]+)"[^>]*>\n<table id="table-plan"', html) == ["scroll"]  # all of it, however long


def test_runs_lead_to_their_pages_where_there_is_one() -> None:
    """A run is linked to its page; a run whose folder was removed is named without a link."""
    html = render(_told(), {"run-06": "../../../runs/run-06/report/index.html"})

    assert '<a href="../../../runs/run-06/report/index.html">run-06</a>' in html
    assert re.search(r"<td>run-07</td>", html)


def test_what_was_not_measured_is_said_instead_of_drawn() -> None:
    """Without measurements the page has no figure and no plan, but every reason."""
    html = render(result(campaign(), []), {})

    assert '<body data-verdict="unknown">' in html
    assert 'id="figure-' not in html
    assert "No degraded load step can be used." in html
    assert "was not tested on held-out runs" in html


def test_disks_racks_and_partitions_are_shown_where_they_were_asked_about() -> None:
    """The page shows rack loss, disk size and partition cost only if the question includes them."""
    html, plain = render(_told(), {}), render(result(campaign(), archive(campaign())), {})

    for shown in (">a rack away</th>", ">the disk</td>", 'id="figure-partitions"'):
        assert (shown in html, shown in plain) == (True, False), shown
    assert "Each broker of the question holds 6 replicas (3 to 300 were run): CPU 0.101 s per MB" in html
    assert "Set disk_gb to see when a disk is full" in plain


def test_a_load_without_end_is_not_drawn_to_infinity() -> None:
    """A knee above every offered load, and a load that never catches up, are words in the tables."""
    asked = campaign(target_p99_ms=100_000, load_steps=[1, 2, 3])
    html = render(result(asked, archive(asked)), {})

    assert "above 3" in html
    assert "Infinity" not in html


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_disk_for_everybody(browser: Browser, tmp_path: Path, width: int) -> None:
    """The page opens from disk without network, messages, overflow or serious axe-core findings."""
    opened = open_page(browser, _written(tmp_path), width)

    assert (opened.strangers, opened.overflow, opened.inaccessible(), opened.complaints) == ([], 0, [], [])


@pytest.mark.browser
def test_figures_hold_what_their_tables_hold(browser: Browser, tmp_path: Path) -> None:
    """Every drawn value is in the figure's table, and every value of the table is drawn."""
    opened = open_page(browser, _written(tmp_path))

    for name in FIGURES:
        table = {cell.lstrip("≥ ").replace(",", "") for row in opened.table(name) for cell in row}
        drawn = {f"{value:.10g}" if isinstance(value, float | int) else value for trace in opened.drawn(name)
                 for value in (*trace["x"], *trace["y"]) if value is not None}  # fmt: skip
        assert drawn - table == set(), name
        assert len(drawn) > 5
    runs = {row[0] for row in opened.table("catch-up")} - {"model"}
    assert runs == {point.run_id for point in _told().catch_up.points}
