"""A campaign to try, and a list of this host's runs for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.places import Places
from clusters.run import host


@pytest.fixture(autouse=True)
def own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for a run of another one."""
    monkeypatch.setattr(host, "HOST", tmp_path / "host")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Folders of their own."""
    return Places.beside(tmp_path / "runs")


@pytest.fixture
def folder(places: Places) -> CampaignFolder:
    """A campaign of three runs."""
    items = [Item(name=f"run-{n}", scenario="steady", kafka="3.9.1", labels={"role": "base"}) for n in (1, 2, 3)]
    made = CampaignFolder.of(places.site, "compare", "c1")
    made.write_plan(
        Campaign(campaign_id="c1", kind="compare", created_at="2026-01-01", seed=1, settings={}, items=items)
    )
    return made
