"""The tables of a generated run: schemas, row groups and content."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.generated import tables
from bench.generated.plan import Plan, Planted
from history.folder import RunFolder
from history.tables import RECORDED

Row = dict[str, Any]
WRITERS = (
    tables.write_sends,
    tables.write_live,
    tables.write_drain,
    tables.write_replicas,
    tables.write_isr,
    tables.write_offsets,
    tables.write_usage,
)


def read(folder: RunFolder, name: str, **equal: Any) -> list[Row]:
    """Return the rows of a table with these values."""
    rows = pq.read_table(folder.table(name)).to_pylist()
    return [row for row in rows if equal.items() <= row.items()]


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Two partitions and two producers, with one or two cases of each kind in each partition."""
    planted = Planted(lost=20, duplicates=2, phantoms=2, corrupt=2, aborted=2, reordered=4)
    return Plan(1000, partitions=2, producers=2, seconds=10, probe_hz=10, planted=planted)


@pytest.fixture(scope="module")
def folder(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The folder with the plan's tables."""
    found = RunFolder(tmp_path_factory.mktemp("run"))
    for write in WRITERS:
        write(plan, found)
    tables.write_empty(found)
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_every_table_has_its_schema(folder: RunFolder, name: str) -> None:
    """Every file of a table has its schema's types and nullability."""
    files = list(folder.table(name).iterdir())

    assert files
    for file in files:
        found = {field.name: (field.type, field.nullable) for field in pq.read_schema(file) if "list" not in str(field)}
        owed = {field.name: (field.type, field.nullable) for field in RECORDED[name] if "list" not in str(field)}
        assert found == owed


@pytest.mark.parametrize("name", ["sends", "polls", "replicas", "isr", "offsets"])
def test_row_groups_hold_one_partition_each_in_order(folder: RunFolder, name: str) -> None:
    """A row group holds one partition, in order, so that a reader can read its partition's groups alone."""
    for path in folder.table(name).iterdir():
        file = pq.ParquetFile(path)
        groups = [
            set(file.read_row_group(n, ["partition"])["partition"].to_pylist()) for n in range(file.num_row_groups)
        ]
        assert groups == [{0}, {1}]


def test_the_live_consumer_takes_partitions_in_turns(folder: RunFolder) -> None:
    """The live consumer alternates between partitions with positions from 0, and goes back one record four times."""
    rows = sorted(read(folder, "polls", consumer_id="consumer"), key=lambda row: row["position"])
    back = []
    for partition in (0, 1):
        offsets = [row["offset"] for row in rows if row["partition"] == partition]
        back += [after - before for before, after in pairwise(offsets) if after <= before]

    assert [row["position"] for row in rows] == list(range(1000 - 20 + 4 + 2 * 4))
    assert [row["partition"] for row in rows[:4]] == [0, 1, 0, 1]
    assert back == [-1] * 4


def test_the_final_drain_reads_each_offset_once(folder: RunFolder) -> None:
    """The final drain reads each offset once, except those of lost records; it marks corrupt records."""
    rows = read(folder, "polls", consumer_id="drain")

    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows) == 1000 - 20 + 4
    assert sum(not row["checksum_ok"] for row in rows) == 2


def test_sends_that_failed_have_an_error_and_no_offset(folder: RunFolder) -> None:
    """A failed send has an error and no offset; all others are acknowledged after they are sent."""
    rows = read(folder, "sends")
    failed = [row for row in rows if row["outcome"] == "fail"]

    assert len(rows) == 1000
    assert [(row["offset"], row["error"]) for row in failed] == [(None, "InvalidRecordError")] * 2
    assert all(row["offset"] is not None for row in rows if row["outcome"] == "ok")
    assert all(row["due_ns"] <= row["sent_ns"] < row["done_ns"] for row in rows)


def test_the_stopped_broker_does_not_answer_the_probe(plan: Plan, folder: RunFolder) -> None:
    """The stopped broker does not answer the probe until it resumes; the others always answer."""
    rows = read(folder, "replicas")
    silent = [row for row in rows if row["error"]]

    assert {row["broker_id"] for row in silent} == {3}
    assert {plan.stopped_ns <= row["sent_ns"] < plan.resumed_ns for row in silent} == {True}
    assert all(row["high_watermark"] <= row["log_end_offset"] for row in rows if not row["error"])
    assert {row["high_watermark"] for row in rows if row["sent_ns"] > plan.quiesced_ns} == {502}


def test_views_show_the_isr_of_the_moment(plan: Plan, folder: RunFolder) -> None:
    """Views show the ISR without the stopped broker for a while, and then full again."""
    rows = read(folder, "isr", partition=0, observer="1")
    seen = list(dict.fromkeys(tuple(row["isr"]) for row in rows))

    assert seen == [(1, 2, 3), (1, 2)]
    assert rows[-1]["isr"] == [1, 2, 3] == rows[-1]["replicas"]


def test_no_checkpoint_is_above_a_later_log_end(folder: RunFolder) -> None:
    """A checkpoint is never above a later log end offset."""
    rows = sorted(read(folder, "offsets", partition=0, broker_id=1), key=lambda row: row["sent_ns"])

    assert [row["capture"] for row in rows][::4] == ["before", "after"]
    assert all(before["checkpoint_high_watermark"] <= after["log_end_offset"] for before, after in pairwise(rows))


def test_many_producers_are_told_apart(tmp_path: Path) -> None:
    """Each of many producers has its own ledger, and the drain names all of them with as many records as they sent."""
    plan, folder = Plan(64 * 150, producers=150, seconds=10, probe_hz=2), RunFolder(tmp_path)
    tables.write_drain(plan, folder)
    counts = Counter(row["producer_id"] for row in read(folder, "polls"))

    assert tables.write_sends(plan, folder) == [64] * 150
    assert counts == dict.fromkeys(plan.producer_ids, 64)
