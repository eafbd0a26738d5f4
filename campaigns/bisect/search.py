"""Bisect builds; each try is a round of the campaign."""

from __future__ import annotations

from campaigns import rounds
from campaigns.bisect.builds import made
from campaigns.bisect.campaign import Search, items_of, short
from campaigns.campaign import CampaignFolder, Item
from campaigns.places import Places
from campaigns.recording import counted
from history import archive
from history.errors import PlimsollError


def next_items(folder: CampaignFolder, places: Places) -> list[Item]:
    """Return the next try of a build; those that cannot be made or run are passed over."""
    campaign, tried = folder.read_plan(), set(rounds.tried_names(folder))
    rows = counted(archive.read(places.archive, campaign=campaign.campaign_id))
    while True:
        search = Search(campaign, rows, map(int, rounds.passed_over(folder)))
        index = search.next
        if index is None:
            return []
        build, number = search.builds[index], len(search.tries_of(index)) + 1
        try:
            items = items_of(campaign, index, number, made(campaign.settings, build))
        except PlimsollError as error:
            rounds.say(folder, f"{short(build)} is passed over: {error}", str(index))
            continue
        if tried.issuperset(item.name for item in items):
            rounds.say(folder, f"{short(build)} is passed over: its run broke", str(index))
            continue
        so_far = f", {search.so_far(index)}" if number > 1 else ""
        left = f"about {search.steps_left} of {search.last + 1} builds to judge"
        rounds.say(folder, f"{short(build)}: try {number}{so_far}; {left}")
        return items
