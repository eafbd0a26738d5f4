"""Show the pages of runs and campaigns within Airflow's."""

from __future__ import annotations

import os
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from service.airflow_home import PAGES


def views(pages: str | None) -> list[dict[str, Any]]:
    """Return Airflow's navigation entry; none without a pages server."""
    if not pages:
        return []
    href = f"{pages.rstrip('/')}/site/index.html"
    return [{"name": "Plimsoll", "href": href, "destination": "nav", "url_route": "plimsoll"}]


class PlimsollPages(AirflowPlugin):
    """Add "Plimsoll" to Airflow's navigation."""

    name = "plimsoll_pages"
    external_views = views(os.environ.get(PAGES))
