"""Runs a scenario's DAG to its end by ``airflow dags test``, in an Airflow home made for this run."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from clusters.paths import ROOT
from history.folder import RunFolder
from operators.airflow_home import airflow, environment
from operators.processes import kill_tree
from operators.progress import Progress
from operators.steps import salvage

_LOOK_S = 0.2
_INTERRUPT_LIMIT_S = 90.0  # to fail the task at hand, collect and tear down


def run_dag(run: Path, dag_id: str, scenario: str, *, home: Path, log: Path, progress: Progress) -> bool:
    """Run the DAG on a prepared run folder; says whether every task succeeded.

    Leaves no process and no node behind, however it ends. An interrupt fails the task at hand; the run
    still collects and tears down, and is not judged.

    Raises:
        KeyboardInterrupt: after an interrupt, once everything is removed.
    """
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            airflow("dags", "test", dag_id, "--conf", json.dumps({"run_dir": str(run)})),
            env=environment(home, PLIMSOLL_SCENARIO=scenario),
            stdout=log_file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,  # an interrupt at the terminal must reach this command alone
        )
    try:
        _follow(process, progress)
    except KeyboardInterrupt:
        progress.say("interrupted: collecting what there is and removing everything")
        _interrupt(process, progress)
        raise
    finally:
        kill_tree(process.pid)
        process.wait()
        if not RunFolder(run).is_sealed:  # Airflow itself broke off
            salvage(run)
    return process.returncode == 0


def _follow(process: subprocess.Popen[bytes], progress: Progress, until: Callable[[], bool] = lambda: False) -> None:
    while not until():
        try:
            process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            progress.look()
        else:
            progress.look()
            return


def _interrupt(process: subprocess.Popen[bytes], progress: Progress) -> None:
    deadline = time.monotonic() + _INTERRUPT_LIMIT_S
    progress.look()
    at_hand = progress.running
    process.send_signal(signal.SIGINT)
    _follow(
        process,
        progress,
        until=lambda: (progress.torn_down and progress.running != at_hand) or time.monotonic() > deadline,
    )
