"""Show a campaign's progress: a line for each run, and the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from history.folder import RunFolder
from service.progress import Tail, rounded

if TYPE_CHECKING:
    from campaigns.campaign import CampaignFolder, Item

_WORDS = {
    "judge": "judging the recordings in Spark",
    "next_round": "checking whether the results need more runs",
    "conclude": "writing the result and its page",
}


class CampaignProgress:
    """Turn the events of a campaign's stages into lines.

    ``item_of`` finds an item by name; ``seconds`` estimates its run.
    """

    def __init__(
        self,
        folder: CampaignFolder,
        runs: Path,
        write: Callable[[str], object],
        item_of: Callable[[str], Item],
        seconds: Callable[[Item], float],
    ) -> None:
        self.running = ""
        self._tail = Tail(folder.stages, from_now=True)  # a resumed campaign does not repeat its beginning
        self._runs = runs
        self._write = write
        self._item_of = item_of
        self._seconds = seconds
        self._began_s = time.monotonic()
        self._round: dict[str, Item] = {}
        self._round_began_s = 0.0
        self._begun: set[str] = set()
        self._at_work: list[str] = []
        self._ended: list[str] = []
        self._judging: list[str] = []
        self._judged = 0
        self._old_runs = self._folders()
        self._tails: dict[Path, Tail] = {}

    def look(self) -> None:
        for event in self._tail.events():
            kind, stage, item, detail = event["kind"], event["step"], event["target"], event["detail"]
            if kind == "stage_started":
                self._begin_stage(stage, item)
            elif kind == "stage_ended":
                self._look_at_verdicts()
                self._judging = []
                self._end(item)
                if "why" in detail:
                    self.say(f"  ERROR: {item or stage}, {detail['why']}")
                elif self._at_work:
                    self.say(f"  {item} ended, {len(self._ended)} of {len(self._round)}; all in about {self._left()}")
            elif kind == "round":
                self._begin_round(detail["items"])
            elif kind == "judging":
                self._judging, self._judged = detail["runs"], 0
            elif kind in ("waiting", "decision"):
                self.say(f"  {detail['why']}")
        self._look_at_verdicts()
        self._look_for_requests()

    def _folders(self) -> set[Path]:
        return {path for path in self._runs.iterdir() if path.is_dir()} if self._runs.is_dir() else set()

    def _look_for_requests(self) -> None:
        """Show what a run asks of a cluster's owner; in plans without clusters of others, none does."""
        if not any(item.cluster for item in self._round.values()):
            return
        for run in self._folders() - self._old_runs - self._tails.keys():
            self._tails[run] = Tail(RunFolder(run).events)
        for event in (event for tail in self._tails.values() for event in tail.events()):
            if event["kind"] == "owner_asked":
                self.say(f"  YOUR TURN: {event['detail']['why']}")

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began_s), 60)
        self._write(f"[{minutes:02}:{seconds:02}] {text}\n")

    def _begin_stage(self, stage: str, item: str) -> None:
        if item:
            self._run(item)
        elif stage in _WORDS:
            self.say(f"{_WORDS[stage]} …")
        self.running = ", ".join(self._at_work) or stage

    def _end(self, item: str) -> None:
        if item in self._at_work:
            self._at_work.remove(item)
            self._ended.append(item)
        self.running = ", ".join(self._at_work)

    def _look_at_verdicts(self) -> None:
        judged = sum(RunFolder(self._runs / run).verdict_file.is_file() for run in self._judging)
        if judged > self._judged:
            self.say(f"  judged {judged} of {len(self._judging)}")
            self._judged = judged

    def _begin_round(self, names: Sequence[str]) -> None:
        self._round = {name: self._item_of(name) for name in names}
        self._begun, self._at_work, self._ended, self._round_began_s = set(), [], [], time.monotonic()

    def _run(self, name: str) -> None:
        self._round.setdefault(name, self._item_of(name))  # of a task that was cleared
        if name in self._ended:
            self._ended.remove(name)
        how_long = "" if self._at_work else f" (all recorded in about {self._left()})"
        again = "once more, " if name in self._begun else ""
        self._at_work.append(name)
        self._begun.add(name)
        item, number = self._round[name], len(self._begun)
        scenario = item.changes.get("name", item.scenario)
        self.say(f"run {number} of {len(self._round)}: {again}{name}, {scenario} on {_place(item)} …{how_long}")

    def _left(self) -> str:
        """Return how long the other runs take at the pace of those that have ended."""
        ended_s = sum(self._seconds(self._round[name]) for name in self._ended)
        left_s = sum(self._seconds(item) for item in self._round.values() if item.name not in self._ended)
        return rounded((time.monotonic() - self._round_began_s) / ended_s * left_s if ended_s else left_s)


def _place(item: Item) -> str:
    """Return the requested version, a build's or a cluster's name."""
    build = item.labels.get("subject") or item.labels.get("build")
    return f"Kafka {build}" if build and not item.cluster else item.runs_on
