"""How often a scenario shows what it must: repeated runs, counted in docs/reliability.json.

``python -m bench.reliability TRIES [SCENARIO …]`` brings every row of CAMPAIGN, or those of some scenarios, to that
many tries and renders the page. Runs are recorded two at a time by the calls that the DAG's tasks make, then judged
together in one Spark application. It may be interrupted and started again: what is counted stays counted, and what is
recorded is judged.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.recount import judged, recount
from campaigns.statistics.intervals import clopper_pearson
from clusters.run import experiment, recorder
from history.folder import RunFolder
from history.manifest import read_manifest
from spark.submit import judge

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "runs" / "reliability"
RESULTS = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
VERSIONS = ("2.8.2", "3.9.1", "4.3.0")
AT_ONCE = 2
TOGETHER = 6  # runs that one application judges


class Claim(NamedTuple):
    """What a run of a scenario on a version of Kafka must show."""

    scenario: str
    kafka: str
    words: str
    shown: Callable[[dict[str, Any]], bool]


def nothing_found(row: dict[str, Any]) -> bool:
    """A pass without anomalies; or nothing but bugs that this version has, each named with the broker's own line.

    What a version does by design is no anomaly.
    """
    told = row["verdict"] == "pass" or bool(row.get("known_bugs"))
    return told and set(row["anomalies"]) <= {"behaviour_change"}


_CLEAN = "verdict pass and 0 anomalies, or a known bug of this version alone"
CAMPAIGN = [
    *(Claim(name, "3.9.1", _CLEAN, nothing_found) for name in ("steady", "transactions")),
    *(Claim("survived_faults", kafka, _CLEAN, nothing_found) for kafka in VERSIONS),
    Claim("acks1_lag_leader_kill", "3.9.1", "acknowledged records lost", lambda row: row["lost"] > 0),
    Claim("retry_duplicates", "3.9.1", "duplicates", lambda row: row["duplicate_copies"] > 0),
]


def main(tries: int, scenarios: list[str]) -> None:
    """Record what is missing, then judge and count whatever is recorded."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    manifests = [read_manifest(RunFolder(run).manifest) for run in recorded()]
    done = Counter((row["scenario"], row["kafka"]) for row in rows)
    done.update((manifest.scenario_name, manifest.kafka_version) for manifest in manifests)
    chosen = [claim for claim in CAMPAIGN if not scenarios or claim.scenario in scenarios]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(
            pool.map(
                lambda claim: record(claim.scenario, claim.kafka),
                (claim for turn in range(tries) for claim in chosen if done[claim.scenario, claim.kafka] <= turn),
            )
        )
    while batch := recorded()[:TOGETHER]:
        judge(batch)
        rows += [counted(run) for run in batch]
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
        PAGE.write_text(render(rows))
        for run in batch:
            shutil.rmtree(run)


def recorded() -> list[Path]:
    """Sealed runs that are not counted yet."""
    return sorted(path.parent for path in RUNS.glob("*/sealed.json"))


def record(scenario: str, kafka: str, runs: Path = RUNS) -> Path:
    """One run, as the DAG's tasks would make it; returns its folder."""
    run = experiment.prepare(scenario, kafka=kafka, runs=runs, lease="process")
    recorder.record(run)
    print(f"recorded {run.name}", flush=True)
    return run


def counted(run: Path) -> dict[str, Any]:
    """What the judge and the recount say of a run."""
    verdict = json.loads(RunFolder(run).verdict_file.read_text())
    manifest = read_manifest(RunFolder(run).manifest)
    own = recount(run)
    return {
        "scenario": manifest.scenario_name,
        "kafka": manifest.kafka_version,
        "runtime": manifest.runtime,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "verdict": verdict["verdict"],
        "reasons": verdict["reasons"],
        "anomalies": verdict["anomalies"],
        "known_bugs": known_bugs(verdict),
        **own,
        "recount_agrees": own == judged(run),
    }


def known_bugs(verdict: dict[str, Any]) -> list[str]:
    """The bugs that account for every broken invariant; empty when one has another cause, or none is broken."""
    broken = [found["reason"] for found in verdict["invariants"].values() if found["violations"]]
    issues = [re.search(r"This is (KAFKA-\d+)", reason) for reason in broken]
    return sorted({issue[1] for issue in issues if issue}) if all(issues) else []


def render(rows: list[dict[str, Any]]) -> str:
    """The page: a line per scenario, with the bound that so many tries allow."""
    lines = [
        "# How often a scenario shows what it must",
        "",
        "Runs recorded by the calls that the DAG's tasks make, each recounted from its raw ledgers by",
        "`bench/recount.py`.",
        "Written by `python -m bench.reliability`; every run is a row of `reliability.json`.",
        "",
        "| scenario | Kafka | must show | shown | at least, at 95 % | recount agrees | records lost / copies |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim in CAMPAIGN:
        own = [row for row in rows if (row["scenario"], row["kafka"]) == (claim.scenario, claim.kafka)]
        if not own:
            continue
        shown = sum(claim.shown(row) for row in own)
        agreeing = sum(row["recount_agrees"] for row in own)
        counts = [f"{row['lost']} / {row['duplicate_copies']}" for row in own]
        figures = "none" if set(counts) == {"0 / 0"} else ", ".join(counts)
        bugs = Counter(issue for row in own for issue in row.get("known_bugs", []))
        named = "".join(f"; {issue} in {count}" for issue, count in bugs.items())
        lines.append(
            f"| {claim.scenario} | {claim.kafka} | {claim.words} | {shown} of {len(own)}{named} "
            f"| {lower_bound(shown, len(own)):.0%} | {agreeing} of {len(own)} | {figures} |"
        )
    return "\n".join(lines) + "\n"


def lower_bound(shown: int, tries: int) -> float:
    """One-sided Clopper-Pearson bound at 95 %."""
    return clopper_pearson(shown, tries, confidence=0.90)[0]  # two sides of 5 %


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
