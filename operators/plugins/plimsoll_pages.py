"""Airflow's plugin: the pages of runs and campaigns inside Airflow's own, where they are served."""

from __future__ import annotations

import os
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from operators.airflow_home import PAGES


def views(pages: str | None) -> list[dict[str, Any]]:
    """An entry of Airflow's navigation; none where nobody serves the pages."""
    if not pages:
        return []
    href = f"{pages.rstrip('/')}/site/index.html"
    return [{"name": "Plimsoll", "href": href, "destination": "nav", "url_route": "plimsoll"}]


class PlimsollPages(AirflowPlugin):
    """What was measured so far, under "Plimsoll" in the navigation."""

    name = "plimsoll_pages"
    external_views = views(os.environ.get(PAGES))
