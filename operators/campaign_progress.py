"""What a person sees while a campaign goes on: one line for each run, and how long the rest will take."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clusters.host_lock import WAITING
from operators.progress import Tail, rounded, task_in

if TYPE_CHECKING:
    from campaigns.campaign import Item

RECORDING = "recording item"  # what the step says, because a mapped task is named by its number alone
_WORDS = {
    "items_follow_up": "looking whether the results need more runs",
    "judge": "judging what was recorded, in Spark",
    "judge_follow_up": "judging what was recorded, in Spark",
    "conclude": "writing the result and its page",
}


class CampaignProgress:
    """Turns the growing log of ``airflow dags test`` into lines for a person.

    ``listed`` gives the runs of a round (first, follow-up) that are still to be recorded; ``seconds`` says how long one
    is expected to take.
    """

    def __init__(
        self,
        log: Path,
        write: Callable[[str], object],
        listed: Callable[[bool], list[Item]],
        seconds: Callable[[Item], float],
    ) -> None:
        self.running = ""
        self.torn_down = True  # each run removes itself within its task
        self._log = Tail(log)
        self._write = write
        self._listed = listed
        self._seconds = seconds
        self._began_s = time.monotonic()
        self._round: dict[str, Item] = {}
        self._round_task = ""
        self._round_began_s = 0.0
        self._begun: list[str] = []

    def look(self) -> None:
        """Say what is new."""
        for line in self._log.lines():
            if found := task_in(line):
                self._task(*found)
            elif taken := re.search(rf"{RECORDING} ([a-z0-9._-]+)", line):
                self._run(taken[1])
            elif waits := re.search(rf"{WAITING} [^\[]+", line):
                self.say(f"  {waits[0].strip()}")
            elif judged := re.search(r"judged \d+ of \d+$", line):
                self.say(f"  {judged[0]}")

    def say(self, text: str) -> None:
        """Write one line with the time that the campaign has taken so far."""
        minutes, seconds = divmod(int(time.monotonic() - self._began_s), 60)
        self._write(f"[{minutes:02}:{seconds:02}] {text}\n")

    def _task(self, what: str, task_id: str, index: int) -> None:
        self.running = f"{task_id}[{index}]" if what == "starting" else ""
        if what != "starting":
            return
        if task_id.startswith("record"):
            self._enter(task_id)
        elif task_id in _WORDS:
            self.say(f"{_WORDS[task_id]} …")

    def _enter(self, task_id: str) -> None:
        if task_id != self._round_task:
            self._round = {item.name: item for item in self._listed(task_id.endswith("follow_up"))}
            self._round_task, self._begun, self._round_began_s = task_id, [], time.monotonic()

    def _run(self, name: str) -> None:
        left = [item for item in self._round.values() if item.name not in self._begun]
        how_long = rounded(self._pace() * sum(map(self._seconds, left)))
        self._begun.append(name)
        item = self._round[name]
        scenario = item.changes.get("name", item.scenario)
        self.say(
            f"run {len(self._begun)} of {len(self._round)}: {name}, {scenario} on Kafka {item.kafka} … "
            f"(all recorded in about {how_long})"
        )

    def _pace(self) -> float:
        """How much longer the recorded runs took than was expected of them."""
        expected_s = sum(self._seconds(self._round[name]) for name in self._begun)
        return (time.monotonic() - self._round_began_s) / expected_s if expected_s else 1.0
