"""How often a scenario shows what it must: repeated runs, counted in docs/data/reliability.json.

``python -m bench.reliability TRIES [SCENARIO …]`` brings every row of CAMPAIGN, or those of some scenarios, to that
many tries; ``python -m bench.trust`` then writes the page. Runs are recorded two at a time by the calls that the DAG's
tasks make, then judged together in one Spark application. It may be interrupted and started again: what is counted
stays counted, and what is recorded is judged.
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
RESULTS = ROOT / "docs" / "data" / "reliability.json"
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


_CLEAN = "pass, 0 anomalies"
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


def lower_bound(shown: int, tries: int) -> float:
    """One-sided Clopper-Pearson bound at 95 %."""
    return clopper_pearson(shown, tries, confidence=0.90)[0]  # two sides of 5 %


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
