"""The corpus: recordings, kept verdicts and differences."""

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clusters.scenario.scenario import scenario_names
from history.folder import RunFolder
from history.tables import JUDGED
from tests.judge import corpus
from tests.judge.corpus import Item, differences, judge_all, main, record
from tests.mutations.recording import NoPlaceError


def test_every_scenario_bug_import_and_damage_has_an_item_of_its_own(tmp_path):
    """Every scenario, bug, import and damage has an item with a unique name."""
    items = [*corpus.runs(), *corpus.imports(), *corpus.damages(tmp_path)]
    names = [item.name for item in items]

    assert len(names) == len(set(names))
    assert not [name for name in scenario_names() if not any(item.startswith(f"{name}-") for item in names)]
    assert {"kafka_18991-bad-3.9.0", "kafka_18991-good-3.9.1", "import-jepsen", "damage-no_probe"} <= set(names)


def test_what_is_damaged_is_recorded():
    """The corpus records each damaged kind's scenario on the version whose recordings are damaged."""
    recorded = {item.name for item in corpus.runs()}

    assert {f"{kind.scenario}-{corpus.DAMAGED_ON[kind.scenario]}" for kind in corpus.KINDS} <= recorded


def sealed(folder):
    """Return a run folder with one recorded file."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    RunFolder(folder).seal()
    return folder


@pytest.fixture
def three_items(monkeypatch):
    """A good item, one that breaks and one without a place; returns the names of the recorded ones."""
    made = []

    def make(to):
        made.append(to.name)
        return sealed(to / "20261123-run")

    def breaks(to):
        raise ValueError("no cluster")

    def has_no_place(to):
        raise NoPlaceError

    for group, item in {"runs": ("good", make), "imports": ("bad", breaks)}.items():
        monkeypatch.setattr(corpus, group, lambda item=item: [Item(*item)])
    monkeypatch.setattr(corpus, "damages", lambda recorded: [Item("nowhere", has_no_place)])
    return made


def test_an_item_that_breaks_is_left_and_told_of(tmp_path, three_items, capsys):
    """An item that breaks is left and reported, and the others are recorded; damage without a place counts as done."""
    assert main(["record", str(tmp_path)]) == 1

    told = capsys.readouterr().out
    assert "broke bad: ValueError: no cluster" in told
    assert "no place for nowhere" in told
    assert "1 left: bad" in told
    assert RunFolder(tmp_path / "runs" / "good").check_seal() == []


def test_what_is_recorded_stays(tmp_path, three_items):
    """A second call records only missing items."""
    record(tmp_path)
    record(tmp_path)

    assert three_items == ["good"]


def test_nothing_is_begun_when_the_time_is_up(tmp_path, three_items):
    """After the time limit no item is started, and all are left."""
    assert record(tmp_path, time.monotonic() - 1) == ["bad", "good", "nowhere"]
    assert three_items == []


def test_a_kept_verdict_lies_outside_the_sealed_run(tmp_path, monkeypatch):
    """A verdict is kept outside the sealed run, which stays whole; a run is judged once under a name."""
    run, batches = sealed(tmp_path / "runs" / "steady"), []

    def judge(folders):
        batches.append(folders)
        for folder in folders:
            (folder / "verdict").mkdir()
            (folder / "verdict" / "verdict.json").write_text("{}")

    monkeypatch.setattr(corpus, "judge", judge)

    assert judge_all(tmp_path, "old") == []
    assert judge_all(tmp_path, "old") == []
    assert judge_all(tmp_path, "new") == []
    assert batches == [[run], [run]]
    assert (tmp_path / "verdicts" / "old" / "steady" / "verdict.json").is_file()
    assert RunFolder(run).check_seal() == []


# --- compare -----------------------------------------------------------------------------------------

INVARIANT = {"title": "t", "severity": "S1", "checked": 7, "violations": 0, "verdict": "pass", "reason": None}
INVARIANT |= {"known_bug": ""}
METRIC = {"metric": "elect_s", "phase": "", "value": 0.3, "samples": 1, "censored": False, "trusted": True}
CASE = {
    "anomaly": "lost_write",
    "severity": "S1",
    "topic": "orders",
    "partition": 0,
    "allowed": False,
    "explanation": "gone",
    "evidence": "{}",
}


def judged(folder, verdict=None, **tables):
    """Return a folder of one verdict whose other tables are empty."""
    for name in corpus.TABLES:
        (folder / "steady" / name).mkdir(parents=True)
        table = pa.Table.from_pylist(tables.get(name, []), JUDGED[name])
        pq.write_table(table, folder / "steady" / name / "part.parquet")
    (folder / "steady" / "verdict.json").write_text(json.dumps(verdict or {"verdict": "pass", "invariants": {}}))
    return folder


def invariant(name, **changed):
    """Return a row of the invariants table."""
    return INVARIANT | {"invariant": name} | changed


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            {"verdict": {"verdict": "pass"}},
            {"verdict": {"verdict": "fail", "failed": ["I6"]}},
            ["steady: verdict.json verdict: 'pass' -> 'fail'", "steady: verdict.json failed: None -> ['I6']"],
        ),
        (
            {"invariants": [invariant("I1"), invariant("I6")]},
            {"invariants": [invariant("I6", checked=8), invariant("I1")]},
            ["steady: invariants I6 checked: 7 -> 8"],
        ),
        ({"invariants": [invariant("I1")]}, {}, ["steady: invariants I1: missing"]),
        (
            {"anomalies": [CASE | {"seq": 4}]},
            {"anomalies": [CASE | {"seq": 4}, CASE | {"seq": 5}]},
            ["steady: anomalies lost_write S1 orders 0 None None 5 False None None gone {}: added"],
        ),
        (
            {"metrics": [METRIC]},
            {"metrics": [METRIC | {"value": 0.31}]},
            ["steady: metrics elect_s  value: 0.3 -> 0.31"],
        ),
        ({"metrics": [METRIC]}, {"metrics": [METRIC | {"value": 0.3 + 1e-13}]}, []),
        ({"verdict": {"invariants": {"I1": 1}}}, {"verdict": {"invariants": {}}}, []),
    ],
    ids=["verdict", "column", "row-missing", "row-added", "figure", "rounding", "repeated-in-a-table"],
)
def test_differences_are_told_in_a_line_each(tmp_path, one, other, told):
    """Differences are one line each; rows are matched by name in any order, without the last digits of figures."""
    assert list(differences(judged(tmp_path / "a", **one), judged(tmp_path / "b", **other))) == told


def test_a_run_that_one_side_did_not_judge_is_a_difference(tmp_path, capsys):
    """A run that one side did not judge is a difference with exit code 1; equal sides exit with 0."""
    a, b = judged(tmp_path / "a"), judged(tmp_path / "b")

    assert main(["compare", str(a), str(b)]) == 0
    (b / "steady").rename(b / "other")
    assert main(["compare", str(a), str(b)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "0 differences",
        f"other: no verdict in {a}",
        f"steady: no verdict in {b}",
        "2 differences",
    ]
