"""The page over the sample site: what there is, and how it was made."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from reports.page import write
from reports.sample_page import Made, Shown, duration, render
from tests.reports.in_browser import WIDTHS, open_page

MADE = Shown("A run", "one scenario", "plimsoll run steady", "", Made("../runs/a/index.html", "pass", "It held.", 150))
OPEN = Shown("A nightly run", "a matrix", "plimsoll nightly", "settings/n.yaml", None)


def test_what_is_made_is_linked_and_what_is_not_says_so() -> None:
    """With its command, and a link to its settings where it has some."""
    html = render([MADE, OPEN])

    assert "1 of 2 sample pages, each made by one command from real runs on this host, in 2 min." in html
    assert '<a href="../runs/a/index.html">A run</a>' in html
    assert "not made yet" in html
    assert '<a href="settings/n.yaml">settings/n.yaml</a>' in html
    assert "plimsoll nightly" in html


def test_an_empty_site_says_how_to_begin() -> None:
    """The command, and no number."""
    assert "<code>make sample</code>" in render([OPEN])


@pytest.mark.parametrize(("seconds", "shown"), [(119, "119 s"), (120, "2 min"), (3600, "60 min")])
def test_a_duration_is_in_minutes_from_two_on(seconds: int, shown: str) -> None:
    """As a person says it."""
    assert duration(seconds) == shown


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_disk_for_everybody(browser: Browser, tmp_path: Path, width: int) -> None:
    """No network, no complaint, not too wide, accessible."""
    opened = open_page(browser, write(render([MADE, OPEN]), tmp_path / "sample.html", tmp_path), width)

    assert (opened.strangers, opened.overflow, opened.inaccessible(), opened.complaints) == ([], 0, [], [])
