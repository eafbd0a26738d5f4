"""Decide on a qualification's next runs after each round."""

from __future__ import annotations

from campaigns import rounds
from campaigns.campaign import CampaignFolder, Item
from campaigns.places import Places
from campaigns.qualify import KIND
from campaigns.qualify import campaign as qualify
from campaigns.recording import counted
from history import archive


def next_items(folder: CampaignFolder, places: Places) -> list[Item]:
    """Return what the runs so far make necessary, without what was decided before."""
    decided = {item.name for item in rounds.decided(folder)}
    rows = KIND.judged(counted(archive.read(places.archive)))
    return [item for item in qualify.follow_up(folder.read_plan(), rows) if item.name not in decided]
