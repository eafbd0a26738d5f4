"""The buttons of judge and publish."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators.campaign import Conclude
from operators.judge import Judge
from operators.publish import Publish
from service.airflow_home import PAGES


def test_a_campaigns_button_leads_to_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is that of its kind and name; without a pages server there is no button."""
    step = Conclude(task_id="x", campaign=str(tmp_path / "site" / "fuzz" / "c1"))
    monkeypatch.setenv(PAGES, "http://127.0.0.1:8081/")
    (link,) = step.operator_extra_links

    assert link.get_link(step, ti_key=None) == "http://127.0.0.1:8081/site/fuzz/c1/index.html"
    monkeypatch.delenv(PAGES)
    assert link.get_link(step, ti_key=None) == ""


@pytest.mark.parametrize("kind", [Judge, Publish])
def test_buttons_lead_to_the_page_and_the_data_docs(
    kind: type[Judge | Publish], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the pages are served; Airflow shows no button without an address, or for a run in an object store."""
    step = kind(task_id="x", run=str(tmp_path / "runs" / "a-run"))
    monkeypatch.setenv(PAGES, "http://127.0.0.1:8081")

    assert {link.name: link.get_link(step, ti_key=None) for link in step.operator_extra_links} == {
        "Run's page": "http://127.0.0.1:8081/runs/a-run/report/index.html",
        "Data Docs": "http://127.0.0.1:8081/runs/a-run/verdict/data_docs/index.html",
    }
    remote = kind(task_id="y", run="s3://bucket/runs/a-run")
    assert {link.get_link(remote, ti_key=None) for link in remote.operator_extra_links} == {""}
    monkeypatch.delenv(PAGES)
    assert {link.get_link(step, ti_key=None) for link in step.operator_extra_links} == {""}
