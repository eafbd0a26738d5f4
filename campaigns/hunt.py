"""A hunt: random schedules of faults on a version of Kafka until a promise is broken, then the smallest that breaks it.

Every schedule that was tried stands in the hunt's notebook, so that a hunt goes on where it stopped and asks nothing
twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from campaigns.campaign import check_name
from campaigns.places import Places
from campaigns.recording import first_of_each
from campaigns.site import publish
from clusters.run import experiment
from clusters.run.host_lock import beside_others
from clusters.run.recorder import record
from clusters.scenario.scenario import Scenario
from clusters.scenario.schedules import Menu, as_yaml, rotation
from clusters.scenario.shrink import shrink
from history.errors import BadInput, EvidenceError, PlimsollError
from history.events import errors_of
from history.folder import RunFolder, write_atomically
from history.manifest import read_manifest
from spark.connection import spark_master
from spark.submit import judge

Say = Callable[[str], object]
FOLDER = "hunts"


@dataclass(frozen=True)
class Asked:
    """``schedules`` are drawn by ``seed`` and those after it, each about ``length_s`` long; every second one is without
    load, so that nothing is written but by its own steps. No more than ``shrink_runs`` runs are spent on shrinking.
    """

    kafka: str
    schedules: int
    seed: int
    length_s: float = 90.0
    shrink_runs: int = 40
    together: int = 3  # schedules that one Spark application judges
    runtime: str = "auto"


@dataclass(frozen=True)
class Look:
    """What one run of a schedule showed; ``found`` are the promises that it broke, S1 and not permitted."""

    digest: str
    schedule: str
    run_id: str | None
    verdict: str
    sentence: str
    found: list[str] = field(default_factory=list)


Examine = Callable[[Sequence[Scenario]], list[Look]]


@dataclass(frozen=True)
class Catch:
    """What a hunt brought home: the schedule that was drawn, the smaller one, and a look at each."""

    seed: int
    drawn: Scenario
    first: Look
    smaller: Scenario
    last: Look
    is_smallest: bool


class Notebook:
    """A line for each schedule that was tried; the last line of a schedule counts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Look]:
        """Digest of the schedule → what its run showed."""
        with suppress(FileNotFoundError):
            lines = self._path.read_text().splitlines()
            return {look.digest: look for look in (Look(**json.loads(line)) for line in lines)}
        return {}

    def judged(self) -> dict[str, Look]:
        """The same without those whose run broke off: they are tried again."""
        return {digest: look for digest, look in self.read().items() if look.run_id}

    def add(self, look: Look) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(look)) + "\n")


def open_folder(asked: Asked, name: str, places: Places) -> Path:
    """The hunt's folder; what was asked is kept there, and must be the same when it is taken up again.

    Raises:
        BadInput: another hunt has this name, or the name is none.
    """
    spark_master(os.environ)  # refused before anything is recorded for it
    check_name(name)
    folder = places.site / FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    kept, told = folder / "asked.json", {"kafka": asked.kafka, "seed": asked.seed, "length_s": asked.length_s}
    if kept.exists() and json.loads(kept.read_text()) != told:
        raise BadInput(f"{kept} holds another hunt; version, seed and length never change, give a new NAME.")
    write_atomically(kept, json.dumps(told))
    return folder


@dataclass(frozen=True)
class Hunt:
    """What is asked, and how a schedule is looked at."""

    asked: Asked
    menu: Menu
    notebook: Notebook
    examine: Examine
    say: Say

    def run(self) -> Catch | None:
        """Search, then shrink; None when no schedule broke a promise."""
        for batch in self._batches():
            looks = self._looks_at([told for _, told in batch])
            for (seed, told), look in zip(batch, looks, strict=True):
                if look.found:
                    self.say(f"seed {seed} found {', '.join(look.found)}: {look.sentence}")
                    return self._shrunk(seed, told, look)
        return None

    def schedules(self) -> Iterator[tuple[int, Scenario]]:
        """Seed and schedule, one after the other."""
        for number in range(self.asked.schedules):
            seed = self.asked.seed + number
            yield seed, rotation(self.menu, seed=seed, length_s=self.asked.length_s, load=number % 2 == 1)

    def _batches(self) -> Iterator[list[tuple[int, Scenario]]]:
        drawn = list(self.schedules())
        for first in range(0, len(drawn), self.asked.together):
            batch = drawn[first : first + self.asked.together]
            self.say(f"schedules {first + 1} to {first + len(batch)} of {len(drawn)} on Kafka {self.asked.kafka} …")
            yield batch

    def _looks_at(self, told: Sequence[Scenario]) -> list[Look]:
        """By the notebook, or by running what does not stand there yet."""
        known = self.notebook.judged()
        if fresh := [each for each in told if each.digest not in known]:
            for look in self.examine(fresh):
                self.notebook.add(look)
                known[look.digest] = look
        return [known[each.digest] for each in told]

    def undecided(self) -> list[Look]:
        """The schedules of which nothing can be said, neither that they break a promise nor that they do not."""
        looks = self.notebook.read()
        drawn = [looks[told.digest] for _, told in self.schedules() if told.digest in looks]
        return [look for look in drawn if look.verdict == "unknown"]

    def _shrunk(self, seed: int, drawn: Scenario, first: Look) -> Catch:
        """The smallest schedule that breaks one of the same promises, as far as the runs for it reach."""
        best, last, spent, stopped = drawn, first, 0, False

        def shows(smaller: Scenario) -> bool:
            nonlocal best, last, spent, stopped
            if smaller.digest not in self.notebook.judged():
                if spent >= self.asked.shrink_runs:
                    stopped = True
                    return False
                spent += 1
                self.say(f"shrinking, run {spent} of at most {self.asked.shrink_runs} …")
            (look,) = self._looks_at([smaller])
            shown = not {*look.found}.isdisjoint(first.found)
            said = "still find it" if shown else f"do not find it ({look.verdict})"
            self.say(f"  {_steps(smaller)} of {_steps(drawn)} steps {said}")
            if shown:
                best, last = smaller, look
            return shown

        shrink(drawn, shows)
        return Catch(seed, drawn, first, best, last, not stopped)


def _steps(told: Scenario) -> int:
    return sum(len(phase.steps) for phase in told.phases)


# --- runs ----------------------------------------------------------------------------------------------


def examiner(asked: Asked, folder: Path, name: str, places: Places) -> Examine:
    """Records, judges and archives schedules on real brokers; one that breaks the harness shows nothing."""

    def examine(told: Sequence[Scenario]) -> list[Look]:
        before = recorded_before(name, places)
        runs = {scenario.digest: before[scenario.digest] for scenario in told if scenario.digest in before}
        broken: dict[str, str] = {}
        for scenario in (each for each in told if each.digest not in runs):
            try:
                runs[scenario.digest] = _recorded(scenario, asked, folder, name, places)
            except BadInput:
                raise
            except PlimsollError as error:
                broken[scenario.digest] = str(error)
        if runs:
            with beside_others():
                judge(list(runs.values()))
        for run in runs.values():
            publish(run)
        return [
            look_of(scenario, runs[scenario.digest])
            if scenario.digest in runs
            else Look(scenario.digest, scenario.name, None, "unknown", broken[scenario.digest])
            for scenario in told
        ]

    return examine


def recorded_before(name: str, places: Places) -> dict[str, Path]:
    """Digest of a schedule → its first run of this hunt that came to its end without an error, maybe not judged."""
    return first_of_each(_whole_runs(name, places))


def _whole_runs(name: str, places: Places) -> Iterator[tuple[str, Path]]:
    for manifest in sorted(places.runs.glob("*/manifest.json")):
        with suppress(EvidenceError):  # a folder of another format is nobody's
            told, run = read_manifest(manifest), RunFolder(manifest.parent)
            if told.labels.get("hunt") == name and run.is_sealed and not errors_of(run):
                yield told.scenario_digest, run.path


def _recorded(scenario: Scenario, asked: Asked, folder: Path, name: str, places: Places) -> Path:
    file = folder / f"{scenario.name}-{scenario.digest[:8]}.yaml"
    write_atomically(file, as_yaml(scenario))
    with beside_others():
        run = experiment.prepare(
            str(file),
            kafka=asked.kafka,
            runtime=asked.runtime,
            seed=asked.seed,
            labels={"hunt": name},
            runs=places.runs,
            lease="process",
        )
        record(run)
    return run


def look_of(scenario: Scenario, run: Path) -> Look:
    """What the judge said of a run."""
    folder = RunFolder(run)
    verdict: dict[str, Any] = json.loads(folder.verdict_file.read_text())
    return Look(
        digest=scenario.digest,
        schedule=scenario.name,
        run_id=run.name,
        verdict=verdict["verdict"],
        sentence=verdict["sentence"],
        found=broken_promises(folder) if verdict["verdict"] == "fail" else [],
    )


def broken_promises(run: RunFolder) -> list[str]:
    """The S1 invariants and anomalies of a judged run that its configuration does not permit."""
    invariants = pq.read_table(run.judged("invariants"), columns=["invariant", "severity", "violations"]).to_pylist()
    anomalies = pq.read_table(run.judged("anomalies"), columns=["anomaly", "severity", "allowed"]).to_pylist()
    found = {row["invariant"] for row in invariants if row["violations"] and row["severity"] == "S1"}
    found |= {row["anomaly"] for row in anomalies if row["severity"] == "S1" and not row["allowed"]}
    return sorted(found)


def state(catch: Catch | None, undecided: Sequence[Look]) -> str:
    """Fail where a promise was broken; unknown where a schedule could not be judged."""
    if catch:
        return "fail"
    return "unknown" if undecided else "pass"


def conclusion(catch: Catch | None, undecided: Sequence[Look], asked: Asked, folder: Path, places: Places) -> list[str]:
    """What a person reads at the end; the smaller schedule is kept beside the notebook."""
    if catch is None:
        sure = asked.schedules - len(undecided)
        of = f"{sure} of {asked.schedules}" if undecided else str(asked.schedules)
        return [
            f"Nothing was found in {of} schedules on Kafka {asked.kafka} from seed {asked.seed} on.",
            *(f"{look.schedule} could not be judged: {look.sentence}" for look in undecided),
        ]
    file = folder / "smaller.yaml"
    write_atomically(file, as_yaml(catch.smaller))
    limit = "" if catch.is_smallest else f" (after {asked.shrink_runs} runs it may not be the smallest)"
    return [
        f"seed: {catch.seed}",
        f"found: {', '.join(catch.last.found)}",
        catch.last.sentence,
        f"steps: {_steps(catch.drawn)} drawn, {_steps(catch.smaller)} left{limit}",
        f"schedule: {file}",
        f"run: {places.runs / str(catch.last.run_id)}",
        f"again: make run SCENARIO={file} KAFKA={asked.kafka}",
    ]
