"""What a person sees while a run goes on: one line for each task and each thing done to the cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusters.scenario.durations import expected_phase_s
from clusters.scenario.scenario import Scenario
from operators.timing import AIRFLOW_S, expected_s, expected_task_s

_WORDS = {
    "start_cluster": "starting the cluster",
    "create_topics": "creating the topics",
    "capture_before": "capturing every replica's offsets",
    "start_clients": "starting the clients",
    "stop_producers": "stopping the producers",
    "quiesce": "waiting for the replicas to come to rest",
    "drain": "reading every record again",
    "capture_after": "capturing every replica's offsets",
    "stop_clients": "stopping the clients",
    "collect": "collecting logs, segments and checkpoints",
    "tear_down": "removing everything that was started",
    "judge": "judging what was recorded, in Spark",
    "publish": "writing the page",
}
_EVENTS = {
    "inject": "fault",
    "injected": "fault took effect",
    "healed": "healed",
    "condition_met": "condition met",
    "wait_timed_out": "condition not met in time",
    "precondition": "precondition",
    "error": "ERROR",
}


class Tail:
    """Yields the whole lines that a growing file gained since the last look; the file may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def lines(self) -> Iterator[str]:
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                yield line.decode(errors="replace").rstrip("\n")


class Progress:
    """Turns the growing log of ``airflow dags test`` and the run's events into lines for a person."""

    def __init__(self, scenario: Scenario, log: Path, events: Path, write: Callable[[str], object]) -> None:
        self.running = ""
        self.torn_down = False
        self._scenario = scenario
        self._log = Tail(log)
        self._events = Tail(events)
        self._write = write
        self._started_s = time.monotonic()

    def begin(self) -> None:
        """Say what is about to run and how long it will take."""
        self.say(f"scenario {self._scenario.name}: about {rounded(expected_s(self._scenario))} in all")
        self.say(f"starting Airflow … (about {rounded(AIRFLOW_S)})")

    def look(self) -> None:
        """Say what is new."""
        for line in self._log.lines():
            self._task(line)
        for line in self._events.lines():
            with suppress(ValueError):  # a torn one; the judge hears of it
                self._event(json.loads(line))

    def say(self, text: str) -> None:
        """Write one line with the time that the run has taken so far."""
        minutes, seconds = divmod(int(time.monotonic() - self._started_s), 60)
        self._write(f"[{minutes:02}:{seconds:02}] {text}\n")

    def _task(self, line: str) -> None:
        if not (found := task_in(line)):
            return
        what, task_id, _ = found
        self.running = task_id if what == "starting" else ""
        self.torn_down = self.torn_down or (what == "end" and task_id == "tear_down")
        if self.running and (words := self._words(task_id)):
            self.say(words)

    def _words(self, task_id: str) -> str:
        if match := re.match(r"phase_(\d+)_", task_id):
            number = int(match[1])
            phase = self._scenario.phases[number - 1]
            how_long = rounded(expected_phase_s(phase))
            return f"phase {number}/{len(self._scenario.phases)} {phase.name} … (about {how_long})"
        if task_id not in _WORDS:
            return ""
        return f"{_WORDS[task_id]} … (about {rounded(expected_task_s(task_id, self._scenario))})"

    def _event(self, event: dict[str, Any]) -> None:
        if event["kind"] not in _EVENTS:
            return
        detail = event["detail"]
        what = [event["step"], event["target"], detail.get("condition", ""), detail.get("why", "")]
        self.say(f"  {_EVENTS[event['kind']]}: {', '.join(filter(None, what))}")


def task_in(line: str) -> tuple[str, str, int] | None:
    """``("starting" | "end", task id, map index)`` of a line of ``airflow dags test``'s log that says so."""
    match = re.search(r"\[DAG TEST\] (starting|end task) task_id=(\S+)(?: map_index=(-?\d+))?", line)
    return (match[1].removesuffix(" task"), match[2], int(match[3] or -1)) if match else None


def rounded(seconds: float) -> str:
    """A duration as a person says it."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds >= 600 else f"{seconds / 60:.1f} min"
