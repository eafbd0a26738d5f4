"""A hunt: searched by seed, shrunk by looks, and taken up where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from campaigns import hunt
from campaigns.hunt import Asked, Catch, Hunt, Look, Notebook
from campaigns.places import Places
from clusters.scenario.scenario import Scenario, parse_scenario
from clusters.scenario.schedules import Menu
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
        self.asked: list[Scenario] = []

    def __call__(self, told: Sequence[Scenario]) -> list[Look]:
        self.asked += told
        return [self._look(one) for one in told]

    def _look(self, told: Scenario) -> Look:
        keys = [step.key for phase in told.phases for step in phase.steps]
        found = ["I10"] * ("kill" in keys) + ["I4"] * ("kill" in keys and len(keys) > 2)
        return Look(told.digest, told.name, f"run-{told.digest[:4]}", "fail" if found else "pass", "It broke.", found)


def asked(**change: Any) -> Asked:
    """A small hunt."""
    return Asked(**{"kafka": "3.0.2", "schedules": 12, "seed": 1, "length_s": 12.0, "together": 2, **change})


def a_hunt(
    notebook: Path, examine: Cluster, say: Callable[[str], object], menu: Menu = MENU, **change: Any
) -> Catch | None:
    """What such a hunt catches."""
    return Hunt(asked(**change), menu, Notebook(notebook), examine, say).run()


def schedules(**change: Any) -> list[tuple[int, Scenario]]:
    """What it draws."""
    return list(Hunt(asked(**change), MENU, Notebook(Path()), Cluster(), print).schedules())


def test_what_is_found_is_shrunk_to_the_one_step(tmp_path: Path) -> None:
    """One of the promises that the drawn schedule broke is enough; the seed makes that schedule again."""
    said: list[str] = []
    catch = a_hunt(tmp_path / "looks.jsonl", Cluster(), said.append)

    assert catch is not None
    assert [step.key for phase in catch.smaller.phases for step in phase.steps] == ["kill"]
    assert (catch.first.found, catch.last.found, catch.is_smallest) == (["I10", "I4"], ["I10"], True)
    assert dict(schedules())[catch.seed] == catch.drawn
    assert any(line.startswith(f"seed {catch.seed} found I10, I4") for line in said)


def test_nothing_found_is_nothing_caught(tmp_path: Path) -> None:
    """Every schedule is tried once, and no more."""
    menu = MENU.model_copy(update={"faults": {"freeze": MENU.faults["freeze"]}})
    cluster = Cluster()

    assert a_hunt(tmp_path / "looks.jsonl", cluster, lambda _: None, menu=menu) is None
    assert len({told.digest for told in cluster.asked}) == len(cluster.asked) == 12


def test_every_second_schedule_has_no_load() -> None:
    """What shows only at rest needs one that writes nothing by itself."""
    assert [told.load is None for _, told in schedules()] == [True, False] * 6


def test_a_hunt_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What stands in the notebook is not run again, neither in the search nor in the shrinking."""
    first, again = Cluster(), Cluster()
    before = a_hunt(tmp_path / "looks.jsonl", first, lambda _: None)
    after = a_hunt(tmp_path / "looks.jsonl", again, lambda _: None)

    assert first.asked
    assert not again.asked
    assert after == before


def test_shrinking_ends_at_its_limit(tmp_path: Path) -> None:
    """The smallest so far is kept, and it is said that it may not be the smallest."""
    search = Cluster()
    a_hunt(tmp_path / "a.jsonl", search, lambda _: None, shrink_runs=0)
    cluster = Cluster()
    catch = a_hunt(tmp_path / "b.jsonl", cluster, lambda _: None, shrink_runs=2)

    assert catch is not None
    assert not catch.is_smallest
    assert len(cluster.asked) == len(search.asked) + 2
    assert "kill" in {step.key for phase in catch.smaller.phases for step in phase.steps}


def test_the_end_tells_seed_and_schedule(tmp_path: Path) -> None:
    """The smaller schedule is a scenario file."""
    places = Places(tmp_path / "runs", tmp_path / "archive", tmp_path / "site")
    catch = a_hunt(tmp_path / "looks.jsonl", Cluster(), lambda _: None)
    assert catch is not None
    lines = hunt.conclusion(catch, [], asked(), tmp_path, places)

    assert lines[:3] == [f"seed: {catch.seed}", "found: I10", "It broke."]
    assert lines[-1] == f"again: make run SCENARIO={tmp_path}/smaller.yaml KAFKA=3.0.2"
    assert parse_scenario((tmp_path / "smaller.yaml").read_text(), "x").digest == catch.smaller.digest
    assert yaml.safe_load((tmp_path / "smaller.yaml").read_text())["phases"][0].popitem()[1] == [
        {"kill": {"node": "A"}}
    ]
    assert hunt.conclusion(None, [], asked(), tmp_path, places) == [
        "Nothing was found in 12 schedules on Kafka 3.0.2 from seed 1 on."
    ]


class Broken(Cluster):
    """Its first schedule breaks the harness, the second has no verdict; the others keep all promises."""

    def _look(self, told: Scenario) -> Look:
        number = self.asked.index(told)
        run = None if number == 0 else f"run-{number}"
        return Look(told.digest, told.name, run, "unknown" if number < 2 else "pass", f"Look {number}.")


def test_what_could_not_be_judged_is_no_pass(tmp_path: Path) -> None:
    """It is told with its reason; what broke the harness is tried again when the hunt goes on, and nothing else is."""
    places = Places(tmp_path / "runs", tmp_path / "archive", tmp_path / "site")
    again = Cluster()
    search, resumed = (
        Hunt(asked(), MENU, Notebook(tmp_path / "looks.jsonl"), cluster, print) for cluster in (Broken(), again)
    )
    search.run()
    undecided = search.undecided()

    assert [look.sentence for look in undecided] == ["Look 0.", "Look 1."]
    assert (hunt.state(None, undecided), hunt.state(None, [])) == ("unknown", "pass")
    lines = hunt.conclusion(None, undecided, asked(), tmp_path, places)
    assert lines[0] == "Nothing was found in 10 of 12 schedules on Kafka 3.0.2 from seed 1 on."
    assert lines[1].endswith("could not be judged: Look 0.")
    resumed.run()
    assert [told.digest for told in again.asked][:1] == [schedules()[0][1].digest]
    assert "run-1" in {look.run_id for look in Notebook(tmp_path / "looks.jsonl").read().values()}


def test_a_hunt_keeps_what_was_asked(tmp_path: Path) -> None:
    """The same question may go on with more schedules; another one needs another name."""
    places = Places(tmp_path / "runs", tmp_path / "archive", tmp_path / "site")
    folder = hunt.open_folder(asked(), "h", places)

    assert hunt.open_folder(asked(schedules=99), "h", places) == folder
    with pytest.raises(BadInput, match="holds another hunt"):
        hunt.open_folder(asked(seed=2), "h", places)
    with pytest.raises(BadInput, match=r"NAME=\.\./h is no name of a folder"):
        hunt.open_folder(asked(), "../h", places)


def test_only_promises_count(tmp_path: Path) -> None:
    """S1, violated and not permitted; each beside its near miss."""
    run = RunFolder(tmp_path)
    run.verdict.mkdir()
    rows = [("I10", "S1", 2), ("I4", "S1", 0), ("I22", "S2", 1)]
    told = [
        {"invariant": name, "title": "", "severity": severity, "checked": 3, "violations": count, "verdict": "fail"}
        for name, severity, count in rows
    ]
    pq.write_table(pa.Table.from_pylist(told, schema=INVARIANTS), run.judged("invariants"))
    usual = {"topic": "orders", "partition": 0, "story": "", "evidence": "{}"}
    cases = [("lost_write", "S1", False), ("duplicate", "S1", True), ("behaviour_change", "S2", False)]
    found = [{**usual, "anomaly": name, "severity": severity, "allowed": ok} for name, severity, ok in cases]
    pq.write_table(pa.Table.from_pylist(found, schema=ANOMALIES), run.judged("anomalies"))

    assert hunt.broken_promises(run) == ["I10", "lost_write"]


def test_a_look_at_a_run_is_the_judges_word(tmp_path: Path) -> None:
    """A run that passed or has no verdict found nothing."""
    run = RunFolder(tmp_path / "run-1")
    run.verdict.mkdir(parents=True)
    (told,) = [scenario for _, scenario in schedules(schedules=1)]
    run.verdict_file.write_text(json.dumps({"verdict": "unknown", "sentence": "No seal."}))

    assert hunt.look_of(told, run.path) == Look(told.digest, told.name, "run-1", "unknown", "No seal.", [])


@pytest.mark.parametrize("broke", [False, True])
def test_a_run_that_broke_is_made_again(places: Places, broke: bool) -> None:
    """The first that came to its end is judged where a hunt goes on; no later one is."""
    runs = [sealed_run(places, "x", day=day, broke=b) for day, b in (("20260101", broke), ("20260102", False))]
    for run in runs:
        manifest = json.loads(run.manifest.read_text())
        run.manifest.write_text(json.dumps(manifest | {"labels": {"hunt": "h"}}))

    assert hunt.recorded_before("h", places) == {manifest["scenario_digest"]: runs[broke].path}
    assert hunt.recorded_before("g", places) == {}
