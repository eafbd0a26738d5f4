"""Run a DAG with ``airflow dags test`` in its own Airflow home."""

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
_INTERRUPT_LIMIT_S = 90.0  # to fail the current task, collect and tear down


class Follower(Protocol):
    """Show a DAG's progress."""

    running: str  # the current task, or empty
    torn_down: bool  # whether all nodes are removed once the current task has ended

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
    """Run a DAG; return whether every task succeeded.

    Kill its processes at the end, then call ``salvage`` for other leftovers. An interrupt fails the current task; the
    run is still collected and torn down.

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
            start_new_session=True,  # the terminal's interrupt must reach only this command
        )
    started = psutil.Process(process.pid)  # its pid may be reused after the wait
    try:
        _follow(process, progress)
    except KeyboardInterrupt:
        progress.say("interrupted: collecting the recording and removing everything")
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
