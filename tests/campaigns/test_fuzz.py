"""Fuzzing: searched by seed, shrunk by runs, and taken up where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from campaigns import fuzz
from campaigns.fuzz import Counterexample, Journal, Question, RunResult, Search
from campaigns.places import Places
from clusters.rotation import Menu
from clusters.scenario import Scenario, parse_scenario
from history.errors import BadInput
from history.folder import RunFolder
from history.tables import ANOMALIES, INVARIANTS
from tests.campaigns.sample_runs import sealed_run

MENU = Menu.model_validate(
    {
        "cluster": {"brokers": 2},
        "topics": {"orders": {"replicas": ["A", "B"]}},
        "load": {"topic": "orders"},
        "quiet": "1s..2s",
        "faults": {
            "freeze": {"steps": [{"pause": "A"}, {"hold": "1s..2s"}, {"resume": "A"}]},
            "kill": {"steps": [{"kill": "A"}, {"hold": "1s..2s"}, {"start": "A"}]},
        },
    }
)


class Cluster:
    """Breaks I10 whenever B's colleague A is killed, and I4 with it in schedules of more than two steps."""

    def __init__(self) -> None:
        self.executed: list[Scenario] = []

    def __call__(self, schedules: Sequence[Scenario]) -> list[RunResult]:
        self.executed += schedules
        return [self._result(one) for one in schedules]

    def _result(self, schedule: Scenario) -> RunResult:
        keys = [step.key for phase in schedule.phases for step in phase.steps]
        violations = ["I10"] * ("kill" in keys) + ["I4"] * ("kill" in keys and len(keys) > 2)
        return RunResult(
            schedule.digest,
            schedule.name,
            f"run-{schedule.digest[:4]}",
            "fail" if violations else "pass",
            "It broke.",
            violations,
        )


def question(**change: Any) -> Question:
    """A small fuzz."""
    return Question(**{"kafka": "3.0.2", "schedules": 12, "seed": 1, "length_s": 12.0, "together": 2, **change})


def searched(
    journal: Path, execute: Cluster, say: Callable[[str], object], menu: Menu = MENU, **change: Any
) -> Counterexample | None:
    """What such a search finds."""
    return Search(question(**change), menu, Journal(journal), execute, say).run()


def schedules(**change: Any) -> list[tuple[int, Scenario]]:
    """What it draws."""
    return list(Search(question(**change), MENU, Journal(Path()), Cluster(), print).schedules())


def test_what_is_found_is_shrunk_to_the_one_step(tmp_path: Path) -> None:
    """One of the guarantees that the drawn schedule violated is enough; the seed makes that schedule again."""
    said: list[str] = []
    counterexample = searched(tmp_path / "journal.jsonl", Cluster(), said.append)

    assert counterexample is not None
    assert [step.key for phase in counterexample.smaller.phases for step in phase.steps] == ["kill"]
    assert (counterexample.first.violations, counterexample.last.violations, counterexample.is_smallest) == (
        ["I10", "I4"],
        ["I10"],
        True,
    )
    assert dict(schedules())[counterexample.seed] == counterexample.drawn
    assert any(line.startswith(f"seed {counterexample.seed} violates I10, I4") for line in said)


def test_no_violation_is_no_counterexample(tmp_path: Path) -> None:
    """Every schedule is tried once, and no more."""
    menu = MENU.model_copy(update={"faults": {"freeze": MENU.faults["freeze"]}})
    cluster = Cluster()

    assert searched(tmp_path / "journal.jsonl", cluster, lambda _: None, menu=menu) is None
    assert len({schedule.digest for schedule in cluster.executed}) == len(cluster.executed) == 12


def test_every_second_schedule_has_no_load() -> None:
    """What shows only at rest needs one that writes nothing by itself."""
    assert [schedule.load is None for _, schedule in schedules()] == [True, False] * 6


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What stands in the journal is not run again, neither in the search nor in the shrinking."""
    first, again = Cluster(), Cluster()
    before = searched(tmp_path / "journal.jsonl", first, lambda _: None)
    after = searched(tmp_path / "journal.jsonl", again, lambda _: None)

    assert first.executed
    assert not again.executed
    assert after == before


def test_shrinking_ends_at_its_limit(tmp_path: Path) -> None:
    """The smallest so far is kept, and it is said that it may not be the smallest."""
    search = Cluster()
    searched(tmp_path / "a.jsonl", search, lambda _: None, shrink_runs=0)
    cluster = Cluster()
    counterexample = searched(tmp_path / "b.jsonl", cluster, lambda _: None, shrink_runs=2)

    assert counterexample is not None
    assert not counterexample.is_smallest
    assert len(cluster.executed) == len(search.executed) + 2
    assert "kill" in {step.key for phase in counterexample.smaller.phases for step in phase.steps}


def test_the_end_tells_seed_and_schedule(tmp_path: Path) -> None:
    """The smaller schedule is a scenario file."""
    places = Places(tmp_path / "runs", tmp_path / "archive", tmp_path / "site")
    counterexample = searched(tmp_path / "journal.jsonl", Cluster(), lambda _: None)
    assert counterexample is not None
    lines = fuzz.conclusion(counterexample, [], question(), tmp_path, places)

    assert lines[:3] == [f"seed: {counterexample.seed}", "violations: I10", "It broke."]
    assert lines[-1] == f"again: plimsoll run {tmp_path}/smaller.yaml --kafka 3.0.2"
    assert parse_scenario((tmp_path / "smaller.yaml").read_text(), "x").digest == counterexample.smaller.digest
    assert yaml.safe_load((tmp_path / "smaller.yaml").read_text())["phases"][0].popitem()[1] == [
        {"kill": {"node": "A"}}
    ]
    assert fuzz.conclusion(None, [], question(), tmp_path, places) == [
        "No violation in 12 schedules on Kafka 3.0.2 from seed 1 on."
    ]


class Broken(Cluster):
    """Its first schedule breaks the harness, the second has no verdict; the others violate nothing."""

    def _result(self, schedule: Scenario) -> RunResult:
        number = self.executed.index(schedule)
        run = None if number == 0 else f"run-{number}"
        return RunResult(schedule.digest, schedule.name, run, "unknown" if number < 2 else "pass", f"Result {number}.")


def test_what_could_not_be_judged_is_no_pass(tmp_path: Path) -> None:
    """It is named with its reason; only what broke the harness is tried again when the search goes on."""
    places = Places(tmp_path / "runs", tmp_path / "archive", tmp_path / "site")
    again = Cluster()
    search, resumed = (
        Search(question(), MENU, Journal(tmp_path / "journal.jsonl"), cluster, print) for cluster in (Broken(), again)
    )
    search.run()
    undecided = search.undecided()

    assert [result.sentence for result in undecided] == ["Result 0.", "Result 1."]
    assert (fuzz.state(None, undecided), fuzz.state(None, [])) == ("unknown", "pass")
    lines = fuzz.conclusion(None, undecided, question(), tmp_path, places)
    assert lines[0] == "No violation in 10 of 12 schedules on Kafka 3.0.2 from seed 1 on."
    assert lines[1].endswith("could not be judged: Result 0.")
    resumed.run()
    assert [schedule.digest for schedule in again.executed][:1] == [schedules()[0][1].digest]
    assert "run-1" in {result.run_id for result in Journal(tmp_path / "journal.jsonl").read().values()}


def test_a_search_keeps_its_question(tmp_path: Path) -> None:
    """The same question may go on with more schedules; another one needs another name."""
    places = Places(tmp_path / "runs", tmp_path / "archive", tmp_path / "site")
    folder = fuzz.open_folder(question(), "h", places)

    assert fuzz.open_folder(question(schedules=99), "h", places) == folder
    with pytest.raises(BadInput, match="holds another question"):
        fuzz.open_folder(question(seed=2), "h", places)
    with pytest.raises(BadInput, match=r"NAME=\.\./h is no name of a folder"):
        fuzz.open_folder(question(), "../h", places)


def test_only_guarantees_count(tmp_path: Path) -> None:
    """S1, violated and not permitted; each beside its near miss."""
    run = RunFolder(tmp_path)
    run.verdict.mkdir()
    rows = [("I10", "S1", 2), ("I4", "S1", 0), ("I22", "S2", 1)]
    invariants = [
        {"invariant": name, "title": "", "severity": severity, "checked": 3, "violations": count, "verdict": "fail"}
        for name, severity, count in rows
    ]
    pq.write_table(pa.Table.from_pylist(invariants, schema=INVARIANTS), run.judged("invariants"))
    usual = {"topic": "orders", "partition": 0, "story": "", "evidence": "{}"}
    cases = [("lost_write", "S1", False), ("duplicate", "S1", True), ("behaviour_change", "S2", False)]
    anomalies = [{**usual, "anomaly": name, "severity": severity, "allowed": ok} for name, severity, ok in cases]
    pq.write_table(pa.Table.from_pylist(anomalies, schema=ANOMALIES), run.judged("anomalies"))

    assert fuzz.violations_of(run) == ["I10", "lost_write"]


def test_the_result_of_a_run_is_the_judges(tmp_path: Path) -> None:
    """A run that passed or has no verdict violates nothing."""
    run = RunFolder(tmp_path / "run-1")
    run.verdict.mkdir(parents=True)
    (schedule,) = [scenario for _, scenario in schedules(schedules=1)]
    run.verdict_file.write_text(json.dumps({"verdict": "unknown", "sentence": "No seal."}))

    assert fuzz.result_of(schedule, run.path) == RunResult(
        schedule.digest, schedule.name, "run-1", "unknown", "No seal.", []
    )


@pytest.mark.parametrize("broke", [False, True])
def test_a_run_that_broke_is_made_again(places: Places, broke: bool) -> None:
    """One that came to its end is judged when the search goes on."""
    run = sealed_run(places, "x", broke=broke)
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"labels": {"fuzz": "h"}}))

    assert fuzz.recorded_before("h", places) == ({} if broke else {manifest["scenario_digest"]: run.path})
    assert fuzz.recorded_before("g", places) == {}
