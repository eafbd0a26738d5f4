"""The campaigns' command: plan, run the DAG, report the result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from campaigns.kinds import Kind
from campaigns.places import Places
from commands.outcome import Outcome, say, warned
from history.exit_codes import EXIT_CODES, FAIL, PASS, UNKNOWN
from history.results.cases import Case
from operators import airflow_home
from operators.campaign_progress import CampaignProgress
from operators.dag_run import run_dag
from operators.memory import ended_for_memory, memory_ran_out

if TYPE_CHECKING:
    from campaigns.campaign import CampaignFolder, Item

NO_STATE = "none"  # the result has no state


def run_campaign(
    kind: Kind,
    options: Mapping[str, Any],
    *,
    file: Path | None,
    name: str | None,
    seed: int | None,
    runs: Path,
    upload: str | None = None,
) -> Outcome:
    """Plan or resume a campaign and run its DAG; raise BadInput before anything is started."""
    from campaigns import runner  # slow import

    places, settings = Places.beside(runs), kind.settings(options, file=file)
    folder = runner.plan(kind.name, settings, name=name, seed=seed, places=places, upload_to=upload)
    before = _written_ns(folder.result)
    with airflow_home.home_of_run(f"{kind.name}-{folder.path.name}") as home:
        log, ended_before = home / "airflow.log", ended_for_memory()
        progress = _progress(kind, folder, places)
        try:
            succeeded = _run(kind, folder, places, home, progress)
        finally:
            say(f"campaign: {folder.path}")
        outcome = _concluded(folder, before)
        if kind.search and folder.result.exists() and (succeeded or outcome.code == FAIL):
            try:
                lines = kind.search.search(folder, options, places, progress.say)
            finally:
                _reap()
            outcome = _concluded(folder, before)
            outcome = replace(outcome, lines=[*outcome.lines[:-2], *lines, *outcome.lines[-2:]])
        if succeeded or outcome.code == FAIL:
            shutil.rmtree(home)
            return outcome
    why = f"A task failed. The same command with --name={folder.path.name} goes on; Airflow's log: {log}"
    errors = "\n".join(filter(None, [outcome.error, memory_ran_out(ended_before), why]))
    return replace(outcome, code=UNKNOWN, error=errors)


def _progress(kind: Kind, folder: CampaignFolder, places: Places) -> CampaignProgress:
    from campaigns import recording  # slow import

    def listed(follow_up: bool) -> list[Item]:
        return recording.outstanding(folder, recording.items_of(folder, places, more=follow_up), places)

    def write(line: str) -> None:
        say(line.rstrip("\n"))

    progress = CampaignProgress(folder, places.runs, write, listed, recording.expected_seconds)
    planned = len(folder.read_plan().items)
    progress.say(f"{kind.command} {folder.path.name}: {len(listed(False))} of {planned} runs to record")
    return progress


def _run(kind: Kind, folder: CampaignFolder, places: Places, home: Path, progress: CampaignProgress) -> bool:
    return run_dag(
        kind.name,
        {"campaign": str(folder.path)},
        home=home,
        log=home / "airflow.log",
        progress=progress,
        salvage=_reap,
        PLIMSOLL_RUNS=str(places.runs),
        PLIMSOLL_SCENARIO="steady",  # skips the scenarios' DAGs
    )


def _reap() -> None:
    from clusters.run import experiment  # slow import

    with warned():
        experiment.reap()  # runs of an ended process have no lease


def _written_ns(file: Path) -> int:
    return file.stat().st_mtime_ns if file.is_file() else 0


def _concluded(folder: CampaignFolder, before: int) -> Outcome:
    if _written_ns(folder.result) == before:
        facts = {"campaign": folder.path, "state": "unknown"}
        return Outcome(UNKNOWN, facts=facts, error="The campaign came to no result.")
    result = json.loads(folder.result.read_text())
    state = result["state"] or NO_STATE
    lines = [*result.get("lines", []), result["sentence"], f"page: {folder.page}", f"state: {state}"]
    facts = {
        "campaign": folder.path,
        "state": state,
        "sentence": result["sentence"],
        "page": folder.page,
        "result": folder.result,
    }
    cases = [Case(**case) for case in result.get("cases", [])]
    return Outcome(PASS if state == NO_STATE else EXIT_CODES[state], lines, facts, cases=cases)
