"""A user's path through the pages after ``make up``: a run of the main scenario, its log, its page, a campaign."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from campaigns import kinds, runner
from campaigns.places import Places
from clusters.waiting import wait_until
from service import airflow
from tests.acceptance.under_airflow import Rest

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIO = "follower_lag_then_leader_kill"
PHASE = "phase_3_leader_dies"
RUN_LIMIT_S, LOOK_S, PAGE_LIMIT_MS = 600, 2.0, 60_000

pytestmark = [pytest.mark.cluster, pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Airflow as ``make up`` starts it, with a planned campaign that has a page."""
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("PLIMSOLL_RUNS", str(runs))
    places = Places.beside(runs)
    settings = kinds.of("clients").settings({})
    folder = runner.plan("clients", settings, name="planned", seed=1, places=places, upload_to=None)
    runner.conclude(folder, places)
    yield airflow.url_of(airflow.up(airflow.free_port(), tmp_path / "home").airflow)
    airflow.down(tmp_path / "home")


def test_a_person_comes_from_airflow_to_a_runs_page(url: str, browser: Browser, tmp_path: Path) -> None:
    """The form starts a run whose log shows progress; a button leads to its figures, the navigation to a campaign."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(PAGE_LIMIT_MS)
    expect.set_options(timeout=PAGE_LIMIT_MS)
    run = _triggered(page, url)
    _await_success(url, run)
    pictures = Path(os.environ.get("PLIMSOLL_PICTURES", tmp_path))

    page.goto(f"{url}/dags/{SCENARIO}/runs/{run}")
    expect(page.get_by_role("link", name="leader dies").first).to_be_visible()
    page.screenshot(path=pictures / "grid.png")
    page.goto(f"{url}/dags/{SCENARIO}/runs/{run}/tasks/{PHASE}")
    for words in ("fault: kill", "fault took effect: kill", "condition met: wait, leader changed", "healed: kill"):
        expect(page.get_by_text(words).first).to_be_visible()
    page.screenshot(path=pictures / "log.png")

    page.goto(f"{url}/dags/{SCENARIO}/runs/{run}/tasks/publish")
    page.get_by_role("link", name="Details").last.click()
    page.goto(page.get_by_role("link", name="Run's page").first.get_attribute("href") or "")
    _shows_figures(page)
    page.screenshot(path=pictures / "run.png")

    page.goto(url)
    page.get_by_role("link", name="Plimsoll").click()
    inside = page.frame_locator("iframe")
    expect(inside.get_by_text("Client matrices").first).to_be_visible()
    page.screenshot(path=pictures / "site.png")
    inside.get_by_role("link", name="planned").first.click()
    expect(inside.get_by_text("Verdict by client").first).to_be_visible()
    _whole(inside)


def test_the_address_of_the_pages_leads_to_figures_and_links_that_work(url: str, browser: Browser) -> None:
    """The pages' address, one port above Airflow's, shows the index, and its links and figures work."""
    page = browser.new_page()
    answers: list[int] = []
    page.on("response", lambda answer: answers.append(answer.status))
    port = int(url.rpartition(":")[2]) + 1
    page.goto(airflow.url_of(port))
    page.get_by_role("link", name="planned").first.click()

    expect(page.get_by_text("Verdict by client").first).to_be_visible()
    assert [status for status in answers if status >= 400] == []


def _triggered(page: Page, url: str) -> str:
    """Start a run through its DAG's form; return its id from Airflow's address."""
    page.goto(f"{url}/dags/{SCENARIO}")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    expect(form.get_by_text("Records per second")).to_be_visible()
    form.get_by_role("button", name="Trigger", exact=True).last.click()
    page.wait_for_url(f"**/dags/{SCENARIO}/runs/**")
    return page.url.rpartition("/runs/")[2].partition("/")[0]


def _await_success(url: str, run: str) -> None:
    rest = Rest(url)

    def state() -> str:
        return str(rest.ask(f"dags/{SCENARIO}/dagRuns/{run}")["state"])

    wait_until(lambda: state() in ("success", "failed"), limit_s=RUN_LIMIT_S, every_s=LOOK_S, what="the DAG run to end")
    assert state() == "success"


def _shows_figures(page: Page) -> None:
    """Every figure of a run's page is drawn."""
    expect(page.locator(".main-svg").first).to_be_visible()
    assert page.get_by_text("cannot be drawn").count() == 0


def _whole(inside: FrameLocator) -> None:
    assert inside.get_by_text("cannot be drawn").count() == 0
