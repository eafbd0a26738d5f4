"""Runs a DAG to its end by ``airflow dags test``, in an Airflow home made for it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import psutil

from clusters.paths import ROOT
from operators.airflow_home import airflow, environment
from operators.processes import kill_tree

_LOOK_S = 0.2
_INTERRUPT_LIMIT_S = 90.0  # to fail the task at hand, collect and tear down


class Follower(Protocol):
    """Whoever tells a person how far the DAG is."""

    running: str  # the task at hand, or nothing
    torn_down: bool  # whether what the DAG started is gone once the task at hand has ended

    def look(self) -> None: ...
    def say(self, text: str) -> None: ...


def run_dag(
    dag_id: str,
    conf: Mapping[str, Any],
    *,
    home: Path,
    log: Path,
    progress: Follower,
    salvage: Callable[[], object],
    **variables: str,
) -> bool:
    """Run a DAG; says whether every task succeeded.

    Leaves no process behind, however it ends; ``salvage`` is then called and removes what else is left. An interrupt
    fails the task at hand; what the DAG started is still collected and torn down.

    Raises:
        KeyboardInterrupt: after an interrupt, once everything is removed.
    """
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            airflow("dags", "test", dag_id, "--conf", json.dumps(conf)),
            env=environment(home, **variables),
            stdout=log_file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,  # an interrupt at the terminal must reach this command alone
        )
    started = psutil.Process(process.pid)  # once waited for, its pid may be another's
    try:
        _follow(process, progress)
    except KeyboardInterrupt:
        progress.say("interrupted: collecting what there is and removing everything")
        _interrupt(process, progress)
        raise
    finally:
        kill_tree(started)
        process.wait()
        salvage()
    return process.returncode == 0


def _follow(process: subprocess.Popen[bytes], progress: Follower, until: Callable[[], bool] = lambda: False) -> None:
    while not until():
        try:
            process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            progress.look()
        else:
            progress.look()
            return


def _interrupt(process: subprocess.Popen[bytes], progress: Follower) -> None:
    deadline = time.monotonic() + _INTERRUPT_LIMIT_S
    progress.look()
    at_hand = progress.running
    process.send_signal(signal.SIGINT)
    _follow(
        process,
        progress,
        until=lambda: (progress.torn_down and progress.running != at_hand) or time.monotonic() > deadline,
    )
