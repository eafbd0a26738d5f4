"""Bisect builds; each try is a campaign item, which makes the search resumable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from campaigns import runner
from campaigns.bisect.builds import made
from campaigns.bisect.campaign import Search, items_of, short
from campaigns.campaign import CampaignFolder
from campaigns.places import Places
from campaigns.recording import counted, outstanding, record_item
from history import archive
from history.errors import PlimsollError

Say = Callable[[str], object]


def search(folder: CampaignFolder, options: Mapping[str, Any], places: Places, say: Say) -> list[str]:  # noqa: ARG001
    """Judge builds until the first bad one is known; those that cannot be built or run count for neither side."""
    campaign, refused = folder.read_plan(), set[int]()
    index: int | None = None
    while True:
        rows = counted(archive.read(places.archive, campaign=campaign.campaign_id))
        found = Search(campaign, rows, refused)
        if index is not None and index not in refused:
            say(f"  {short(found.builds[index])}: {found.answer(index)}, {found.so_far(index)}")
        index = found.next
        if index is None:
            break
        number = len(found.tries_of(index)) + 1
        build = found.builds[index]
        say(f"{short(build)}: try {number}; about {found.steps_left} of {found.last + 1} builds to judge")
        try:
            kafka = made(campaign.settings, build)
            for item in outstanding(folder, items_of(campaign, index, number, kafka), places):
                record_item(folder, item, places)
        except PlimsollError as error:
            say(f"{short(build)} is passed over: {error}")
            refused.add(index)
            continue
        runner.judge_recorded(folder, places)
    runner.conclude(folder, places)
    return []
