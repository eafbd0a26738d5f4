"""What a person sees of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.scenario.scenario import load_scenario
from history.events import EventLog
from operators.progress import Progress, task_in

STARTS = "2026-01-01T00:00:00Z [info     ] [DAG TEST] starting task_id={} map_index=-1 [airflow] loc=dag.py:1501\n"
ENDS = "2026-01-01T00:00:00Z [info     ] [DAG TEST] end task task_id={} map_index=-1 [airflow] loc=dag.py:1563\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (STARTS.format("drain"), ("starting", "drain", -1)),
        (ENDS.format("drain"), ("end", "drain", -1)),
        ("[DAG TEST] starting task_id=record map_index=12 [airflow]", ("starting", "record", 12)),
        ("[DAG TEST] running task <TaskInstance: steady.drain>", None),
    ],
)
def test_tasks_are_read_from_the_log(line: str, found: tuple[str, str, int] | None) -> None:
    """Starts and ends are told from other lines of the same task."""
    assert task_in(line) == found


def test_tasks_and_events_become_lines(tmp_path: Path) -> None:
    """Phases come with their number and length, faults with their target; what is internal is left out."""
    said: list[str] = []
    log, events = tmp_path / "log", EventLog(tmp_path / "events.jsonl")
    progress = Progress(load_scenario("follower_lag_then_leader_kill"), log, events.path, said.append)
    progress.look()  # neither file is there yet
    log.write_text(STARTS.format("phase_2_follower_lags"))
    events.add("inject", step="lag", target="broker-3")
    with events.path.open("a") as file:
        file.write('{"t_ns": 1, "torn')
    events.add("collected")
    events.add("wait_timed_out", step="wait", condition="isr full: orders")
    progress.look()

    assert said == [
        "[00:00] phase 2/3 follower lags … (about 33 s)\n",
        "[00:00]   fault: lag, broker-3\n",
        "[00:00]   condition not met in time: wait, isr full: orders\n",
    ]


def test_the_task_at_hand_is_known(tmp_path: Path) -> None:
    """An interrupt must know whether the teardown is done; a line that is only half there waits."""
    log = tmp_path / "log"
    progress = Progress(load_scenario("steady"), log, tmp_path / "events.jsonl", lambda text: None)
    log.write_text(STARTS.format("tear_down") + ENDS.format("tear_down").rstrip())
    progress.look()
    assert (progress.running, progress.torn_down) == ("tear_down", False)

    with log.open("a") as file:
        file.write("\n")
    progress.look()
    assert (progress.running, progress.torn_down) == ("", True)
