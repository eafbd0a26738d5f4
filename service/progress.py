"""Show a run's progress: one line per stage and per action on the cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from clusters.run.stages import STOP_CLIENTS, Stage
from clusters.scenario.scenario import Scenario
from history.background import every
from history.events import stage_events
from history.folder import RunFolder
from service.load_rates import LoadRates
from service.stages import expected_s

_LOOK_S = 0.5  # between two updates of a task's log
_EVENTS = {
    "inject": "fault",
    "injected": "fault took effect",
    "healed": "healed",
    "condition_met": "condition met",
    "wait_timed_out": "condition not met in time",
    "precondition": "precondition",
    "owner_asked": "YOUR TURN",
    "error": "ERROR",
}


class Tail:
    """Yield a growing file's new events; it may not exist yet."""

    def __init__(self, path: Path, *, from_now: bool = False) -> None:
        self._path = path
        self._position = path.stat().st_size if from_now and path.exists() else 0

    def events(self) -> Iterator[dict[str, Any]]:
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
                with suppress(ValueError):  # a torn line, which the judge reports
                    yield json.loads(line)


class Progress:
    """Turn events of a run and its stages into lines; ``from_now`` skips existing ones."""

    def __init__(
        self, of: Iterable[Stage], run: RunFolder, write: Callable[[str], object], *, from_now: bool = False
    ) -> None:
        self.running = ""
        self._stages = {stage.name: stage for stage in of}
        self._tails = (Tail(run.stages, from_now=from_now), Tail(run.events, from_now=from_now))
        self._load: LoadRates | None = LoadRates(run.clients)
        self._write = write
        self._started_s = time.monotonic()
        self._errors: list[str] = []
        self._told = ""

    def begin(self, scenario: Scenario) -> None:
        self.say(f"scenario {scenario.name}: about {rounded(expected_s(scenario))} in all")

    def look(self) -> None:
        events = [event for tail in self._tails for event in tail.events()]
        for event in sorted(events, key=itemgetter("t_ns")):
            if event["kind"] == "stage_started" and event["step"] in self._stages:
                self._begin_stage(event["step"])
            elif event["kind"] == "stage_ended":
                self._end_stage(event["step"], event["detail"].get("why", ""))
            elif event["kind"] == "stage_progress":
                self._progress(event["detail"])
            elif event["kind"] in _EVENTS:
                self._event(event)
        if self._load and (rates := self._load.look()):
            self.say(f"  {rates}")

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._started_s), 60)
        self._write(f"[{minutes:02}:{seconds:02}] {text}\n")

    def _begin_stage(self, name: str) -> None:
        stage = self._stages[name]
        self.running = name
        self.say(f"{stage.text} … (about {rounded(stage.expected_s)})")

    def _end_stage(self, name: str, why: str) -> None:
        self.running = ""
        if name == STOP_CLIENTS.name:  # later rates would be stale
            self._load = None
        if why and not any(error in why for error in self._errors):  # the run's events already showed most
            self.say(f"  ERROR: {name}, {why}")

    def _progress(self, detail: dict[str, Any]) -> None:
        left = "" if detail["left_s"] is None else f", about {rounded(detail['left_s'])} to go"
        if (told := f"{detail['what']}{left}") != self._told:  # show each line once
            self.say(f"  {told}")
        self._told = told

    def _event(self, event: dict[str, Any]) -> None:
        detail = event["detail"]
        if event["kind"] == "error":
            self._errors.append(detail.get("why", ""))
        what = [event["step"], event["target"], detail.get("condition", ""), detail.get("why", "")]
        unverified = ", recovery not verified" if detail.get("recovery_verified") is False else ""
        self.say(f"  {_EVENTS[event['kind']]}{unverified}: {', '.join(filter(None, what))}")


@contextmanager
def performed(stage: Stage, run: RunFolder, log: Callable[[str], object]) -> Iterator[None]:
    """Record and log a stage after the recording; in an object store a run keeps no stages."""
    if isinstance(run.path, Path):
        with logged(stage, run, log), stage_events(run.stages, stage.name):
            yield
    else:
        yield


@contextmanager
def logged(stage: Stage, run: RunFolder, log: Callable[[str], object]) -> Iterator[None]:
    """Write a stage's lines to a task's log while it runs."""
    progress = Progress([stage], run, lambda line: log(line.rstrip("\n")), from_now=True)
    try:
        with every(_LOOK_S, progress.look):
            yield
    finally:
        progress.look()


def rounded(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds >= 600 else f"{seconds / 60:.1f} min"
