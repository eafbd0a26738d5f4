"""The end of a command's DAG run; another program replaces Airflow."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from operators import dag_run


def test_whoever_was_given_the_pid_since_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that reused the pid of the ended Airflow is not killed."""
    with subprocess.Popen(["sleep", "60"]) as stranger:

        def follow(process: subprocess.Popen[bytes], _: Any) -> None:
            process.wait()
            process.pid = stranger.pid

        monkeypatch.setattr(dag_run, "airflow", lambda *_: ["true"])
        monkeypatch.setattr(dag_run, "_follow", follow)
        assert dag_run.run_dag(
            "steady", {}, home=tmp_path, log=tmp_path / "log", progress=SimpleNamespace(), salvage=lambda: None
        )
        stranger.terminate()
        assert stranger.wait(10) == -15
