"""Recorded runs of a campaign."""

from __future__ import annotations

import json

from campaigns.places import Places
from history.events import EventLog
from history.folder import RunFolder
from tests.reports.sample_run import write_sample_run


def sealed_run(
    places: Places, item: str, campaign: str = "c1", *, day: str = "20260101", broke: bool = False
) -> RunFolder:
    """Write a sealed run of a campaign's item; ``broke`` adds a harness error."""
    run = RunFolder(write_sample_run(places.runs / f"{day}-{campaign}-{item}"))
    if broke:
        EventLog(run.events).add("error", step="record", why="KeyboardInterrupt: ")
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"labels": {"campaign": campaign, "item": item}}))
    run.seal()
    return run
