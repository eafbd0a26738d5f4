"""Record on workers that share no folder with this host."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from campaigns.upload import check as check_upload
from clusters.attached.named import CONNECTION
from clusters.scenario.scenario import file_of, load_scenario
from commands.outcome import Outcome, say
from commands.runs import cases_of, facts_of, verdict_of
from history.errors import BadInput
from history.exit_codes import EXIT_CODES, UNKNOWN
from history.folder import RunFolder
from history.remote import path_of
from history.yaml_files import read_mapping
from service.api import NAMED, Address, Airflow
from service.follow import run_dag
from service.stages import ANY_SCENARIO, RESOLVE, dag_of, end_limit_s
from service.task_logs import TaskLogs


def record_remotely(
    scenario: str, upload: str | None, asked: Mapping[str, Any], cluster: Path | None = None
) -> Outcome:
    """Trigger a scenario's DAG, show what its tasks log, and read the verdict from the object store.

    Paths among ``asked`` and ``cluster`` are the workers'.

    Raises:
        BadInput: a request is impossible; nothing was triggered.
        KeyboardInterrupt: after the workers' teardown.
    """
    address = Address.named()
    if address is None or not upload:
        raise BadInput(
            f"--remote needs --airflow (or {NAMED}), whose workers record, and --upload, where they leave the run."
        )
    planned = load_scenario(scenario)
    check_upload(upload)
    dag_id, run_id = dag_of(planned), f"{planned.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    airflow = Airflow(address)
    airflow.check(dag_id)
    conf = {name: value for name, value in asked.items() if value is not None} | {"upload": upload}
    if cluster:
        conf["cluster"] = _of_workers(str(cluster))
    if dag_id == ANY_SCENARIO:
        conf["scenario"] = read_mapping(file_of(scenario), what="The scenario")
    progress = TaskLogs(airflow, dag_id, run_id, say)
    limit_s = end_limit_s(planned)
    # No salvage: the run's folder is the workers'.
    succeeded = run_dag(airflow, dag_id, conf, run_id=run_id, progress=progress, salvage=tuple, limit_s=limit_s)
    progress.show()
    return _concluded(airflow, dag_id, run_id, upload, planned.name, succeeded=succeeded)


def _of_workers(cluster: str) -> str:
    if not cluster.startswith(("/", CONNECTION)):
        raise BadInput(f"--cluster={cluster} is relative, and the workers read it; give an absolute path of theirs.")
    return cluster.removeprefix(CONNECTION)


def _concluded(airflow: Airflow, dag_id: str, run_id: str, upload: str, scenario: str, *, succeeded: bool) -> Outcome:
    log = f"Airflow's log: {airflow.log(dag_id, run_id)}"
    folder = airflow.returned(dag_id, run_id, RESOLVE.name)
    if not folder:
        return Outcome(UNKNOWN, error=f"No run was made. {log}")
    run = RunFolder(path_of(f"{upload}/runs/{PurePath(str(folder)).name}"))
    verdict = verdict_of(run)
    code = EXIT_CODES[verdict] if succeeded or verdict == "fail" else UNKNOWN
    lines = [str(run.read_verdict().get("sentence") or "The judge wrote no verdict."), f"run: {run.path}"]
    failed = "" if verdict == "unknown" else "The verdict is valid, but a task failed. "
    error = f"{failed}{log}" if code == UNKNOWN else ""
    return Outcome(code, [*lines, f"verdict: {verdict}"], facts_of(run), error, cases_of(run, scenario))
