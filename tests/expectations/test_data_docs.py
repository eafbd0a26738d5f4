"""Data Docs can be read without a network."""

import re

import pytest

from tests.expectations.summaries import checked, counted, example, examples


@pytest.fixture
def site(judged, tmp_path):
    """The Data Docs of a run with 2,000 corrupt records."""
    found = {"anomaly_counts": counted(("corrupt_record", None, 2000)), "invariants": checked(("I3", "S1", 0))}
    rows = [example("corrupt_record", 7), example("corrupt_record", 8, explanation="<b>offset 8</b> costs $x")]
    judged(**found, anomalies=examples(*rows))
    return tmp_path


def test_the_index_names_the_suites(site):
    """The index names each suite, whether it is met, and its page."""
    index = (site / "index.html").read_text()
    pages = re.findall('href="([^"]+)"', index)

    assert [page.split("/")[1] for page in pages] == ["evidence", "anomalies", "invariants"]
    assert all((site / page).is_file() for page in pages)
    assert index.count("<td>not met</td>") == 1


def test_failing_rows_are_shown_with_the_exact_count(site):
    """The page has the number of cases and the examples, as text."""
    (page,) = [each.read_text() for each in site.glob("validations/anomalies/**/*.html")]

    for shown in ("2,000 cases", "orders-0, offset 7: offset 7 is gone", "&lt;b&gt;offset 8&lt;/b&gt; costs $x"):
        assert shown in page


def test_no_page_fetches_anything(site):
    """No script, style or picture comes from elsewhere, and the library's own fonts and pictures are not kept."""
    for page in site.rglob("*.html"):
        assert not re.search(r"<(script|link|img|iframe)\b", page.read_text())
    assert not (site / "static").exists()


def test_no_page_runs_a_script(site):
    """Each has a policy that forbids every one, before anything that a result says."""
    pages = list(site.rglob("*.html"))

    assert pages
    for page in pages:
        head = page.read_text().partition("<title>")[0]
        assert "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'" in head, page
