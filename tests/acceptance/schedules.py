"""Run randomised schedules on the newest release: ``python -m tests.acceptance schedules [SERIES …]``.

Each row of docs/data/schedules.json is one ``plimsoll fuzz``. Runs and pages are in ``.cache/schedules``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.campaign import CampaignFolder
from campaigns.places import Places
from clusters.scenario.schedules import FAULT_MIX
from history.kafka_versions import DEFAULT_RELEASE
from history.results.schedules import SchedulesResult
from tests.acceptance.experiment import of_cases
from tests.acceptance.fault_mixes import play
from tests.rows import DATA, ROOT, Row, today

RESULTS = DATA / "schedules.json"
FOLDER = ROOT / ".cache" / "schedules"
MIXES = ROOT / "docs" / "examples" / "fault_mixes"
SCHEDULES, SECONDS = 15, 60


class Series(NamedTuple):
    """A fault mix, its changes, and the seed of its first schedule."""

    name: str
    mix: Path
    seed: int
    changes: Mapping[str, Any] = {}


SIX = {"topics": {"orders": {"partitions": 6}}, "load": {"rate": "1200/s"}}  # the mix's rate per partition
SERIES = (
    Series("one partition", FAULT_MIX, 1000),
    Series("without eligible leader replicas", FAULT_MIX, 2000, {"cluster": {"elr": False}}),
    Series("six partitions", FAULT_MIX, 3000, SIX),
    Series("three controllers", MIXES / "controllers.yaml", 4000),
    Series("transactions", MIXES / "transactions.yaml", 5000),
    Series("a classic group", MIXES / "groups.yaml", 6000),
    Series("a KIP-848 group", MIXES / "groups.yaml", 7000, {"load": {"group": {"protocol": "consumer"}}}),
)


def attempt(series: Series) -> Row:
    """Run one campaign and return its row."""
    name = series.name.replace(" ", "-")
    asked = ["--schedules", str(SCHEDULES), "--seconds", str(SECONDS), "--seed", str(series.seed), "--name", name]
    play("fuzz", FOLDER / name, series.mix, series.changes, ["--kafka", DEFAULT_RELEASE, *asked])
    site = Places.beside(FOLDER / name / "runs").site
    return row(series, SchedulesResult.read(CampaignFolder.of(site, "fuzz", name).result))


def row(series: Series, result: SchedulesResult) -> Row:
    """Return the row of a campaign's result."""
    return {
        "series": series.name,
        "kafka": result.kafka,
        "seed": series.seed,
        "schedules": len(result.runs),
        "violations": {str(run.seed): run.violations for run in result.runs if run.violations},
        "unknown": {str(run.seed): run.sentence for run in result.runs if run.verdict == "unknown"},
        "date": today(),
    }


def wrong(found: Row) -> list[str]:
    """Return the violated guarantees, by seed."""
    return [f"{seed}: {', '.join(violated)}" for seed, violated in found["violations"].items()]


def _words(found: Row) -> str:
    return f"{found['series']}: {len(found['unknown'])} of {found['schedules']} could not be judged"


main = of_cases(RESULTS, "series", {each.name: each for each in SERIES}, attempt=attempt, words=_words, wrong=wrong)
