"""The processes that ``make down`` ends and spares; small processes replace Airflow's."""

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
from history.errors import HarnessError
from operators import service
from operators.processes import lives, with_variable

WORKER = "trap '' TERM; sleep 60 & wait; wait"  # wait returns at the first signal


@pytest.fixture
def children() -> Iterator[ExitStack]:
    """Ends all processes that a test started."""
    with ExitStack() as started:
        yield started


def start(children: ExitStack, home: Path, script: str, session: int | None = None) -> subprocess.Popen[bytes]:
    """Start a shell in a home as leader of a session, and note the session as ``up`` does."""
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
    """``down`` ends workers that outlived their leader and ignore SIGTERM."""
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
    """``down`` spares a process that reused the noted session's number, since it was not started in this home."""
    stranger = start(children, tmp_path / "another", "sleep 60")
    (tmp_path / "home").mkdir()
    (tmp_path / "another" / "up.json").rename(tmp_path / "home" / "up.json")

    assert not service.down(tmp_path / "home")
    assert stranger.poll() is None


def test_down_spares_the_nodes_of_runs(children: ExitStack, tmp_path: Path) -> None:
    """``down`` spares the nodes of runs, which were started in this home but have other sessions."""
    airflow = start(children, tmp_path / "home", "sleep 60")
    node = start(children, tmp_path / "home", "sleep 60", session=airflow.pid)

    assert service.down(tmp_path / "home")
    assert airflow.wait(10) == -15
    assert node.poll() is None


def begun(children: ExitStack, home: Path, **variables: str) -> subprocess.Popen[bytes]:
    """Start a process in a home without a note."""
    process = subprocess.Popen(["sleep", "60"], env=os.environ | {"AIRFLOW_HOME": str(home), **variables})
    children.callback(process.wait)
    children.callback(process.kill)
    return process


@pytest.mark.parametrize("noted", [None, "", "[]", '{"session": 1'])
def test_without_a_note_down_ends_what_up_started(noted: str | None, children: ExitStack, tmp_path: Path) -> None:
    """Without a valid note, ``down`` ends what ``up`` started, and spares nodes and other shells in the home."""
    if noted is not None:
        (tmp_path / "up.json").write_text(noted)
    airflow = begun(children, tmp_path, PLIMSOLL_PAGES="http://127.0.0.1:1")
    node = begun(children, tmp_path, PLIMSOLL_PAGES="http://127.0.0.1:1", PLIMSOLL_NODE="broker-1")
    shell = begun(children, tmp_path)
    wait_until(lambda: len(with_variable("AIRFLOW_HOME", str(tmp_path))) == 3, limit_s=10, what="them to begin")

    with pytest.raises(HarnessError, match=f"run in {tmp_path}; end them by plimsoll down"):
        service.up(1, tmp_path)
    assert service.down(tmp_path)
    assert (airflow.wait(10), node.poll(), shell.poll()) == (-15, None, None)
    assert not service.down(tmp_path)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which every component of Airflow exits with an error."""
    monkeypatch.setattr(service, "make_home", lambda home: home)
    monkeypatch.setattr(service, "_check_free", lambda *_: None)
    monkeypatch.setattr(service, "_server", lambda *_: ["sleep", "60"])
    monkeypatch.setattr(service, "airflow", lambda *_: ["sh", "-c", "echo no database; exit 1"])
    monkeypatch.setattr(service, "_AGAIN_S", 0.01)
    return tmp_path


def test_an_airflow_that_cannot_be_noted_is_ended(played: Path) -> None:
    """If the note cannot be written, such as on a full disk, ``up`` ends Airflow, since ``down`` would not find it."""
    (played / f".up.json.{os.getpid()}").mkdir()  # where the note is written first

    with pytest.raises(IsADirectoryError):
        service.up(1, played)
    wait_until(lambda: not with_variable("AIRFLOW_HOME", str(played)), limit_s=10, what="it to end")


def test_a_component_that_ends_whenever_it_is_started_is_told_at_once(played: Path) -> None:
    """A component that keeps exiting is reported with the log's end, and everything is stopped."""
    ended = [f"{service._ENDED}{name}" for name in ("scheduler", "dag-processor")]
    (played / "log").write_text("\n".join(["no database", *ended * 2]))
    assert service._may_come_up(played / "log")

    with pytest.raises(HarnessError, match=r"(?s)a component ends repeatedly.* log .*:\n.*no database"):
        service.up(1, played)
    assert with_variable("AIRFLOW_HOME", str(played)) == []
    assert not (played / "up.json").exists()
