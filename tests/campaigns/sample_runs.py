"""Runs of a campaign, as they are when they were recorded."""

from __future__ import annotations

import json

from campaigns.places import Places
from history.folder import RunFolder
from tests.reports.sample_run import write_sample_run


def sealed_run(places: Places, item: str, campaign: str = "c1") -> RunFolder:
    """A recorded run of a campaign's item."""
    run = RunFolder(write_sample_run(places.runs / f"20260101-{campaign}-{item}"))
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"labels": {"campaign": campaign, "item": item}}))
    run.seal()
    return run
