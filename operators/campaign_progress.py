"""What a person sees while a campaign goes on: one line for each run, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from operators.progress import Tail, rounded, task_in

if TYPE_CHECKING:
    from campaigns.campaign import Item

_WORDS = {
    "items_follow_up": "looking whether the results need more runs",
    "judge": "judging what was recorded, in Spark",
    "judge_follow_up": "judging what was recorded, in Spark",
    "conclude": "writing the result and its page",
}


class CampaignProgress:
    """Turns the growing log of ``airflow dags test`` into lines for a person.

    ``listed`` gives the runs of a round (first, follow-up) that are still to be recorded, ``seconds`` how long one is
    expected to take; both are asked when the round's first run starts.
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
        self._round: list[Item] = []
        self._round_began_s = 0.0

    def look(self) -> None:
        """Say what is new."""
        for line in self._log.lines():
            if found := task_in(line):
                self._task(*found)

    def say(self, text: str) -> None:
        """Write one line with the time that the campaign has taken so far."""
        minutes, seconds = divmod(int(time.monotonic() - self._began_s), 60)
        self._write(f"[{minutes:02}:{seconds:02}] {text}\n")

    def _task(self, what: str, task_id: str, index: int) -> None:
        self.running = f"{task_id}[{index}]" if what == "starting" else ""
        if what != "starting":
            return
        if task_id.startswith("record"):
            self._run(index, follow_up=task_id.endswith("follow_up"))
        elif task_id in _WORDS:
            self.say(f"{_WORDS[task_id]} …")

    def _run(self, index: int, *, follow_up: bool) -> None:
        if index == 0:
            self._round, self._round_began_s = self._listed(follow_up), time.monotonic()
        item = self._round[index]
        left = rounded(self._pace(index) * sum(self._seconds(other) for other in self._round[index:]))
        self.say(
            f"run {index + 1} of {len(self._round)}: {item.name}, {item.scenario} on Kafka {item.kafka} … "
            f"(all recorded in about {left})"
        )

    def _pace(self, done: int) -> float:
        """How much longer the recorded runs took than was expected of them."""
        expected_s = sum(self._seconds(item) for item in self._round[:done])
        return (time.monotonic() - self._round_began_s) / expected_s if expected_s else 1.0
