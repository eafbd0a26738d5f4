"""Show what the tasks of a DAG run log, by Airflow's API alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.api import ACTIVE_TASK, Airflow

_LOOK_S = 3.0


class TaskLogs:
    """Print each line of Plimsoll's progress once; a ``Follower`` of a run whose folder is on another host."""

    def __init__(self, airflow: Airflow, dag_id: str, run_id: str, say: Callable[[str], object]) -> None:
        self.running = ""
        self.say = say
        self._airflow, self._dag_id, self._run_id = airflow, dag_id, run_id
        self._shown: dict[tuple[str, int, int], int] = {}  # task, map index, try → its lines that were printed
        self._read: set[tuple[str, int, int]] = set()  # those that had ended
        self._looked_s = 0.0

    def look(self) -> None:
        if time.monotonic() - self._looked_s >= _LOOK_S:
            self.show()

    def show(self) -> None:
        self._looked_s = time.monotonic()
        tasks = self._airflow.task_instances(self._dag_id, self._run_id)
        self.running = ", ".join(each.task_id for each in tasks if each.state in ACTIVE_TASK)
        for each in sorted((each for each in tasks if each.started), key=lambda each: each.started):
            key = (each.task_id, each.map_index, each.try_number)
            if key in self._read:
                continue
            lines = self._airflow.log_lines(self._dag_id, self._run_id, each)
            for line in lines[self._shown.get(key, 0) :]:
                self.say(line)
            self._shown[key] = len(lines)
            if each.state not in ACTIVE_TASK:
                self._read.add(key)
