"""A large partition is judged as if it were read at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence import log_rows, pieces, windows
from evidence.facts import Input, PartitionFacts, RunFacts
from evidence.groups import GroupFacts
from evidence.pieces import PlainRange
from evidence.reader import ENDLESS, NOWHERE
from evidence.run import open_folder
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import SENDS
from judge import partition, thinning
from judge.run import Judged, judge_run, one_by_one
from judge.thinning import parts
from tests.evidence.folders import MS, History, S, clean, polled, sent, sought, values
from tests.model.cluster import play
from tests.model.damages import damage
from tests.model.folder import write
from tests.model.plans import plan_of
from tests.model.seeds import fresh_seed

WHERE = TopicPartition("orders", 0)
CASES = 8
Row = dict[str, Any]

# Each changes a run, given one row of its sends or reads, and another row of the same table.
EDITS: dict[str, Callable[[History, Row, Row], Any]] = {
    "nothing": lambda run, row, other: None,
    "gone": lambda run, row, other: _table(run, row).remove(row),
    "twice": lambda run, row, other: _table(run, row).append(dict(row)),
    "another number": lambda run, row, other: row.update(seq=other["seq"], producer_id=other["producer_id"]),
    "another offset": lambda run, row, other: row.update(offset=other["offset"]),
    "no offset": lambda run, row, other: row.update(offset=None if "acks" in row else row["offset"]),
    "earlier": lambda run, row, other: _shift(row, ("done_ns", "received_ns"), -2 * S),
    "later": lambda run, row, other: _shift(row, ("sent_ns", "received_ns"), 2 * S),
    "failed": lambda run, row, other: row.update({"outcome": "fail"} if "acks" in row else {"checksum_ok": False}),
    "another position": lambda run, row, other: row.update({"position": other["position"]} if "pass" in row else {}),
    "another epoch": lambda run, row, other: row.update({"leader_epoch": 1} if "pass" in row else {}),
    "committed only": lambda run, row, other: row.update({"isolation": "read_committed"} if "pass" in row else {}),
    "sought": lambda run, row, other: run.seeks.append(sought(other.get("position", 50), 0, 0)),
    "another reader": lambda run, row, other: run.polls.extend(
        polled(each["offset"] or 0, each["seq"], final=False, consumer_id="consumer-2", position=at)
        for at, each in enumerate([row, other])
    ),
    "no end of a log": lambda run, row, other: run.logs[2].pop(),
    "no batch in a log": lambda run, row, other: run.logs[3].pop((row["offset"] or 0) % len(run.logs[3])),
    "another batch in a log": lambda run, row, other: run.logs[2].append((118, 0, values(row["seq"], other["seq"]))),
}


def _table(run: History, row: Row) -> list[Row]:
    table: list[Row] = run.sends if "acks" in row else run.polls
    return table


def _shift(row: Row, names: Sequence[str], by_ns: int) -> None:
    row.update({name: row[name] + by_ns for name in names if row.get(name)})


def edited(kinds: Sequence[str], chance: random.Random) -> History:
    """Return a run of 120 records, which two readers read, after some edits of these kinds."""
    history = clean(120, acks=chance.choice(["all", "1"]))
    history.polls += [polled(n, n, final=False, received_ns=10 * S + n * 10 * MS + 4 * MS) for n in range(120)]
    history.logs = {b: [(n, 0, values(*range(n, n + 8))) for n in range(0, 120, 8)] for b in (1, 2, 3)}
    for kind in kinds:
        table = chance.choice([history.sends, history.polls])
        EDITS[kind](history, *chance.sample(table, 2))
    return history


def judged(folder: Path, chance: random.Random | None = None) -> Judged:
    """Judge a run, with ``chance`` each partition in parts of random sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thinning, "WHOLE_SENDS", 0 if chance else 10**9)
        if chance:
            patch.setattr(thinning, "PART_SENDS", chance.choice([30, 1000]))
            patch.setattr(thinning, "MOST_ROWS", chance.choice([0, 30, 1000]))
            patch.setattr(pieces, "_MIN_RECORDS", chance.choice([2, 3, 5]))
            patch.setattr(log_rows, "BATCHES", chance.choice([1, 3, 1000]))
            patch.setitem(windows.windows.__kwdefaults__, "rows", chance.choice([9, 16, 100]))
        return judge_run(open_folder(RunFolder(folder)), one_by_one)


def shown(of: Judged) -> Row:
    """Return all that a judgement says; timelines of replicas have no order."""
    tables = {name: table.to_pylist() for name, table in of.tables.items()}
    tables["timeline_replicas"].sort(key=repr)
    of_contracts = of.tallies.rows, sorted(of.tallies.violations(), key=repr)
    return tables | {"items": of.items, "log": of.latency_log, "seeks": of.seeks, "contracts": of_contracts}


@pytest.fixture
def left_out(monkeypatch):
    """Collect the plain ranges of all judgements."""
    found: list[PlainRange] = []
    monkeypatch.setattr(partition, "counts", lambda *of, _count=partition.counts: found.extend(of[2]) or _count(*of))
    return found


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_the_models_histories_are_judged_as_whole_ones(seed, tmp_path):
    """Histories with leader changes, losses and damage give the same tables, in parts of any size."""
    seed = fresh_seed() if seed is None else seed
    plan = plan_of(seed)
    recorded = play(replace(plan, members=type(plan.members)()))
    damage(recorded)
    folder = write(recorded, tmp_path / "run").path

    assert shown(judged(folder, random.Random(seed))) == shown(judged(folder)), seed


@pytest.mark.parametrize("edit", EDITS)
def test_edited_runs_are_judged_as_whole_ones(edit, tmp_path, left_out):
    """However a run is edited, all tables are the same, and records are left out."""
    chance = random.Random(edit)
    folder = edited([edit] * chance.randint(1, 4), chance).write(tmp_path / "run").path

    assert shown(judged(folder, chance)) == shown(judged(folder))
    assert left_out


def test_any_edits_together_are_judged_as_whole_runs(tmp_path):
    """Edits of several kinds together give the same tables."""
    seed = fresh_seed()
    for case in range(seed, seed + CASES):
        chance = random.Random(case)
        folder = edited(chance.choices([*EDITS], k=chance.randint(1, 6)), chance).write(tmp_path / str(case)).path

        assert shown(judged(folder, chance)) == shown(judged(folder)), case


# --- parts -------------------------------------------------------------------------------------------


def large(folder, sends=10, **facts):
    """Return the facts of a run, and of a partition with some sends."""
    of = RunFolder(folder)
    of.table("sends").mkdir()
    rows = [sent(n, offset=n) for n in range(sends)]
    pq.write_table(pa.Table.from_pylist(rows, SENDS), of.table("sends") / "one.parquet")
    return RunFacts(folder), PartitionFacts(WHERE, size=90, **facts)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Let five sends be a large partition, and four a part of one."""
    monkeypatch.setattr(thinning, "WHOLE_SENDS", 5)
    monkeypatch.setattr(thinning, "PART_SENDS", 4)


def test_the_parts_of_a_partition_have_all_offsets(tmp_path):
    """Parts have equal ranges of offsets; the first and the last are open."""
    found = parts(*large(tmp_path))

    assert [each.offsets for each in found] == [(NOWHERE, 4), (4, 8), (8, ENDLESS)]
    assert {each.size for each in found} == {30}


def test_a_small_partition_has_no_parts(tmp_path):
    """A partition with few sends is judged at once."""
    assert parts(*large(tmp_path, sends=5)) == []


@pytest.mark.parametrize(
    ("of_run", "of_partition"),
    [
        ({"foreign": True}, {}),
        ({"transactional": True}, {}),
        ({"group": GroupFacts("orders", 1)}, {}),
        ({}, {"kept": False}),
        ({}, {"input": Input(WHERE, 0, whole=True)}),
    ],
)
def test_checks_that_need_all_records_get_a_partition_at_once(of_run, of_partition, tmp_path):
    """Imports, transactions, groups, compacted topics and copies are not divided."""
    run, facts = large(tmp_path)
    assert parts(replace(run, group=GroupFacts("others", 1)), facts)
    assert parts(replace(run, **of_run), replace(facts, **of_partition)) == []
