"""Results of nightly runs with something of everything, as the page gets them."""

from __future__ import annotations

from typing import Any

from campaigns.nightly import campaign as nightly
from history.results.nightly import NightlyResult
from tests.campaigns.nightly_runs import Row, campaign_of, figure, name_of, rerun, rows_of

LATE = 12
WATCH = {"latency_p99_ms": {"margin": 0.05}, "elect_s": {"margin": 0.2}}
ENTRY = {"who": "ada", "why": "KAFKA-1 <see notes>", "until": "2026-12-31"}
ASKED: dict[str, Any] = {
    "scenarios": ["steady", "survived_faults", "acks1_lag_leader_kill"],
    "versions": ["2.8.2", "3.9.1", "4.3.0"],
    "repetitions": 3,
    "watch": WATCH,
    "baseline": {"releases": ["3.9.1", "4.3.0"]},
    "confirm": {"pairs": 5, "candidates": 1},
    "alerts": 1,
    "waivers": [
        {"scenario": "survived_faults", "kafka": "2.8.2", "found": ["I16"], **ENTRY},
        {"scenario": "steady", "metric": "elect_s", "up_to": 30, **ENTRY, "until": "2026-10-02"},
    ],
}


def _nightly_run(nightly_run: int, slow: dict[str, tuple[int, float]]) -> list[Row]:
    campaign = campaign_of(nightly_run, **ASKED)
    rows = rows_of(campaign, campaign.items, lambda item: figure(item, nightly_run, slow))
    elections = [
        {**row, "metric": "elect_s", "phase": "leader dies", "value": row["value"] / 4}
        for row in rows
        if row["scenario"] == "survived_faults"
    ]
    return rows + elections


def late_nightly_run() -> NightlyResult:
    """The 13th: a confirmed slowdown, one that was not rerun, a new failure, a waived one, a missing run."""
    slow = {"4.3.0": (LATE - 2, 1.15)}
    rows = [row for nightly_run in range(LATE + 1) for row in _nightly_run(nightly_run, slow)]
    for row in rows:
        if row["labels"]["campaign"] != name_of(LATE):
            continue
        if (row["scenario"], row["kafka_version"]) == ("survived_faults", "2.8.2"):
            row.update({"verdict": "fail", "broken": ["I16"], "sentence": "A consumer read what the final log lacks."})
        if (row["scenario"], row["kafka_version"]) == ("steady", "3.9.1"):
            lost = {"verdict": "fail", "anomalies": {"lost_write": 5}, "sentence": "5 acknowledged records are gone."}
            row.update(lost if row["labels"]["item"].endswith("-2") else {})
    rows = [row for row in rows if row["run_id"] != f"{name_of(LATE)}-steady-2.8.2-1"]
    campaign = campaign_of(LATE, **ASKED)
    return nightly.result(campaign, rows + rows_of(campaign, nightly.follow_up(campaign, rows), rerun(1.16)))


def first_nightly_runs() -> NightlyResult:
    """The second nightly run: nothing has a basis."""
    return nightly.result(
        campaign_of(1, **ASKED), [row for nightly_run in range(2) for row in _nightly_run(nightly_run, {})]
    )
