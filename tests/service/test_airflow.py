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

from clusters.paths import locked
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError
from service import airflow
from service.airflow_home import DATABASE
from service.api import Address
from service.processes import lives, with_variable

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
    (home / "up.json").write_text(json.dumps({"sessions": [shell.pid if session is None else session], "port": 1}))
    return shell


def test_down_ends_workers_that_their_leader_left(
    children: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``down`` ends workers that outlived their leader and ignore SIGTERM."""
    monkeypatch.setattr(airflow, "_DOWN_LIMIT_S", 0.3)
    leader = start(children, tmp_path / "home", f'sh -c "{WORKER}" & wait')
    (worker,) = wait_until(psutil.Process(leader.pid).children, limit_s=10, what="a worker")
    wait_until(worker.children, limit_s=10, what="the trap to be set")
    leader.kill()
    leader.wait()

    assert airflow.down(tmp_path / "home")
    assert not lives(worker)
    assert not airflow.down(tmp_path / "home")


def test_down_spares_whoever_was_given_the_number_since(children: ExitStack, tmp_path: Path) -> None:
    """``down`` spares a process that reused the noted session's number, since it was not started in this home."""
    stranger = start(children, tmp_path / "another", "sleep 60")
    (tmp_path / "home").mkdir()
    (tmp_path / "another" / "up.json").rename(tmp_path / "home" / "up.json")

    assert not airflow.down(tmp_path / "home")
    assert stranger.poll() is None


def test_down_spares_the_nodes_of_runs(children: ExitStack, tmp_path: Path) -> None:
    """``down`` spares the nodes of runs, which were started in this home but have other sessions."""
    ours = start(children, tmp_path / "home", "sleep 60")
    node = start(children, tmp_path / "home", "sleep 60", session=ours.pid)

    assert airflow.down(tmp_path / "home")
    assert ours.wait(10) == -15
    assert node.poll() is None


def begun(children: ExitStack, home: Path, **variables: str) -> subprocess.Popen[bytes]:
    """Start a process in a home without a note."""
    process = subprocess.Popen(["sleep", "60"], env=os.environ | {"AIRFLOW_HOME": str(home), **variables})
    children.callback(process.wait)
    children.callback(process.kill)
    return process


@pytest.mark.parametrize("noted", [None, "", "[]", '{"sessions": [1'])
def test_without_a_note_down_ends_what_up_started(noted: str | None, children: ExitStack, tmp_path: Path) -> None:
    """Without a valid note, ``down`` ends what ``up`` started, and spares nodes and other shells in the home."""
    if noted is not None:
        (tmp_path / "up.json").write_text(noted)
    ours = begun(children, tmp_path, PLIMSOLL_PAGES="http://127.0.0.1:1")
    node = begun(children, tmp_path, PLIMSOLL_PAGES="http://127.0.0.1:1", PLIMSOLL_NODE="broker-1")
    shell = begun(children, tmp_path)
    wait_until(lambda: len(with_variable("AIRFLOW_HOME", str(tmp_path))) == 3, limit_s=10, what="them to begin")

    with pytest.raises(HarnessError, match=f"run in {tmp_path}; end them by plimsoll down"):
        airflow.up(1, tmp_path)
    assert airflow.down(tmp_path)
    assert (ours.wait(10), node.poll(), shell.poll()) == (-15, None, None)
    assert not airflow.down(tmp_path)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which every component of Airflow exits with an error."""
    monkeypatch.setattr(airflow, "make_home", lambda home, **_: home)
    monkeypatch.setattr(airflow, "_check_free", lambda *_: None)
    monkeypatch.setattr(airflow, "_server", lambda *_: ["sleep", "60"])
    monkeypatch.setattr(airflow, "_API_SERVER", ["sh", "-c", "echo no database; exit 1"])
    monkeypatch.setattr(airflow, "_COMPONENTS", [])
    monkeypatch.setattr(airflow, "_AGAIN_S", 0.01)
    return tmp_path


def test_an_airflow_that_cannot_be_noted_is_ended(played: Path) -> None:
    """If the note cannot be written, such as on a full disk, ``up`` ends Airflow, since ``down`` would not find it."""
    (played / f".up.json.{os.getpid()}").mkdir()  # where the note is written first

    with pytest.raises(IsADirectoryError):
        airflow.up(1, played)
    wait_until(lambda: not with_variable("AIRFLOW_HOME", str(played)), limit_s=10, what="it to end")


def test_a_component_that_ends_whenever_it_is_started_is_told_at_once(played: Path) -> None:
    """A component that keeps exiting is reported with the log's end, and everything is stopped."""
    ended = [f"{airflow._ENDED}{name}" for name in ("scheduler", "dag-processor")]
    (played / "log").write_text("\n".join(["no database", *ended * 2]))
    assert airflow._may_come_up(played / "log")

    with pytest.raises(HarnessError, match=r"(?s)a component ends repeatedly.* log .*:\n.*no database"):
        airflow.up(1, played)
    assert with_variable("AIRFLOW_HOME", str(played)) == []
    assert not (played / "up.json").exists()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of an Airflow whose components sleep and are healthy."""
    home = tmp_path / "own"
    monkeypatch.setenv("PLIMSOLL_SERVICE", str(home))
    monkeypatch.delenv("PLIMSOLL_AIRFLOW", raising=False)
    monkeypatch.setattr(airflow, "make_home", lambda home, **_: home)
    monkeypatch.setattr(airflow, "_server", lambda *_: ["sleep", "60"])
    monkeypatch.setattr(airflow, "_API_SERVER", ["sleep", "60"])
    monkeypatch.setattr(airflow, "_COMPONENTS", [])
    monkeypatch.setattr(airflow, "_OF_UP", [["sleep", "61"]])
    healthy = {name: {"status": "healthy"} for name in airflow._ALL}
    monkeypatch.setattr(airflow, "_health", lambda *_: healthy if airflow._processes(home) else {})
    monkeypatch.setattr(airflow, "end_left", lambda address, _: (home / "ended").write_text(address.url))
    yield home
    airflow.down(home)


def parts_of(home: Path) -> list[str]:
    """Return the last argument of each process."""
    return [process.cmdline()[-1] for process in airflow._processes(home)]


def sessions_of(home: Path) -> list[int]:
    """Return the recorded sessions."""
    return list(json.loads((home / "up.json").read_text())["sessions"])


def test_the_api_server_waits_less_for_the_database(own: Path) -> None:
    """On SQLite the api-server gives a lock up after 5 s, other components after a minute."""
    with airflow.used(print):
        found = {process.environ()[DATABASE].rpartition("=")[2] for process in airflow._processes(own)}

    assert found == {"5", "60"}


def test_the_named_airflow_is_used_and_none_is_started(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With PLIMSOLL_AIRFLOW, a command uses that address with its credentials."""
    for name, value in (("", "https://far:1"), ("_TOKEN", "t"), ("_USER", "u"), ("_PASSWORD", "p")):
        monkeypatch.setenv(f"PLIMSOLL_AIRFLOW{name}", value)
    with airflow.used(print) as address:
        assert address == Address("https://far:1", "t", "u", "p")
    assert not own.exists()


def test_the_last_command_ends_what_the_first_started(own: Path) -> None:
    """Two commands share an Airflow, which runs until the second one ends."""
    said: list[str] = []
    with airflow.used(said.append) as second:
        with airflow.used(said.append) as first:
            assert first == second
            assert airflow.end_unused() == []
        assert airflow._processes(own)
    assert airflow._processes(own) == []
    assert len(said) == 1


def test_an_interrupted_command_ends_what_it_started(own: Path) -> None:
    """After an interrupt, the command's own Airflow is ended, too."""
    with pytest.raises(KeyboardInterrupt), airflow.used(print):
        raise KeyboardInterrupt
    assert airflow._processes(own) == []


@pytest.mark.parametrize("adopted", [False, True])
def test_what_up_started_or_adopted_stays(adopted: bool, own: Path) -> None:
    """An Airflow for which ``up`` was called outlives its users, until ``down``."""
    if not adopted:
        airflow.up(airflow.free_port())
    with airflow.used(print) as address:
        ports = airflow.up(1)
        assert address == Address(airflow.url_of(ports.airflow), home=own)
    wait_until(lambda: {"60", "61"} <= {*parts_of(own)}, limit_s=10, what="all components")
    assert (own / "ended").exists() == adopted  # a command ends no DAG run of an Airflow that stays
    assert airflow.end_unused() == []
    assert airflow.down()
    assert airflow.end_unused() == []


def test_what_a_killed_command_left_is_ended(own: Path) -> None:
    """The next command ends an Airflow that nobody uses, starts one of its own, and ends DAG runs in its database."""
    with locked(own / "starting"):
        airflow._start(own, airflow.Ports(airflow.free_port(), None), {}, stays=False)
    left = sessions_of(own)
    with airflow.used(print):
        assert sessions_of(own) != left
        assert (own / "ended").read_text() == airflow.url_of(json.loads((own / "up.json").read_text())["port"])
    airflow._start(own, airflow.Ports(airflow.free_port(), None), {}, stays=False)
    assert airflow.end_unused() == ["airflow"]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("PLIMSOLL_JAVA", True),
        ("AWS_PROFILE", True),
        ("https_proxy", True),
        ("MY_WEBHOOK", True),
        ("PLIMSOLL_RUNS", False),
        ("TERM", False),
    ],
)
def test_an_airflow_with_other_variables_is_refused(
    name: str, refused: bool, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a variable that tasks read differs from Airflow's, the command is rejected; Airflow goes on."""
    airflow.up(airflow.free_port())
    monkeypatch.setenv(name, "another")
    if refused:
        with (
            pytest.raises(BadInput, match=f"started with another {name}; end it by plimsoll down"),
            airflow.used(print, ["MY_WEBHOOK"]),
        ):
            pass
    else:
        with airflow.used(print, ["MY_WEBHOOK"]):
            pass
    assert airflow._processes(own)
