"""Campaigns of randomised schedules (docs/randomised-schedules.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import yaml

from campaigns.campaign import Campaign, Item, Strict
from clusters.paths import ROOT
from clusters.runtimes import capabilities, choose_runtime
from clusters.scenario.scenario import Scenario, load_scenario
from clusters.scenario.schedules import FAULT_MIX, FaultMix, as_yaml, kernel_parts, possible, read_fault_mix
from history.archive import READ
from history.errors import EvidenceError
from history.folder import RunFolder
from history.kafka_versions import DEFAULT_RELEASE
from history.results.schedules import ScheduleRun, SchedulesResult
from history.words import counted
from history.yaml_files import read_mapping

UNJUDGED: Mapping[str, Any] = {"verdict": "unknown", "sentence": "It was not recorded to its end, or not judged."}
_BASE = "steady"  # items patch a named scenario; the patch replaces all of it
MAX_S = 4 * 3600


class Question(Strict):
    """Settings of such campaigns; ``fault_mix`` defaults to the shipped one."""

    kafka: str = DEFAULT_RELEASE
    fault_mix: str = ""
    runtime: Literal["auto", "docker", "process"] = "auto"


def fault_mix(file: str, runtime: str) -> FaultMix:
    """Read a fault mix, without faults that runtime or kernel lack; raise BadInput if none is left."""
    mix, chosen = read_fault_mix(Path(file) if file else FAULT_MIX), choose_runtime(runtime)
    without: Mapping[str, Any] = {}
    if chosen == "docker":
        from clusters.run.leftovers import hold_scratch_run  # slow to import
        from clusters.runtimes.kernel import lacking

        without = lacking(kernel_parts(mix), hold_scratch_run)
    return possible(mix, capabilities(chosen), without)


def item_of(name: str, schedule: Scenario, kafka: str, seed: int) -> Item:
    """Convert a schedule to a campaign item."""
    base = read_mapping(ROOT / "scenarios" / f"{_BASE}.yaml", "The scenario")
    changes = _patch(base, yaml.safe_load(as_yaml(schedule)))
    return Item(name=name, scenario=_BASE, kafka=kafka, changes=changes, seed=seed)


def schedule_of(item: Item) -> Scenario:
    """Return an item's schedule."""
    return load_scenario(item.scenario, item.changes)


def _patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7396) between two mappings."""
    gone = {key: None for key in old if key not in new}
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    return gone | {
        key: _patch(old[key], value) if isinstance(value, dict) and isinstance(old.get(key), dict) else value
        for key, value in changed.items()
    }


def steps_of(schedule: Scenario) -> int:
    """Count a schedule's steps."""
    return sum(len(phase.steps) for phase in schedule.phases)


def result(kind: Literal["fuzz", "soak"], campaign: Campaign, runs: Mapping[str, Path]) -> SchedulesResult:
    """Summarise the schedules' run folders."""
    schedules = [run_of(item, runs.get(item.name)) for item in campaign.items]
    kafka = str(campaign.settings["kafka"])
    return SchedulesResult(
        kind=kind,
        **campaign.named,
        state=_state(schedules),
        sentence=_sentence(schedules, kafka),
        lines=[_line(run) for run in schedules if run.verdict != "pass"],
        kafka=kafka,
        settings=campaign.settings,
        runs=schedules,
    )


def run_of(item: Item, run: Path | None) -> ScheduleRun:
    """Return the judge's result for an item's run, if any."""
    verdict = _verdict_of(RunFolder(run)) if run else UNJUDGED
    return ScheduleRun(
        item=item.name,
        seed=item.seed or 0,
        steps=steps_of(schedule_of(item)),
        run_id=run.name if run else "",
        verdict=verdict["verdict"],
        sentence=verdict["sentence"],
        violations=violations_of(RunFolder(run)) if run and verdict["verdict"] == "fail" else [],
    )


def _verdict_of(run: RunFolder) -> Mapping[str, Any]:
    """Return unknown if the evidence was altered."""
    if not run.verdict_file.is_file():
        return UNJUDGED
    try:
        run.require_intact(*READ)
    except EvidenceError as error:
        return {"verdict": "unknown", "sentence": str(error)}
    verdict: Mapping[str, Any] = json.loads(run.verdict_file.read_text())
    return verdict


def violations_of(run: RunFolder) -> list[str]:
    """Return violated S1 invariants and anomalies that are not allowed."""
    invariants = pq.read_table(run.judged("invariants"), columns=["invariant", "severity", "verdict"]).to_pylist()
    anomalies = pq.read_table(run.judged("anomalies"), columns=["anomaly", "severity", "allowed"]).to_pylist()
    violations = {row["invariant"] for row in invariants if row["verdict"] == "fail" and row["severity"] == "S1"}
    violations |= {row["anomaly"] for row in anomalies if row["severity"] == "S1" and row["allowed"] is False}
    return sorted(violations)


def _state(runs: Sequence[ScheduleRun]) -> Literal["pass", "fail", "unknown"]:
    if any(run.violations for run in runs):
        return "fail"
    return "unknown" if any(run.verdict == "unknown" for run in runs) else "pass"


def _sentence(runs: Sequence[ScheduleRun], kafka: str) -> str:
    violated = sum(bool(run.violations) for run in runs)
    undecided = sum(run.verdict == "unknown" for run in runs)
    schedules = counted(len(runs), "schedule")
    found = f"{violated} of {schedules} violated a guarantee" if violated else f"No violation in {schedules}"
    judged = f"; {undecided} could not be judged" if undecided else ""
    return f"{found} on Kafka {kafka}{judged}."


def _line(run: ScheduleRun) -> str:
    what = ", ".join(run.violations) or run.verdict
    return f"{run.item} (seed {run.seed}): {what}: {run.sentence}"
