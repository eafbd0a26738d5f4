"""Count the results of real nightly runs: ``python -m bench.nightly_runs SITE``.

Every complete run of the ten-minute profile, which checks only correctness, becomes a row of
docs/data/nightly_runs.json.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.comparisons import keep
from campaigns.campaign import CampaignFolder
from history.events import read_events
from history.results.nightly import NightlyResult

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "data" / "nightly_runs.json"
CONTROL = "acks1_lag_leader_kill"  # it must lose records


def row_of(folder: CampaignFolder) -> dict[str, Any] | None:
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


def main(site: Path) -> None:
    """Add the new nightly runs of a site."""
    results = sorted((site / "nightly").glob("*/result.json"))
    keep(RESULTS, "created_at", (row_of(CampaignFolder(path.parent)) for path in results))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
