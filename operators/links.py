"""Link Airflow's tasks to the run's pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from history.remote import path_of
from service.airflow_home import PAGES

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


def page_of(run: Path, *parts: str) -> str:
    """Return the URL of a file in a run's folder; empty (no button) without a pages server."""
    return _served(run.parent.name, run.name, *parts) if isinstance(run, Path) else ""  # an object store's URL


def campaign_page(folder: Path) -> str:
    """Return the URL of a campaign's page; empty without a pages server."""
    return _served("site", folder.parent.name, folder.name, "index.html")


def _served(*parts: str) -> str:
    base = os.environ.get(PAGES)
    return "/".join([base.rstrip("/"), *parts]) if base else ""


class RunPage(BaseOperatorLink):
    """Link to the run's page."""

    name = "Run's page"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002  # Airflow's signature
        return page_of(path_of(operator.run), "report", "index.html")  # type: ignore[attr-defined]  # of judge and publish


class CampaignPage(BaseOperatorLink):
    """Link to the campaign's page."""

    name = "Campaign's page"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002  # Airflow's signature
        return campaign_page(Path(operator.campaign))  # type: ignore[attr-defined]  # of conclude


class DataDocs(BaseOperatorLink):
    """Link to the run's Data Docs (Great Expectations)."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002  # Airflow's signature
        return page_of(path_of(operator.run), "verdict", "data_docs", "index.html")  # type: ignore[attr-defined]  # as above
