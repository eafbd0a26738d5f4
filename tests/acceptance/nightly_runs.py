"""Count the results of real nightly runs: ``python -m tests.acceptance nightly_runs [SITE]``.

Every complete run of the ten-minute profile, which checks only correctness, becomes a row of
docs/data/nightly_runs.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from campaigns.campaign import CampaignFolder
from history.events import read_events
from history.results.nightly import NightlyResult
from tests.rows import DATA, ROOT, Row, put

RESULTS = DATA / "nightly_runs.json"
CONTROL = "acks1_lag_leader_kill"  # it must lose records


def row_of(folder: CampaignFolder) -> Row | None:
    """Return a row, or None for an incomplete run or one with performance."""
    result = NightlyResult.read(folder.result)
    if result.measures or any(not run.run_id for run in result.runs):
        return None
    times_ns = [event.t_ns for event in read_events(folder.stages)]
    return {
        "campaign_id": result.campaign_id,
        "created_at": result.created_at,
        "host": result.hosts,
        "state": result.state,
        "minutes": round((max(times_ns) - min(times_ns)) / 60e9, 1),
        "alerts": len(result.alerts) + len(result.suppressed),
        "runs": [
            {name: getattr(run, name) for name in ("scenario", "kafka", "verdict", "shown")} for run in result.runs
        ],
    }


def main(arguments: Sequence[str]) -> int:
    """Add a site's nightly runs."""
    site = Path(arguments[0]) if arguments else ROOT / "site"
    folders = (CampaignFolder(path.parent) for path in sorted((site / "nightly").glob("*/result.json")))
    put(RESULTS, "created_at", filter(None, map(row_of, folders)), itemgetter("created_at"))
    return 0
