"""Commands on single runs: run, judge, import, scenarios."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from campaigns.upload import check as check_upload
from clusters.run.host import AT_ONCE, sharing_host, wait_for_host
from clusters.run.leftovers import end_lease
from clusters.scenario.scenario import Scenario, load_scenario, scenario_names
from commands.outcome import Outcome, print_error, say, warned
from history.errors import BadInput, HarnessError
from history.events import errors_of, notes_of_import, read_events
from history.exit_codes import EXIT_CODES, PASS, UNKNOWN
from history.folder import RunFolder
from history.remote import path_of
from history.results.cases import Case
from history.results.cases import Outcome as CaseOutcome
from service.airflow import used
from service.api import Airflow, check_named
from service.follow import run_dag
from service.memory import ended_for_memory, memory_ran_out
from service.progress import Progress
from service.stages import dag_of, end_limit_s, stages
from spark.connection import spark_connection

if TYPE_CHECKING:
    from history.exit_codes import Verdict
    from history.manifest import Origin
    from imports.run_folder import Settings

NO_VERDICT = "The judge wrote no verdict."


def record_and_judge(scenario: str, upload: str | None = None, **request: Any) -> Outcome:
    """Run a scenario; the last two lines are machine-readable. ``request`` is that of ``experiment.prepare``.

    Raises:
        BadInput: a request is impossible; nothing was started.
        KeyboardInterrupt: after cleanup.
    """
    from clusters.live.plan import read_plan  # slow import
    from clusters.run import experiment

    planned = load_scenario(scenario)  # fail before anything is removed or recorded
    _check(planned, upload)
    with warned():
        # leftovers take CPU time and addresses
        experiment.reap(docker_may_be_down=True)
    run = RunFolder(experiment.prepare(scenario, **request))
    if request.get("cluster"):
        planned = read_plan(run).scenario  # with the cluster's brokers
    progress = Progress(stages(planned), run, lambda line: say(line.rstrip("\n")))
    progress.begin(planned)
    ended_before = ended_for_memory()
    with ExitStack() as held:
        airflow = _hold(held, run, dag_of(planned), progress)
        succeeded = _followed(airflow, run, planned, progress, upload)
    log, errors = airflow.log(dag_of(planned), run.run_id), errors_of(run)
    if upload and not run.verdict_file.is_file():  # another host judged it
        run = RunFolder(path_of(f"{upload}/runs/{run.run_id}"))
    return _concluded(run, planned.name, succeeded, log, broke=errors, memory=memory_ran_out(ended_before))


def _followed(airflow: Airflow, run: RunFolder, planned: Scenario, progress: Progress, upload: str | None) -> bool:
    try:
        return run_dag(
            airflow,
            dag_of(planned),
            {"run_dir": str(run.path)} | ({"upload": upload} if upload else {}),
            run_id=run.run_id,
            progress=progress,
            salvage=partial(_salvage_unsealed, run),
            limit_s=end_limit_s(planned),
        )
    except (KeyboardInterrupt, HarnessError) as error:
        if isinstance(error, KeyboardInterrupt):  # else its tasks may go on
            end_lease(run.path)
        say(f"run: {run.path}")
        raise


def _check(planned: Scenario, upload: str | None) -> None:
    spark_connection(os.environ)
    if upload:
        check_upload(upload)
    check_named(dag_of(planned))


def _hold(held: ExitStack, run: RunFolder, dag_id: str, progress: Progress) -> Airflow:
    """Wait for the host, and return an Airflow."""
    try:
        wait_for_host(run.path, AT_ONCE, progress.say)
        airflow = Airflow(held.enter_context(used(progress.say)))
        airflow.check(dag_id)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)  # nothing was started
        raise
    return airflow


def _salvage_unsealed(run: RunFolder) -> None:
    from clusters.run.recorder import salvage  # slow import

    if not run.is_sealed:
        salvage(run.path)


def _concluded(
    run: RunFolder, scenario: str, succeeded: bool, log: str, *, broke: Sequence[str], memory: str
) -> Outcome:
    verdict = verdict_of(run)
    code = EXIT_CODES[verdict]
    errors = [f"The harness broke: {why}" for why in broke[:1]]  # others follow from it
    if code == PASS and not succeeded:  # teardown or page failed; the verdict is valid
        code = UNKNOWN
        errors.append("The verdict is valid, but a task after it or the teardown failed.")
    if code == UNKNOWN:
        errors += [memory] if memory else []
        advice = "Once that is fixed, start a new run. " if errors else ""
        errors.append(f"{advice}Airflow's log: {log}")
    lines = [_sentence_of(run), f"run: {run.path}", f"verdict: {verdict}"]
    return Outcome(code, lines, facts_of(run), "\n".join(errors), cases_of(run, scenario))


def verdict_of(run: RunFolder) -> Verdict:
    """Return the judge's verdict, or unknown without one."""
    verdict = run.read_verdict().get("verdict")
    return cast("Verdict", verdict) if verdict in EXIT_CODES else "unknown"


def _sentence_of(run: RunFolder) -> str:
    return str(run.read_verdict().get("sentence") or NO_VERDICT)


def facts_of(run: RunFolder) -> dict[str, Any]:
    """Return folder, verdict, sentence and page for machines."""
    page = run.path / "report" / "index.html"
    return {
        "run": run.path,
        "verdict": verdict_of(run),
        "sentence": run.read_verdict().get("sentence"),
        "page": page if page.is_file() else None,
    }


def cases_of(run: RunFolder, group: str) -> list[Case]:
    """Return cases; a violated one fails only if the run does. CI systems follow the same ``group``."""
    verdict = verdict_of(run)
    return [
        Case(f"invariants.{group}", name, _outcome(found["verdict"], verdict), str(found["reason"] or ""))
        for name, found in run.read_verdict().get("invariants", {}).items()
    ]


def _case(run: RunFolder) -> Case:
    return Case("runs", run.run_id, verdict_of(run), _sentence_of(run))


def _outcome(invariant: str, run: str) -> CaseOutcome:
    if invariant == "fail":
        return "fail" if run == "fail" else "skipped"  # allowed, or for review
    return "pass" if invariant == "pass" else "skipped"  # missing evidence shows in the run


def judge_again(given: Sequence[str | Path]) -> Outcome:
    """Judge runs and rewrite pages; raise BadInput if a path is no run folder or cannot be reached."""
    from campaigns.site import publish  # slow import
    from spark.submit import judge, run_folders

    runs = run_folders([path_of(each) for each in given])  # fail before waiting
    with sharing_host("judging again", print_error):
        code = judge([run.path for run in runs])
        for run in runs:
            publish(run.path)
    cases = [case for run in runs for case in (_case(run), *cases_of(run, run.run_id))]
    return Outcome(code, facts={"runs": [facts_of(run) for run in runs]}, cases=cases)


def import_and_judge(history: Sequence[Path], origin: Origin, settings: Settings, runs: Path) -> Outcome:
    """Import and judge a history; BadInput leaves no folder."""
    from clusters.scenario.steps.catalog import STEPS
    from imports.formats import import_history

    for name in settings.faults:  # allowances name our steps
        if name not in STEPS:
            raise BadInput(f"--faults names {name!r}, which is no step; known: {', '.join(sorted(STEPS))}.")
    run = import_history(history, origin, settings, runs)
    for note in notes_of_import(read_events(run.events)):
        print_error(note)
    judged = judge_again([run.path])
    return Outcome(judged.code, facts=facts_of(run), cases=cases_of(run, f"import.{origin}"))


def list_scenarios() -> Outcome:
    """List names and purposes."""
    whys = {name: load_scenario(name).why for name in scenario_names()}
    width = max(map(len, whys))
    return Outcome(lines=[f"{name:{width}}  {why}" for name, why in whys.items()], facts={"scenarios": whys})
