"""The campaigns' command: plan, run the DAG, report the result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from campaigns.kinds import Kind
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
    """Plan or resume a campaign and run its DAG.

    Raises:
        BadInput: the settings are wrong; nothing was started.
        KeyboardInterrupt: after cleanup.
    """
    from campaigns import recording, runner  # slow import
    from campaigns.places import Places
    from clusters.run import experiment

    places = Places.beside(runs)
    folder = runner.plan(
        kind.name, kind.settings(options, file=file), name=name, seed=seed, places=places, upload_to=upload
    )
    campaign = folder.read_plan()

    def listed(follow_up: bool) -> list[Item]:
        return recording.outstanding(folder, recording.items_of(folder, places, more=follow_up), places)

    def reap() -> None:
        with warned():
            experiment.reap()  # runs of an ended process have no lease

    before = _written_ns(folder.result)
    with airflow_home.home_of_run(f"{kind.name}-{campaign.campaign_id}") as home:
        log, ended_before = home / "airflow.log", ended_for_memory()
        progress = CampaignProgress(
            folder, places.runs, lambda line: say(line.rstrip("\n")), listed, recording.expected_seconds
        )
        todo = listed(False)
        progress.say(f"{kind.command} {campaign.campaign_id}: {len(todo)} of {len(campaign.items)} runs to record")
        try:
            succeeded = run_dag(
                kind.name,
                {"campaign": str(folder.path)},
                home=home,
                log=log,
                progress=progress,
                salvage=reap,
                PLIMSOLL_RUNS=str(places.runs),
                PLIMSOLL_SCENARIO="steady",  # skips the scenarios' DAGs
            )
        finally:
            say(f"campaign: {folder.path}")
        outcome = _concluded(folder, before)
        if kind.searches and folder.result.exists() and (succeeded or outcome.code == FAIL):
            try:
                lines = kind.search.search(folder, options, places, progress.say)
            finally:
                reap()
            outcome = _concluded(folder, before)
            outcome = replace(outcome, lines=[*outcome.lines[:-2], *lines, *outcome.lines[-2:]])
        if succeeded or outcome.code == FAIL:
            shutil.rmtree(home)
            return outcome
    why = f"A task failed. The same command with NAME={campaign.campaign_id} goes on; Airflow's log: {log}"
    errors = "\n".join(filter(None, [outcome.error, memory_ran_out(ended_before), why]))
    return replace(outcome, code=UNKNOWN, error=errors)


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
