"""Lines of a run whose folder is on another host."""

from __future__ import annotations

from typing import Any

import pytest

from service import task_logs
from service.api import TaskInstance
from service.task_logs import TaskLogs


class Logs:
    """An Airflow of one DAG run, whose tasks and lines grow."""

    def __init__(self) -> None:
        self.tasks: list[TaskInstance] = []
        self.lines: dict[tuple[str, int], list[str]] = {}

    def task_instances(self, *_: str) -> list[TaskInstance]:
        return self.tasks

    def log_lines(self, _dag_id: str, _run_id: str, task: TaskInstance) -> list[str]:
        return self.lines.get((task.task_id, task.try_number), [])


def test_each_line_is_shown_once_in_the_order_of_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second try begins anew; a task that has not started is not asked."""
    monkeypatch.setattr(task_logs, "_LOOK_S", 0.0)
    airflow, said = Logs(), list[str]()
    progress = TaskLogs(_any(airflow), "steady", "r", said.append)
    airflow.tasks = [
        TaskInstance("judge", -1, 0, None, ""),
        TaskInstance("phase", -1, 1, "running", "2026-11-30T10:02:00Z"),
        TaskInstance("start_cluster", -1, 1, "success", "2026-11-30T10:01:00Z"),
    ]
    airflow.lines = {("start_cluster", 1): ["[00:00] a"], ("phase", 1): ["[00:00] b"], ("judge", 0): ["never"]}
    progress.look()
    assert (said, progress.running) == (["[00:00] a", "[00:00] b"], "phase")
    airflow.lines["phase", 1].append("[00:05] c")
    airflow.tasks[1] = TaskInstance("phase", -1, 1, "success", "2026-11-30T10:02:00Z")
    progress.look()
    airflow.tasks[0] = TaskInstance("judge", -1, 2, "running", "2026-11-30T10:03:00Z")
    airflow.lines["judge", 2] = ["[00:01] d"]
    progress.look()
    progress.look()
    assert said[2:] == ["[00:05] c", "[00:01] d"]


def _any(airflow: Logs) -> Any:
    return airflow
