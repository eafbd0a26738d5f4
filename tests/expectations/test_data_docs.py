"""Data Docs keep every result, and can be read without a network."""

import re

import pytest

from expectations.suites import Outcome
from tests.expectations.summaries import checked, counted, example, examples


@pytest.fixture
def site(judged, tmp_path):
    """The Data Docs of a run that was judged twice, clean and then with a corrupt record."""
    assert judged() == Outcome("pass", [], [], [])
    found = {"anomaly_counts": counted(("corrupt_record", None, 2000)), "invariants": checked(("I3", "S1", 0))}
    judged(**found, anomalies=examples(*(example("corrupt_record", offset) for offset in (7, 8))))
    return tmp_path


def test_the_index_names_the_results_of_each_time(site):
    """Those of an earlier judgement stay, with their pages."""
    index = (site / "index.html").read_text()
    pages = re.findall("href='([^']+)'", index)

    assert len(pages) == 6
    assert all((site / page).is_file() for page in pages)
    assert index.count("<b>not met</b>") == 1


def test_failing_rows_stand_beside_the_exact_count(site):
    """Of 2,000 cases two have a row."""
    pages = [each.read_text() for each in sorted(site.glob("validations/anomalies/**/*.html"))]

    assert "offset 7 is gone" not in pages[0]
    for shown in ("2,000 in all", "offset 7 is gone", "offset 8 is gone"):
        assert shown in pages[1]


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
        assert "Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'" in head, page
