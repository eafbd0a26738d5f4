"""Count how often a scenario has its expected result in repeated runs: docs/data/reliability.json.

``python -m tests.acceptance reliability TRIES [SCENARIO …]`` brings all or the named rows of CAMPAIGN to that many
tries. Runs are recorded two at a time with the DAG's calls, then judged in one Spark application.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.statistics.intervals import clopper_pearson
from clusters.run import experiment, recorder
from history.errors import HarnessError
from history.events import read_events
from history.folder import RunFolder
from history.manifest import read_manifest
from reports import run_page
from spark.submit import judge
from tests.judge.recount import judged, recount
from tests.rows import DATA, ROOT, Row, read, today, write

RUNS = ROOT / "runs" / "reliability"
RESULTS = DATA / "reliability.json"
VERSIONS = ("2.8.2", "3.9.1", "4.3.0")
AT_ONCE = 2
TOGETHER = 6  # runs that one application judges


class Claim(NamedTuple):
    """What a passing run of a scenario shows on a version of Kafka; ``variant`` names its ``changes``."""

    scenario: str
    kafka: str
    words: str
    shown: Callable[[dict[str, Any]], bool]
    variant: str = ""
    changes: Mapping[str, Any] = {}

    @property
    def key(self) -> tuple[str, str, str]:
        return self.scenario, self.kafka, self.variant

    def met(self, row: dict[str, Any]) -> bool:
        """Return whether a run shows it, and passed or failed only by known bugs."""
        return passed(row) and self.shown(row)


def passed(row: dict[str, Any]) -> bool:
    """Return whether a run passed, or failed only by known bugs."""
    return row["verdict"] == "pass" or bool(row.get("known_bugs"))


def nothing_found(row: dict[str, Any]) -> bool:
    """Return whether a run passed without anomalies; a version's designed behaviour is none."""
    return passed(row) and set(row["anomalies"]) <= {"behaviour_change"}


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


def main(arguments: Sequence[str]) -> int:
    """Bring the campaign, or some scenarios, to as many tries as asked."""
    tries, *scenarios = arguments or ["1"]
    claims = [claim for claim in CAMPAIGN if not scenarios or claim.scenario in scenarios]
    count(claims, int(tries), RUNS, RESULTS)
    return 0


def count(claims: Sequence[Claim], tries: int, runs: Path, results: Path) -> list[Row]:
    """Record missing runs, judge and count everything, and return all rows."""
    rows = read(results)
    manifests = [read_manifest(RunFolder(run).manifest) for run in recorded(runs)]
    done = Counter((row["scenario"], row["kafka"], row.get("variant", "")) for row in rows)
    done.update((told.scenario_name, told.kafka_version, told.labels.get("variant", "")) for told in manifests)
    missing = [claim for turn in range(tries) for claim in claims if done[claim.key] <= turn]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        broken = [told for told in pool.map(lambda claim: _attempt(claim, runs), missing) if told]
    while batch := recorded(runs)[:TOGETHER]:
        judge(batch)
        rows += [counted(run) for run in batch]
        write(results, rows)
        for run in batch:
            shutil.rmtree(run)
    if broken:
        raise HarnessError(f"{len(broken)} of {len(missing)} runs were not recorded; the others are counted: {broken}.")
    return rows


def _attempt(claim: Claim, runs: Path) -> str:
    try:
        record(claim.scenario, claim.kafka, runs, claim.variant, claim.changes)
    except Exception as error:  # noqa: BLE001  # any failure: the next run may succeed
        told = f"{claim.scenario} on {claim.kafka}: {error}"
        print(f"broke {told}", flush=True)
        return told
    return ""


def recorded(runs: Path) -> list[Path]:
    """Return sealed runs that are not counted yet, except aborted ones."""
    return sorted(path.parent for path in runs.glob("*/sealed.json") if not _was_given_up(path.parent))


def _was_given_up(run: Path) -> bool:
    return any(stage.detail.get("state") == "failed" for stage in read_events(RunFolder(run).stages))


def record(
    scenario: str, kafka: str, runs: Path = RUNS, variant: str = "", changes: Mapping[str, Any] | None = None
) -> Path:
    """Record one run as the DAG's tasks would; return its folder."""
    labels = {"variant": variant} if variant else {}
    run = experiment.prepare(scenario, kafka=kafka, runs=runs, lease="process", changes=changes, labels=labels)
    recorder.record(run)
    print(f"recorded {run.name}", flush=True)
    return run


def counted(run: Path) -> Row:
    """Return the results of judge and recount, and the page's size."""
    verdict = json.loads(RunFolder(run).verdict_file.read_text())
    manifest = read_manifest(RunFolder(run).manifest)
    own = recount(run)
    return {
        "scenario": manifest.scenario_name,
        "kafka": manifest.kafka_version,
        **({"variant": manifest.labels["variant"]} if "variant" in manifest.labels else {}),
        "runtime": manifest.runtime,
        "date": today(),
        "verdict": verdict["verdict"],
        "reasons": verdict["reasons"],
        "anomalies": verdict["anomalies"],
        "known_bugs": known_bugs(verdict),
        **own,
        "recount_agrees": own == judged(run),
        "page_kb": run_page.publish(run).stat().st_size // 1000,
    }


def known_bugs(verdict: dict[str, Any]) -> list[str]:
    """Return the known bugs that explain all violated invariants, else none."""
    issues = {found["known_bug"] for found in verdict["invariants"].values() if found["violations"]}
    return sorted(issues) if all(issues) else []


def lower_bound(shown: int, tries: int) -> float:
    """Return the one-sided Clopper-Pearson bound at 95 %."""
    return clopper_pearson(shown, tries, confidence=0.90)[0]  # two sides of 5 %
