"""Progress lines of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusters.scenario.scenario import load_scenario
from history.errors import HarnessError
from history.events import EventLog, recorded, stage_events
from history.folder import RunFolder
from service import load_rates
from service.progress import Progress, logged
from service.stages import PUBLISH, stages


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """An empty run folder."""
    return RunFolder(tmp_path)


def test_stages_and_events_become_lines(run: RunFolder) -> None:
    """Phases are shown with number and length, faults with their target; internal events and repeated lines are not."""
    said: list[str] = []
    of_stages, events = EventLog(run.stages), EventLog(run.events)
    progress = Progress(stages(load_scenario("follower_lag_then_leader_kill")), run, said.append)
    progress.look()  # neither file is there yet
    of_stages.add("stage_started", step="phase_2_follower_lags")
    events.add("inject", step="lag", target="broker-3")
    with events.path.open("a") as file:
        file.write('{"t_ns": 1, "torn')
    events.add("collected")
    events.add("healed", step="lag", target="broker-3", recovery_verified=True)
    events.add("healed", step="kill", target="broker-1", recovery_verified=False, why="it did not answer")
    events.add("wait_timed_out", step="wait", condition="isr full: orders")
    of_stages.add("stage_ended", step="phase_2_follower_lags", state="success")
    of_stages.add("stage_started", step="judge")
    of_stages.add("stage_progress", step="judge", what="judged 0 of 438 MB", left_s=None)
    of_stages.add("stage_progress", step="judge", what="judged 0 of 438 MB", left_s=None)
    of_stages.add("stage_progress", step="judge", what="judged 73 of 438 MB", left_s=25)
    progress.look()

    assert said == [
        "[00:00] phase 2/3 follower lags … (about 21 s)\n",
        "[00:00]   fault: lag, broker-3\n",
        "[00:00]   healed: lag, broker-3\n",
        "[00:00]   healed, recovery not verified: kill, broker-1, it did not answer\n",
        "[00:00]   condition not met in time: wait, isr full: orders\n",
        "[00:00] judging the recording in Spark … (about 21 s)\n",
        "[00:00]   judged 0 of 438 MB\n",
        "[00:00]   judged 73 of 438 MB, about 25 s to go\n",
    ]


@pytest.mark.parametrize(("ended", "told"), [("drain", ["  received 100/s\n"]), ("stop_clients", [])])
def test_rates_end_with_the_clients(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, ended: str, told: list[str]
) -> None:
    """Rates are shown until the clients end, including the final drain, but not during judging."""
    monkeypatch.setattr(load_rates, "EVERY_NS", 0)
    said: list[str] = []
    progress = Progress(stages(load_scenario("steady")), run, said.append)
    run.clients.mkdir()

    def look(received: int) -> None:
        so_far = {"t_ns": received * 10**7, "received": received}
        (run.clients / "consumer.json").write_text(json.dumps({"so_far": so_far}))
        progress.look()

    look(100)
    EventLog(run.stages).add("stage_ended", step=ended, state="success")
    look(200)

    assert [line[8:] for line in said] == told


def test_a_stage_that_fails_is_told_once_with_its_reason(run: RunFolder) -> None:
    """A failed stage is reported once with its reason, also after the folder is sealed."""
    said: list[str] = []
    progress = Progress(stages(load_scenario("steady")), run, said.append)
    with pytest.raises(HarnessError), stage_events(run.stages, "drain"), recorded(run.path, "drain"):
        raise HarnessError("no broker")
    run.seal()
    with pytest.raises(HarnessError), stage_events(run.stages, "tear_down"), recorded(run.path, "tear_down"):
        raise HarnessError("no Docker")
    progress.look()

    assert [line[8:] for line in said if "ERROR" in line] == [
        "  ERROR: drain, HarnessError: no broker\n",
        "  ERROR: tear_down, HarnessError: no Docker\n",
    ]


def test_the_stage_at_hand_is_known(run: RunFolder) -> None:
    """The current stage is known; an incomplete line waits."""
    progress = Progress(stages(load_scenario("steady")), run, lambda text: None)
    with stage_events(run.stages, "tear_down"):
        pass
    whole = run.stages.read_text()
    run.stages.write_text(whole.rstrip())
    progress.look()
    assert progress.running == "tear_down"

    run.stages.write_text(whole)
    progress.look()
    assert progress.running == ""


def test_a_task_logs_what_a_terminal_shows(run: RunFolder) -> None:
    """A task's log has only the lines of that task's stage."""
    said: list[str] = []
    EventLog(run.events).add("inject", step="kill", target="broker-1")
    with logged(PUBLISH, run, said.append), stage_events(run.stages, PUBLISH.name):
        EventLog(run.events).add("healed", step="kill", target="broker-1")

    assert said == ["[00:00] writing the page … (about 5 s)", "[00:00]   healed: kill, broker-1"]
