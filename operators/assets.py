"""What other DAGs can be scheduled on."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

RUNS = Asset(name="runs", uri="plimsoll://runs")  # extra: run, verdict, page
PUBLISHED = AssetAlias("published")  # a campaign's runs are not published alone
CAMPAIGNS = Asset(name="campaigns", uri="plimsoll://campaigns")  # extra: campaign, state, page
ARCHIVE = Asset(name="archive", uri="plimsoll://archive")  # triggers the index page
PAGES = Asset(name="pages", uri="plimsoll://pages")
