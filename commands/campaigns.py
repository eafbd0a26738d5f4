"""The campaigns' command: plan, run the DAG, report the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from campaigns.kinds import Kind
from campaigns.places import Places
from commands.outcome import Outcome, say, warned
from history.exit_codes import EXIT_CODES, FAIL, PASS, UNKNOWN
from history.results.cases import Case
from service.airflow import used
from service.api import Airflow, check_named
from service.campaign_progress import CampaignProgress
from service.follow import LeftToReaper, end_all, end_run, run_dag
from service.memory import ended_for_memory, memory_ran_out
from service.pools import pools_of

if TYPE_CHECKING:
    from campaigns.campaign import CampaignFolder

NO_STATE = "none"  # the result has no state


def run_campaign(
    kind: Kind,
    options: Mapping[str, Any],
    *,
    file: Path | None,
    name: str | None,
    seed: int | None,
    runs: Path,
    recording: Mapping[str, Any],
) -> Outcome:
    """Plan or resume a campaign and run its DAG; raise BadInput before anything is started.

    ``recording`` has the values of ``kind.recording``.
    """
    from campaigns import runner  # slow import

    places, settings = Places.beside(runs), kind.settings(options, file=file)
    check_named(kind.name)
    how = dict(recording)
    folder = runner.plan(kind.name, settings, name=name, seed=seed, places=places, upload_to=how.pop("upload", None))
    before, ended_before, progress = _written_ns(folder.result), ended_for_memory(), _progress(kind, folder, places)
    run_id = f"{folder.path.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"  # a resumed campaign has several
    webhook = str(folder.read_plan().settings.get("webhook", ""))  # a variable
    with used(progress.say, [webhook]) as address:
        airflow = Airflow(address)
        airflow.check(kind.name, pools=pools_of(kind))
        try:
            conf = {"campaign": str(folder.path), "runs": str(places.runs), **how}
            succeeded = _run_rounds(airflow, kind.name, conf, run_id, progress)
        finally:
            say(f"campaign: {folder.path}")
    outcome = _concluded(folder, before)
    if succeeded or outcome.code == FAIL:
        return outcome
    again = f"The same command with --name={folder.path.name} goes on"
    why = f"A task failed. {again}; Airflow's log: {airflow.log(kind.name, run_id)}"
    errors = "\n".join(filter(None, [outcome.error, memory_ran_out(ended_before), why]))
    return replace(outcome, code=UNKNOWN, error=errors)


def _run_rounds(
    airflow: Airflow, dag_id: str, conf: Mapping[str, Any], run_id: str, progress: CampaignProgress
) -> bool:
    """Run a campaign's DAG, and follow the rounds that it triggers; return whether the last one succeeded."""
    from campaigns.campaign import CampaignFolder  # slow import
    from campaigns.rounds import dag_run_id, item_run_id

    ids, succeeded = map(partial(dag_run_id, run_id), count(1)), True
    following = next(ids)
    try:
        while following == run_id or airflow.state(dag_id, following):
            its_id, following = following, next(ids)
            succeeded = run_dag(airflow, dag_id, conf, run_id=its_id, progress=progress, salvage=_reap)
    except LeftToReaper:
        raise
    except KeyboardInterrupt:
        end_run(airflow, dag_id, following, progress)  # it may have been triggered meanwhile
        end_all(airflow, progress, item_run_id(CampaignFolder(Path(conf["campaign"]))))
        _reap()
        raise
    return succeeded


def _progress(kind: Kind, folder: CampaignFolder, places: Places) -> CampaignProgress:
    from campaigns import recording, rounds  # slow import

    def write(line: str) -> None:
        say(line.rstrip("\n"))

    find = partial(rounds.item_of, folder)
    progress = CampaignProgress(folder, places.runs, write, find, recording.expected_seconds)
    left, planned = len(rounds.pending(folder, places)), len(folder.read_plan().items)
    progress.say(f"{kind.command} {folder.path.name}: {left} of {planned} runs to record")
    return progress


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
