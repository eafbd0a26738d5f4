"""A command's DAG run: its end, an interrupt and a second one; a tiny server replaces Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from history.errors import HarnessError
from service import api, follow
from service.api import Address, Airflow
from tests.service.fake_airflow import RUN, FakeAirflow, fake_airflow

INTERRUPTED = "interrupted: collecting the recording and removing everything"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    """An Airflow that is asked often."""
    for name, seconds in (("_LOOK_S", 0.001), ("_ASK_S", 0.0), ("_ASK_BUSY_S", 0.0)):
        monkeypatch.setattr(follow, name, seconds)
    monkeypatch.setattr(api, "_AWAY_LIMIT_S", 0.05)
    with fake_airflow() as served:
        yield served


class Screen:
    """Notes what a command shows; ``interrupts`` are the looks at which Ctrl-C is pressed."""

    def __init__(self, *interrupts: int) -> None:
        self.running = ""
        self.said: list[str] = []
        self.salvaged = 0
        self._interrupts = interrupts
        self._looks = 0

    def look(self) -> None:
        self._looks += 1
        if self._looks in self._interrupts:
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        self.said.append(text)

    def salvage(self) -> None:
        self.salvaged += 1


def run(fake: FakeAirflow, screen: Screen, limit_s: float = 60.0) -> bool:
    """Run the DAG ``steady`` as ``r1``."""
    airflow = Airflow(Address(fake.url))
    airflow.check("steady")
    return follow.run_dag(airflow, "steady", {}, run_id="r1", progress=screen, salvage=screen.salvage, limit_s=limit_s)


def states(fake: FakeAirflow, *states: str) -> None:
    """Let the DAG run have these states."""
    fake.answers[f"GET {RUN}"] = [(200, {"state": state}) if state else (404, {}) for state in states]


@pytest.mark.parametrize(("last", "succeeded"), [("success", True), ("failed", False), ("", False)])
def test_a_dag_run_is_followed_to_its_end(last: str, succeeded: bool, fake: FakeAirflow) -> None:
    """A DAG run that succeeds, fails or is deleted ends the command; its page is shown once."""
    states(fake, "queued", "running", "running", last)
    screen = Screen()

    assert run(fake, screen) is succeeded
    assert screen.said == [f"Airflow: {fake.url}/dags/steady/runs/r1"]
    assert screen.salvaged == 1
    assert fake.sent("PATCH") == []


def test_a_dag_run_that_waits_says_so(fake: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DAG run that stays queued is announced once."""
    monkeypatch.setattr(follow, "_QUEUED_S", 0.0)
    states(fake, "queued", "queued", "running", "queued", "success")
    screen = Screen()

    assert run(fake, screen)
    assert screen.said[1:] == ["  waiting in Airflow's queue, until other runs of this DAG have ended"]


@pytest.mark.parametrize("last", ["failed", "success"])
def test_an_interrupt_ends_the_dag_run_and_waits(last: str, fake: FakeAirflow) -> None:
    """An interrupt fails the DAG run and waits for its tasks; the command is interrupted, whatever the final state."""
    states(fake, "running", "running", "running", last)
    fake.answers[f"GET {RUN}/taskInstances"] = [
        (200, {"task_instances": [{"task_id": "tear_down", "state": "running"}]}),
        (200, {"task_instances": []}),
    ]
    screen = Screen(2)

    with pytest.raises(KeyboardInterrupt):
        run(fake, screen)
    assert screen.said[1:] == [INTERRUPTED]
    assert fake.sent("PATCH") == [(RUN, {"state": "failed"})]
    assert len([path for path, _ in fake.sent("GET") if path == f"{RUN}/taskInstances"]) == 2
    assert screen.salvaged == 1


def test_a_dag_run_that_has_ended_is_not_failed(fake: FakeAirflow) -> None:
    """If the DAG run has ended before the interrupt, its state stays."""
    states(fake, "running", "success")
    with pytest.raises(KeyboardInterrupt):
        run(fake, Screen(2))

    assert fake.sent("PATCH") == []


def airflow_ends(fake: FakeAirflow) -> None:
    """Let Airflow answer with errors from the interrupt on."""
    fake.answers[f"PATCH {RUN}"] = [(503, {})]


@pytest.mark.parametrize(
    ("interrupts", "limit_s", "trouble", "why"),
    [
        ((2, 4), 60.0, None, "interrupted again"),
        ((2,), 0.01, None, "Waited 0.01 s for the DAG run to end; last seen: running"),
        ((2,), 60.0, airflow_ends, "Airflow no longer answers at"),
    ],
)
def test_a_second_interrupt_leaves_the_rest(
    interrupts: tuple[int, ...],
    limit_s: float,
    trouble: Callable[[FakeAirflow], None] | None,
    why: str,
    fake: FakeAirflow,
) -> None:
    """A second interrupt, a timeout and a lost Airflow leave the rest to the reaper, and say how to remove it."""
    if trouble:
        trouble(fake)
    screen = Screen(*interrupts)

    with pytest.raises(KeyboardInterrupt):
        run(fake, screen, limit_s)
    assert screen.said[1] == INTERRUPTED
    assert screen.said[2].startswith(f"the rest is left to the reaper ({why}")
    assert screen.said[2].endswith("); plimsoll clean removes it")
    assert screen.salvaged == 0


def test_an_airflow_that_ends_breaks_the_run(fake: FakeAirflow) -> None:
    """If Airflow no longer answers, the run is not salvaged, because its tasks may go on."""
    fake.answers[f"GET {RUN}"] = [(503, {})]
    screen = Screen()

    with pytest.raises(HarnessError, match="no longer answers"):
        run(fake, screen)
    assert screen.salvaged == 0


def test_the_dag_runs_of_a_killed_command_are_ended(fake: FakeAirflow) -> None:
    """All active DAG runs are failed, campaigns first, one after the other, and their teardowns awaited."""
    states(fake, "running", "running", "failed")
    active = [{"dag_id": dag_id, "dag_run_id": "r1"} for dag_id in ("steady", "reaper", "fuzz")]
    fake.answers["GET /api/v2/dags/~/dagRuns"] = [(200, {"dag_runs": active})]
    said: list[str] = []
    follow.end_left(Address(fake.url), said.append)

    assert said == ["ending fuzz r1", "ending steady r1"]
    failed = {"state": "failed"}
    assert fake.sent("PATCH")[:2] == [(RUN.replace("steady", "fuzz"), failed), (RUN, failed)]


def test_only_a_campaigns_own_dag_runs_are_ended(fake: FakeAirflow) -> None:
    """After Ctrl-C the runs that a campaign triggered are ended; those of another one go on."""
    active = [{"dag_id": "steady", "dag_run_id": name} for name in ("c1-3fa2:pair-1-a:1", "c1-77aa:pair-1-a:1")]
    fake.answers["GET /api/v2/dags/~/dagRuns"] = [(200, {"dag_runs": active})]
    screen = Screen()
    follow.end_all(Airflow(Address(fake.url)), screen, "c1-3fa2:")

    assert screen.said == ["ending steady c1-3fa2:pair-1-a:1"]
