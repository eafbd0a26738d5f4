"""Fuzzing: randomised schedules of faults until one violates a guarantee, then the smallest that still does.

The journal holds every schedule that was tried, so that fuzzing goes on where it stopped and runs nothing twice.
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
from campaigns.recording import record
from campaigns.site import publish
from clusters import experiment
from clusters.host_lock import beside_others
from clusters.rotation import Menu, as_yaml, rotation
from clusters.scenario import Scenario
from clusters.shrink import shrink
from history.errors import BadInput, EvidenceError, PlimsollError
from history.events import errors_of
from history.folder import RunFolder, write_atomically
from history.manifest import read_manifest
from spark.connection import spark_master
from spark.submit import judge

Say = Callable[[str], object]
FOLDER = "fuzz"


@dataclass(frozen=True)
class Question:
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
class RunResult:
    """What one run of a schedule showed; ``violations`` are of guarantees, S1 and not permitted."""

    digest: str
    schedule: str
    run_id: str | None
    verdict: str
    sentence: str
    violations: list[str] = field(default_factory=list)


Execute = Callable[[Sequence[Scenario]], list[RunResult]]


@dataclass(frozen=True)
class Counterexample:
    """A schedule that violates a guarantee, as drawn and as shrunk, with the result of a run of each."""

    seed: int
    drawn: Scenario
    first: RunResult
    smaller: Scenario
    last: RunResult
    is_smallest: bool


class Journal:
    """A line for each schedule that was tried; the last line of a schedule counts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, RunResult]:
        """Digest of the schedule → what its run showed."""
        with suppress(FileNotFoundError):
            lines = self._path.read_text().splitlines()
            return {result.digest: result for result in (RunResult(**json.loads(line)) for line in lines)}
        return {}

    def judged(self) -> dict[str, RunResult]:
        """The same without those whose run broke off: they are tried again."""
        return {digest: result for digest, result in self.read().items() if result.run_id}

    def add(self, result: RunResult) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def open_folder(question: Question, name: str, places: Places) -> Path:
    """The folder below ``site/fuzz``; the question is kept there, and must be the same when it is taken up again.

    Raises:
        BadInput: another question has this name, or the name is none.
    """
    spark_master(os.environ)  # refused before anything is recorded for it
    check_name(name)
    folder = places.site / FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    kept, fixed = (
        folder / "question.json",
        {"kafka": question.kafka, "seed": question.seed, "length_s": question.length_s},
    )
    if kept.exists() and json.loads(kept.read_text()) != fixed:
        raise BadInput(f"{kept} holds another question; version, seed and length never change, give a new NAME=.")
    write_atomically(kept, json.dumps(fixed))
    return folder


@dataclass(frozen=True)
class Search:
    """The search for a counterexample; ``execute`` runs and judges schedules."""

    question: Question
    menu: Menu
    journal: Journal
    execute: Execute
    say: Say

    def run(self) -> Counterexample | None:
        """Search, then shrink; None when no schedule violated a guarantee."""
        for batch in self._batches():
            results = self._results_of([schedule for _, schedule in batch])
            for (seed, schedule), result in zip(batch, results, strict=True):
                if result.violations:
                    self.say(f"seed {seed} violates {', '.join(result.violations)}: {result.sentence}")
                    return self._shrunk(seed, schedule, result)
        return None

    def schedules(self) -> Iterator[tuple[int, Scenario]]:
        """Seed and schedule, one after the other."""
        for number in range(self.question.schedules):
            seed = self.question.seed + number
            yield seed, rotation(self.menu, seed=seed, length_s=self.question.length_s, load=number % 2 == 1)

    def _batches(self) -> Iterator[list[tuple[int, Scenario]]]:
        drawn = list(self.schedules())
        for first in range(0, len(drawn), self.question.together):
            batch = drawn[first : first + self.question.together]
            self.say(f"schedules {first + 1} to {first + len(batch)} of {len(drawn)} on Kafka {self.question.kafka} …")
            yield batch

    def _results_of(self, schedules: Sequence[Scenario]) -> list[RunResult]:
        """From the journal, or by running what it does not hold yet."""
        known = self.journal.judged()
        if fresh := [each for each in schedules if each.digest not in known]:
            for result in self.execute(fresh):
                self.journal.add(result)
                known[result.digest] = result
        return [known[each.digest] for each in schedules]

    def undecided(self) -> list[RunResult]:
        """The schedules that could not be judged."""
        results = self.journal.read()
        drawn = [results[schedule.digest] for _, schedule in self.schedules() if schedule.digest in results]
        return [result for result in drawn if result.verdict == "unknown"]

    def _shrunk(self, seed: int, drawn: Scenario, first: RunResult) -> Counterexample:
        """The smallest schedule that violates one of the same guarantees, as far as the runs for it reach."""
        best, last, spent, stopped = drawn, first, 0, False

        def shows(smaller: Scenario) -> bool:
            nonlocal best, last, spent, stopped
            if smaller.digest not in self.journal.judged():
                if spent >= self.question.shrink_runs:
                    stopped = True
                    return False
                spent += 1
                self.say(f"shrinking, run {spent} of at most {self.question.shrink_runs} …")
            (result,) = self._results_of([smaller])
            shown = not {*result.violations}.isdisjoint(first.violations)
            said = "still show it" if shown else f"do not show it ({result.verdict})"
            self.say(f"  {_steps(smaller)} of {_steps(drawn)} steps {said}")
            if shown:
                best, last = smaller, result
            return shown

        shrink(drawn, shows)
        return Counterexample(seed, drawn, first, best, last, not stopped)


def _steps(schedule: Scenario) -> int:
    return sum(len(phase.steps) for phase in schedule.phases)


# --- runs ----------------------------------------------------------------------------------------------


def executor(question: Question, folder: Path, name: str, places: Places) -> Execute:
    """Records, judges and archives schedules on real brokers; one that breaks the harness shows nothing."""

    def execute(schedules: Sequence[Scenario]) -> list[RunResult]:
        before = recorded_before(name, places)
        runs = {scenario.digest: before[scenario.digest] for scenario in schedules if scenario.digest in before}
        broken: dict[str, str] = {}
        for scenario in (each for each in schedules if each.digest not in runs):
            try:
                runs[scenario.digest] = _recorded(scenario, question, folder, name, places)
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
            result_of(scenario, runs[scenario.digest])
            if scenario.digest in runs
            else RunResult(scenario.digest, scenario.name, None, "unknown", broken[scenario.digest])
            for scenario in schedules
        ]

    return execute


def recorded_before(name: str, places: Places) -> dict[str, Path]:
    """Digest of a schedule → its last run of this name, recorded to its end without an error, maybe not judged."""
    recorded = {}
    for manifest in sorted(places.runs.glob("*/manifest.json")):
        with suppress(EvidenceError):  # a folder of another format is nobody's
            about, run = read_manifest(manifest), RunFolder(manifest.parent)
            if about.labels.get("fuzz") == name and run.is_sealed and not errors_of(run):
                recorded[about.scenario_digest] = run.path
    return recorded


def _recorded(scenario: Scenario, question: Question, folder: Path, name: str, places: Places) -> Path:
    file = folder / f"{scenario.name}-{scenario.digest[:8]}.yaml"
    write_atomically(file, as_yaml(scenario))
    with beside_others():
        run = experiment.prepare(
            str(file),
            kafka=question.kafka,
            runtime=question.runtime,
            seed=question.seed,
            labels={"fuzz": name},
            runs=places.runs,
            lease="process",
        )
        record(run)
    return run


def result_of(scenario: Scenario, run: Path) -> RunResult:
    """What the judge said of a run."""
    folder = RunFolder(run)
    verdict: dict[str, Any] = json.loads(folder.verdict_file.read_text())
    return RunResult(
        digest=scenario.digest,
        schedule=scenario.name,
        run_id=run.name,
        verdict=verdict["verdict"],
        sentence=verdict["sentence"],
        violations=violations_of(folder) if verdict["verdict"] == "fail" else [],
    )


def violations_of(run: RunFolder) -> list[str]:
    """The S1 invariants and anomalies of a judged run that its configuration does not permit."""
    invariants = pq.read_table(run.judged("invariants"), columns=["invariant", "severity", "violations"]).to_pylist()
    anomalies = pq.read_table(run.judged("anomalies"), columns=["anomaly", "severity", "allowed"]).to_pylist()
    violations = {row["invariant"] for row in invariants if row["violations"] and row["severity"] == "S1"}
    violations |= {row["anomaly"] for row in anomalies if row["severity"] == "S1" and not row["allowed"]}
    return sorted(violations)


def state(counterexample: Counterexample | None, undecided: Sequence[RunResult]) -> str:
    """Fail where a guarantee was violated; unknown where a schedule could not be judged."""
    if counterexample:
        return "fail"
    return "unknown" if undecided else "pass"


def conclusion(
    counterexample: Counterexample | None,
    undecided: Sequence[RunResult],
    question: Question,
    folder: Path,
    places: Places,
) -> list[str]:
    """What a person reads at the end; the smaller schedule is kept beside the journal."""
    if counterexample is None:
        sure = question.schedules - len(undecided)
        of = f"{sure} of {question.schedules}" if undecided else str(question.schedules)
        return [
            f"No violation in {of} schedules on Kafka {question.kafka} from seed {question.seed} on.",
            *(f"{result.schedule} could not be judged: {result.sentence}" for result in undecided),
        ]
    file = folder / "smaller.yaml"
    write_atomically(file, as_yaml(counterexample.smaller))
    limit = "" if counterexample.is_smallest else f" (after {question.shrink_runs} runs it may not be the smallest)"
    return [
        f"seed: {counterexample.seed}",
        f"violations: {', '.join(counterexample.last.violations)}",
        counterexample.last.sentence,
        f"steps: {_steps(counterexample.drawn)} drawn, {_steps(counterexample.smaller)} left{limit}",
        f"schedule: {file}",
        f"run: {places.runs / str(counterexample.last.run_id)}",
        f"again: plimsoll run {file} --kafka {question.kafka}",
    ]
