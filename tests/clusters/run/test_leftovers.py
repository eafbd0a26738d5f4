"""Leases, and the removal of leftovers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.run import leftovers as leftovers_module
from clusters.run.experiment import collect, hold_lease, reap, run_phase, tear_down
from history import background
from history.errors import HarnessError, NotRemoved, WaitTimeout
from history.folder import RunFolder
from tests.clusters.run.small import prepared


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the removal of runs; lists the names of removed runs."""
    runs: list[str] = []

    def remove(run: Path) -> list[str]:
        runs.append(run.name)
        return [f"{run.name}/broker-1"]

    monkeypatch.setattr(leftovers_module, "_remove_all", remove)
    return runs


def leftovers(monkeypatch: pytest.MonkeyPatch, *runs: Path) -> None:
    """Let these runs have processes."""
    monkeypatch.setattr(leftovers_module, "_runs_with_processes", lambda: list(runs))
    monkeypatch.setattr(leftovers_module, "_runs_on_docker", list)


def test_a_held_lease_spares_the_run(
    told: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is spared while its lease is held, and removed afterwards."""
    run = prepared(told, tmp_path, lease="process")
    leftovers(monkeypatch, run)

    with hold_lease(run):
        assert reap() == []
    assert reap() == [f"{run.name}/broker-1"]


def test_what_a_failed_teardown_leaves_is_removed_at_once(
    told: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Docker dies during the teardown, the run's lease ends, so that the next removal does not spare the run."""
    run = prepared(told, tmp_path, lease="time")
    leftovers(monkeypatch, run)
    assert reap() == []  # it lives

    def refuse(run: Path) -> list[str]:
        raise HarnessError(f"Docker did not remove all of {run.name}")

    with monkeypatch.context() as dead:
        dead.setattr(leftovers_module, "_remove_all", refuse)
        with pytest.raises(HarnessError):
            tear_down(run)
    assert reap() == [f"{run.name}/broker-1"]


def test_a_trial_is_spared_while_it_lasts(removed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel trial is spared while it lasts, and its leftovers are found like a run's."""
    with leftovers_module.hold_scratch_run() as trial:
        leftovers(monkeypatch, trial)
        assert reap() == []
    assert reap() == [f"{trial.name}/broker-1"]


class Clock:
    """A clock that moves only on request; it replaces ``time`` and the event that ends the renewal."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.until = 0.0
        self.arrived = Event()
        self.on_tick: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        if self.now >= self.until:
            self.arrived.set()
            return True
        self.now += seconds
        self.on_tick()
        return False

    def set(self) -> None:
        """The renewal ends at the set time."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of leases."""
    told = Clock()
    monkeypatch.setattr(leftovers_module, "time", told)
    monkeypatch.setattr(background, "Event", lambda: told)
    return told


@pytest.mark.parametrize(("work_s", "dies"), [(0, False), (3900, False), (3900, True)])
def test_a_lease_by_time_is_renewed_by_whoever_works(  # noqa: PLR0917  # of four fixtures and a case
    told: str,
    tmp_path: Path,
    removed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    work_s: float,
    dies: bool,
) -> None:
    """A timed lease is renewed while a step works, also for more than an hour; after a worker's death it expires."""
    run = prepared(told, tmp_path, lease="time")
    leftovers(monkeypatch, run)
    clock.until = clock.now + work_s
    clock.on_tick = reap
    if dies:  # nothing is renewed after its last tick
        renew = leftovers_module.renew_lease
        monkeypatch.setattr(leftovers_module, "renew_lease", lambda run: clock.now < clock.until and renew(run))
    with leftovers_module.hold_step(run, 1):
        assert clock.arrived.wait(30)
    assert clock.now == 1000 + work_s

    clock.now += leftovers_module.LEASE_S - leftovers_module._RENEWED_EVERY_S - 1
    assert reap() == []
    clock.now += leftovers_module._RENEWED_EVERY_S + 2
    assert removed == []
    assert reap() == [f"{run.name}/broker-1"]


def test_the_lease_of_a_process_is_not_renewed(
    told: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process lease is not renewed by a step, since its tasks may outlive the command that held it."""
    run = prepared(told, tmp_path, lease="process")
    leftovers(monkeypatch, run)

    with leftovers_module.hold_step(run, 1):
        assert reap() == [f"{run.name}/broker-1"]


@pytest.mark.parametrize("lease", ["{", '{"expires_s": "x"}'])
def test_a_lease_that_is_not_sound_stays_so(told: str, tmp_path: Path, lease: str) -> None:
    """A malformed lease is left unchanged, and work on the run continues."""
    run = prepared(told, tmp_path, lease="time")
    (run / "work" / "lease").write_text(lease)
    with leftovers_module.hold_step(run, 1):
        pass
    assert (run / "work" / "lease").read_text() == lease


def test_all_runs_are_all(told: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """``all_runs`` also removes runs whose lease is held."""
    held, free = (prepared(told, tmp_path, lease="process") for _ in range(2))
    leftovers(monkeypatch, held, free)

    with hold_lease(held):
        assert reap() == [f"{free.name}/broker-1"]
        reap(all_runs=True)
    assert removed == [free.name, held.name, free.name]


def test_a_run_that_resists_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that cannot be removed does not keep others from being removed; the error names it."""
    leftovers(monkeypatch, tmp_path / "1-stuck", tmp_path / "2")
    monkeypatch.setattr(leftovers_module, "_runs_on_docker", lambda: [tmp_path / "3"])

    def remove(run: Path) -> list[str]:
        if run.name == "1-stuck":
            raise WaitTimeout("Waited 10 s for the processes of 1-stuck to end.")
        return [f"{run.name}/broker-1"]

    monkeypatch.setattr(leftovers_module, "_remove_all", remove)
    with pytest.raises(NotRemoved, match="Waited 10 s for the processes of 1-stuck to end") as error:
        reap()
    assert error.value.removed == ["2/broker-1", "3/broker-1"]


@pytest.mark.parametrize("named", ["DOCKER_HOST", "the socket"])
def test_a_docker_that_does_not_answer_has_not_said_that_nothing_is_left(
    named: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Docker does not answer, removal raises an error with its address; without Docker there is no error."""
    monkeypatch.setattr(leftovers_module, "_runs_with_processes", lambda: [tmp_path / "a-run"])
    monkeypatch.setattr(leftovers_module, "_DOCKER", tmp_path / "docker.sock")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert reap() == ["a-run/broker-1"]

    if named == "DOCKER_HOST":
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    else:
        (tmp_path / "docker.sock").touch()
    with pytest.raises(NotRemoved, match=rf"Docker does not answer at .*{tmp_path}/docker.sock") as error:
        reap()
    assert error.value.removed == ["a-run/broker-1"]


@pytest.mark.parametrize("is_started", [True, False])
def test_a_docker_that_is_not_started_has_no_runs(
    is_started: bool, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run ignores a Docker daemon that is not started, but not one that listens without answering."""
    monkeypatch.setattr(leftovers_module, "_runs_with_processes", lambda: [tmp_path / "a-run"])
    monkeypatch.chdir(tmp_path)  # a socket's address has 107 characters at most
    monkeypatch.setattr(leftovers_module, "_DOCKER", Path("/proc/self/cwd/docker.sock"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind("docker.sock")
        if is_started:
            daemon.listen()
        with pytest.raises(NotRemoved, match="Docker does not answer") if is_started else nullcontext():
            reap(docker_may_be_down=True)
    assert removed == ["a-run"]


@pytest.mark.parametrize(
    "lease",
    [
        *(None, "", "{", "[]", "7", "{}", '{"expires_s": null}', '{"expires_s": "x"}', '{"expires_s": 1e99}'),
        '{"expires_s": 1e99, "boot": "of another start of the host"}',
    ],
)
def test_a_run_without_a_sound_lease_is_nobodys(
    tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch, lease: str | None
) -> None:
    """A run without a valid lease, or without its folder, is removed."""
    run = tmp_path / "a-run"
    if lease is not None:
        (run / "work").mkdir(parents=True)
        (run / "work" / "lease").write_text(lease)
    leftovers(monkeypatch, run)

    assert reap() == ["a-run/broker-1"]


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another user's run, whose folder is not readable."""
    run = tmp_path / "closed"
    (run / "work").mkdir(parents=True)
    (run / "work" / "lease").write_text('{"expires_s": 0}')

    def guarded(plain: Any) -> Any:
        def call(path: Path, *arguments: Any, **more: Any) -> Any:
            if run in path.parents:
                raise PermissionError(13, "Permission denied", str(path))
            return plain(path, *arguments, **more)

        return call

    for name in ("open", "stat"):
        monkeypatch.setattr(Path, name, guarded(getattr(Path, name)))
    return run


def test_a_run_that_cannot_be_looked_into_is_somebodys(
    closed: Path, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose folder is not readable is spared; another run without a lease is removed."""
    leftovers(monkeypatch, closed, tmp_path / "gone")

    assert reap() == ["gone/broker-1"]


def test_of_a_run_that_cannot_be_looked_into_the_folder_stays(
    closed: Path, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``all_runs`` an unreadable run's nodes are removed too, and its folder stays."""
    leftovers(monkeypatch, closed, tmp_path / "gone")

    assert reap(all_runs=True) == ["closed/broker-1", "gone/broker-1"]


@pytest.mark.parametrize(
    ("plan", "asked"),
    [
        ('{"cluster": {"runtime": "docker"}}', ["process", "docker"]),
        ('{"cluster": {"runtime": "process"}}', ["process"]),
        ("{", ["process"]),
        (None, ["process"]),
    ],
)
def test_docker_is_asked_about_a_run_that_was_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str | None, asked: list[str]
) -> None:
    """Docker is queried about a run that was on it, even if the daemon seems down."""
    if plan is not None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "plan.json").write_text(plan)
    monkeypatch.setattr(leftovers_module, "open_runtime", lambda name, _run: SimpleNamespace(remove_all=lambda: [name]))

    assert tear_down(tmp_path) == asked


def test_work_goes_once_the_run_is_sealed(told: str, tmp_path: Path, removed: list[str]) -> None:
    """The work folder is removed after the run is sealed, not before; a repeated call is no error."""
    run = prepared(told, tmp_path)
    tear_down(run)
    assert (run / "work" / "plan.json").exists()

    RunFolder(run).seal()
    tear_down(run)
    tear_down(run)
    assert not (run / "work").exists()
    assert RunFolder(run).check_seal() == []


def test_a_collected_run_stays_as_it_is(told: str, tmp_path: Path) -> None:
    """Collecting a sealed run again changes nothing, and a phase in it is an error."""
    run = prepared(told, tmp_path)
    RunFolder(run).seal()
    collect(run)

    with pytest.raises(HarnessError, match=f"{run.name} is collected; start a new run"):
        run_phase(run, 0)
    assert RunFolder(run).check_seal() == []
