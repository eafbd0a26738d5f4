"""What other DAGs can be scheduled on."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

RUNS = Asset(name="plimsoll_runs", uri="plimsoll://runs")  # extra: run, verdict, page
PUBLISHED = AssetAlias("plimsoll_published")  # a campaign's runs are not published alone
CAMPAIGNS = Asset(name="plimsoll_campaigns", uri="plimsoll://campaigns")  # extra: campaign, state, page
ARCHIVE = Asset(name="plimsoll_archive", uri="plimsoll://archive")  # triggers the index page
PAGES = Asset(name="plimsoll_pages", uri="plimsoll://pages")
