"""Show a campaign's progress: a line for each run, and the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from history.folder import RunFolder
from operators.progress import Tail, rounded

if TYPE_CHECKING:
    from campaigns.campaign import CampaignFolder, Item

_WORDS = {
    "items_follow_up": "checking whether the results need more runs",
    "judge": "judging the recordings in Spark",
    "judge_follow_up": "judging the recordings in Spark",
    "conclude": "writing the result and its page",
}


class CampaignProgress:
    """Turn the events of a campaign's stages into lines.

    ``listed`` returns a round's runs (first, follow-up) that are still to be recorded; ``seconds`` estimates one.
    """

    def __init__(
        self,
        folder: CampaignFolder,
        runs: Path,
        write: Callable[[str], object],
        listed: Callable[[bool], list[Item]],
        seconds: Callable[[Item], float],
    ) -> None:
        self.running = ""
        self.torn_down = True  # each task tears down its run
        self._tail = Tail(folder.stages, from_now=True)  # a resumed campaign does not repeat its beginning
        self._runs = runs
        self._write = write
        self._listed = listed
        self._seconds = seconds
        self._began_s = time.monotonic()
        self._round: dict[str, Item] = {}
        self._round_began_s = 0.0
        self._begun: list[str] = []
        self._judging: list[str] = []
        self._judged = 0

    def look(self) -> None:
        """Print what is new."""
        for event in self._tail.events():
            kind, stage, item, detail = event["kind"], event["step"], event["target"], event["detail"]
            if kind == "stage_started":
                self._begin_stage(stage, item)
            elif kind == "stage_ended":
                self._look_at_verdicts()
                self.running, self._judging = "", []
                if stage.startswith("items"):
                    self._begin_round(follow_up=stage.endswith("follow_up"))
                if "why" in detail:
                    self.say(f"  ERROR: {item or stage}, {detail['why']}")
            elif kind == "judging":
                self._judging, self._judged = detail["runs"], 0
            elif kind == "waiting":
                self.say(f"  {detail['why']}")
        self._look_at_verdicts()

    def say(self, text: str) -> None:
        """Print a line with the time so far."""
        minutes, seconds = divmod(int(time.monotonic() - self._began_s), 60)
        self._write(f"[{minutes:02}:{seconds:02}] {text}\n")

    def _begin_stage(self, stage: str, item: str) -> None:
        self.running = f"{stage} {item}".strip()
        if item:
            self._run(item)
        elif stage in _WORDS:
            self.say(f"{_WORDS[stage]} …")

    def _look_at_verdicts(self) -> None:
        judged = sum(RunFolder(self._runs / run).verdict_file.is_file() for run in self._judging)
        if judged > self._judged:
            self.say(f"  judged {judged} of {len(self._judging)}")
            self._judged = judged

    def _begin_round(self, *, follow_up: bool) -> None:
        self._round = {item.name: item for item in self._listed(follow_up)}
        self._begun, self._round_began_s = [], time.monotonic()

    def _run(self, name: str) -> None:
        left = [item for item in self._round.values() if item.name not in self._begun]
        how_long = rounded(self._pace() * sum(map(self._seconds, left)))
        self._begun.append(name)
        item = self._round[name]
        scenario, kafka = item.changes.get("name", item.scenario), _kafka_of(item)
        self.say(
            f"run {len(self._begun)} of {len(self._round)}: {name}, {scenario} on Kafka {kafka} … "
            f"(all recorded in about {how_long})"
        )

    def _pace(self) -> float:
        """Return the ratio of actual to expected recording time."""
        expected_s = sum(self._seconds(self._round[name]) for name in self._begun)
        return (time.monotonic() - self._round_began_s) / expected_s if expected_s else 1.0


def _kafka_of(item: Item) -> str:
    """Return the requested version; for a build its name, not its jars' folder."""
    return item.labels.get("subject") or item.labels.get("build") or item.kafka
