"""How often a scenario shows what it must: repeated runs, counted in docs/data/reliability.json.

``python -m bench.reliability TRIES [SCENARIO …]`` brings every row of CAMPAIGN, or those of some scenarios, to that
many tries; ``python -m bench.trust`` then writes the page. Runs are recorded two at a time by the calls that the DAG's
tasks make, then judged together in one Spark application, and each has its page. It may be interrupted and started
again: what is counted stays counted, and what is recorded is judged.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.recount import judged, recount
from campaigns.statistics.intervals import clopper_pearson
from clusters.run import experiment, recorder
from history.errors import HarnessError
from history.events import read_events
from history.folder import RunFolder
from history.manifest import read_manifest
from reports import run_page
from spark.submit import judge

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "runs" / "reliability"
RESULTS = ROOT / "docs" / "data" / "reliability.json"
VERSIONS = ("2.8.2", "3.9.1", "4.3.0")
AT_ONCE = 2
TOGETHER = 6  # runs that one application judges


class Claim(NamedTuple):
    """What a run of a scenario on a version of Kafka must show; ``changes`` to its file are told by ``variant``."""

    scenario: str
    kafka: str
    words: str
    shown: Callable[[dict[str, Any]], bool]
    variant: str = ""
    changes: Mapping[str, Any] = {}

    @property
    def key(self) -> tuple[str, str, str]:
        """What its runs and rows are told by."""
        return self.scenario, self.kafka, self.variant


def nothing_found(row: dict[str, Any]) -> bool:
    """A pass without anomalies; or nothing but bugs that this version has, each named with the broker's own line.

    What a version does by design is no anomaly.
    """
    told = row["verdict"] == "pass" or bool(row.get("known_bugs"))
    return told and set(row["anomalies"]) <= {"behaviour_change"}


CLEAN = "pass, 0 anomalies"
CAMPAIGN = [
    *(Claim(name, "3.9.1", CLEAN, nothing_found) for name in ("steady", "transactions")),
    *(Claim("survived_faults", kafka, CLEAN, nothing_found) for kafka in VERSIONS),
    *(Claim(name, kafka, CLEAN, nothing_found) for name in ("group_members", "exactly_once") for kafka in VERSIONS[1:]),
    *(Claim(name, "4.3.0", CLEAN, nothing_found) for name in ("group_members_kip848", "share_group")),
    Claim("acks1_lag_leader_kill", "3.9.1", "acknowledged records lost", lambda row: row["lost"] > 0),
    Claim("unclean_election", "3.9.1", "acknowledged records lost", lambda row: row["lost"] > 0),
    Claim("retry_duplicates", "3.9.1", "duplicates", lambda row: row["duplicate_copies"] > 0),
    Claim("offsets_apart", "3.9.1", "records copied twice", lambda row: "duplicate_output" in row["anomalies"]),
    Claim("group_commits_ahead", "3.9.1", "records skipped", lambda row: "group_skip" in row["anomalies"]),
    Claim("share_group_releases", "4.3.0", "records given up", lambda row: "archived_record" in row["anomalies"]),
]


def main(tries: int, scenarios: list[str]) -> None:
    """Bring the campaign, or some scenarios of it, to so many tries."""
    count([claim for claim in CAMPAIGN if not scenarios or claim.scenario in scenarios], tries, RUNS, RESULTS)


def count(claims: Sequence[Claim], tries: int, runs: Path, results: Path) -> list[dict[str, Any]]:
    """Record what is missing, then judge and count whatever is recorded; returns all rows of ``results``."""
    rows: list[dict[str, Any]] = json.loads(results.read_text()) if results.exists() else []
    manifests = [read_manifest(RunFolder(run).manifest) for run in recorded(runs)]
    done = Counter((row["scenario"], row["kafka"], row.get("variant", "")) for row in rows)
    done.update((told.scenario_name, told.kafka_version, told.labels.get("variant", "")) for told in manifests)
    missing = [claim for turn in range(tries) for claim in claims if done[claim.key] <= turn]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        broken = [told for told in pool.map(lambda claim: _attempt(claim, runs), missing) if told]
    while batch := recorded(runs)[:TOGETHER]:
        judge(batch)
        rows += [counted(run) for run in batch]
        results.write_text(json.dumps(rows, indent=1) + "\n")
        for run in batch:
            shutil.rmtree(run)
    if broken:
        raise HarnessError(f"{len(broken)} of {len(missing)} runs were not recorded; the others are counted: {broken}.")
    return rows


def _attempt(claim: Claim, runs: Path) -> str:
    """One run; what it broke by, so that the others go on, or nothing."""
    try:
        record(claim.scenario, claim.kafka, runs, claim.variant, claim.changes)
    except Exception as error:  # noqa: BLE001  # whatever it is, the next run may be recorded
        told = f"{claim.scenario} on {claim.kafka}: {error}"
        print(f"broke {told}", flush=True)
        return told
    return ""


def recorded(runs: Path) -> list[Path]:
    """Sealed runs that are not counted yet; one that the harness gave up is no try, and stays where it is."""
    return sorted(path.parent for path in runs.glob("*/sealed.json") if not _was_given_up(path.parent))


def _was_given_up(run: Path) -> bool:
    return any(stage.detail.get("state") == "failed" for stage in read_events(RunFolder(run).stages))


def record(
    scenario: str, kafka: str, runs: Path = RUNS, variant: str = "", changes: Mapping[str, Any] | None = None
) -> Path:
    """One run, as the DAG's tasks would make it; returns its folder."""
    labels = {"variant": variant} if variant else {}
    run = experiment.prepare(scenario, kafka=kafka, runs=runs, lease="process", changes=changes, labels=labels)
    recorder.record(run)
    print(f"recorded {run.name}", flush=True)
    return run


def counted(run: Path) -> dict[str, Any]:
    """What the judge and the recount say of a run, and how large its page is."""
    verdict = json.loads(RunFolder(run).verdict_file.read_text())
    manifest = read_manifest(RunFolder(run).manifest)
    own = recount(run)
    return {
        "scenario": manifest.scenario_name,
        "kafka": manifest.kafka_version,
        **({"variant": manifest.labels["variant"]} if "variant" in manifest.labels else {}),
        "runtime": manifest.runtime,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "verdict": verdict["verdict"],
        "reasons": verdict["reasons"],
        "anomalies": verdict["anomalies"],
        "known_bugs": known_bugs(verdict),
        **own,
        "recount_agrees": own == judged(run),
        "page_kb": run_page.publish(run).stat().st_size // 1000,
    }


def known_bugs(verdict: dict[str, Any]) -> list[str]:
    """The bugs that account for every broken invariant; empty when one has another cause, or none is broken."""
    broken = [found["reason"] for found in verdict["invariants"].values() if found["violations"]]
    issues = [re.search(r"This is ([A-Z]+-\w+)", reason) for reason in broken]
    return sorted({issue[1] for issue in issues if issue}) if all(issues) else []


def lower_bound(shown: int, tries: int) -> float:
    """One-sided Clopper-Pearson bound at 95 %."""
    return clopper_pearson(shown, tries, confidence=0.90)[0]  # two sides of 5 %


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
