"""How often a scenario shows what it must: repeated whole runs, counted in docs/reliability.json.

``python -m bench.reliability TRIES`` brings every row of CAMPAIGN to that many tries and renders the page. It may
be interrupted and started again: what is counted stays counted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import beta

from tests.recount import judged, recount

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
KAFKA = "3.9.1"


class Claim(NamedTuple):
    """What a run of a scenario must show."""

    words: str
    shown: Callable[[dict[str, Any]], bool]


CAMPAIGN = {
    "steady": Claim("verdict pass, 0 anomalies", lambda row: row["verdict"] == "pass" and not row["anomalies"]),
    "acks1_lag_leader_kill": Claim("acknowledged records lost", lambda row: row["lost"] > 0),
    "retry_duplicates": Claim("duplicates", lambda row: row["duplicate_copies"] > 0),
}


def main(tries: int) -> int:
    """Run what is missing, one scenario after the other in turn; returns 1 when some run had no verdict."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for _ in range(tries):
        for scenario in CAMPAIGN:
            if sum(row["scenario"] == scenario for row in rows) < tries:
                rows.append(one_run(scenario))
                RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
                PAGE.write_text(render(rows))
                print(rows[-1], flush=True)
    return int(any("lost" not in row for row in rows))


def one_run(scenario: str) -> dict[str, Any]:
    """The command behind ``make run``, then the recount."""
    started = time.monotonic()
    command = [sys.executable, "-m", "operators.cli", "run", "--scenario", scenario, "--kafka", KAFKA]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines()[-2:] if ": " in line)
    row: dict[str, Any] = {
        "scenario": scenario,
        "kafka": KAFKA,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seconds": round(time.monotonic() - started),
        "exit_code": done.returncode,
        "verdict": said.get("verdict", "none"),
    }
    run = Path(said["run"]) if "run" in said else None
    if run and (run / "verdict" / "verdict.json").exists():
        verdict = json.loads((run / "verdict" / "verdict.json").read_text())
        row |= {"runtime": json.loads((run / "manifest.json").read_text())["runtime"]}
        row |= {"reasons": verdict["reasons"], "anomalies": verdict["anomalies"], **recount(run)}
        row["recount_agrees"] = recount(run) == judged(run)
        if row["verdict"] == "pass":
            shutil.rmtree(run)
    return row


def render(rows: list[dict[str, Any]]) -> str:
    """The page: a line per scenario, with the bound that so many tries allow."""
    lines = [
        "# How often a scenario shows what it must",
        "",
        "Whole runs by the command behind `make run`, each recounted from the raw ledgers by `tests/recount.py`.",
        "Written by `python -m bench.reliability`; every run is a row of `reliability.json`.",
        "",
        "| scenario | must show | shown | at least, at 95 % | recount agrees | figures |",
        "|---|---|---|---|---|---|",
    ]
    for scenario, claim in CAMPAIGN.items():
        own = [row for row in rows if row["scenario"] == scenario]
        shown = sum("lost" in row and claim.shown(row) for row in own)
        agreeing = sum(row.get("recount_agrees", False) for row in own)
        figures = ", ".join(str(row.get("lost", "?")) + " / " + str(row.get("duplicate_copies", "?")) for row in own)
        lines.append(
            f"| {scenario} | {claim.words} | {shown} of {len(own)} | {lower_bound(shown, len(own)):.0%} "
            f"| {agreeing} of {len(own)} | lost / copies: {figures} |"
        )
    return "\n".join(lines) + "\n"


def lower_bound(shown: int, tries: int) -> float:
    """One-sided Clopper-Pearson bound at 95 %."""
    return float(beta.ppf(0.05, shown, tries - shown + 1)) if shown else 0.0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
