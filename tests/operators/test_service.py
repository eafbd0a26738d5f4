"""What ``make down`` ends, and what it spares; small processes stand in for Airflow's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from clusters.waiting import wait_until
from operators import service
from operators.processes import lives

WORKER = "trap '' TERM; sleep 60 & wait; wait"  # wait returns at the first signal


@pytest.fixture
def children() -> Iterator[ExitStack]:
    """Whatever a test started is gone afterwards."""
    with ExitStack() as started:
        yield started


def start(children: ExitStack, home: Path, script: str, session: int | None = None) -> subprocess.Popen[bytes]:
    """A shell that was started in a home: as a leader of its own session, whose number ``up`` notes, unless told."""
    shell = subprocess.Popen(
        ["/bin/sh", "-c", script], env=os.environ | {"AIRFLOW_HOME": str(home)}, start_new_session=True
    )
    children.callback(shell.wait)
    children.callback(shell.kill)
    home.mkdir(exist_ok=True)
    (home / "up.json").write_text(json.dumps({"session": shell.pid if session is None else session, "port": 1}))
    return shell


def test_down_ends_workers_that_their_leader_left(
    children: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ignore SIGTERM; a second down finds nothing to do."""
    monkeypatch.setattr(service, "_DOWN_LIMIT_S", 0.3)
    leader = start(children, tmp_path / "home", f'sh -c "{WORKER}" & wait')
    (worker,) = wait_until(psutil.Process(leader.pid).children, limit_s=10, what="a worker")
    wait_until(worker.children, limit_s=10, what="the trap to be set")
    leader.kill()
    leader.wait()

    assert service.down(tmp_path / "home")
    assert not lives(worker)
    assert not service.down(tmp_path / "home")


def test_down_spares_whoever_was_given_the_number_since(children: ExitStack, tmp_path: Path) -> None:
    """A stranger that leads a session of the noted number was not started in this home."""
    stranger = start(children, tmp_path / "another", "sleep 60")
    (tmp_path / "home").mkdir()
    (tmp_path / "another" / "up.json").rename(tmp_path / "home" / "up.json")

    assert not service.down(tmp_path / "home")
    assert stranger.poll() is None


def test_down_spares_the_nodes_of_runs(children: ExitStack, tmp_path: Path) -> None:
    """Their tasks were Airflow's, so they were started in this home, but each has a session of its own."""
    airflow = start(children, tmp_path / "home", "sleep 60")
    node = start(children, tmp_path / "home", "sleep 60", session=airflow.pid)

    assert service.down(tmp_path / "home")
    assert airflow.wait(10) == -15
    assert node.poll() is None
