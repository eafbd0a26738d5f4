"""A copy of a recorded run that is damaged in its own files, never in the original's."""

import json

import pyarrow.parquet as pq
import pytest

from history.folder import RunFolder
from kafka_files.batches import Problem, headers
from tests.evidence.folders import batch, clean
from tests.mutations.recording import (
    NoPlaceError,
    Recording,
    cut_evidence,
    edit_summary,
    header,
    runs_of,
    split,
    with_crc,
    with_field,
)


@pytest.fixture
def original(tmp_path):
    """A sealed run folder."""
    return clean(10).write(tmp_path / "original")


@pytest.fixture
def copy(original, tmp_path):
    """A copy of the original for damage."""
    return Recording.copy(original.path, tmp_path / "copy", "seed")


def test_an_edit_leaves_the_original_alone(original, copy):
    """An edit writes the copy's linked file anew, and does not change the original."""
    copy.put("polls", copy.rows("polls")[:3])
    copy.put_batches(2, [])
    edit_summary(copy, "drain-1", lambda words: words.update(clean=False))
    copy.put_events(copy.events[:1])

    assert original.check_seal() == []
    assert len(copy.folder.check_seal()) == 5  # four files changed or gone, one added
    copy.folder.seal()
    assert copy.folder.check_seal() == []


def test_tables_stay_what_the_judge_reads(copy):
    """A table written back unchanged holds the same rows in the same schema."""
    before = pq.read_table(copy.folder.table("sends"))
    copy.put("sends", copy.rows("sends"))

    assert pq.read_table(copy.folder.table("sends")).equals(before)


def test_a_shorter_log_is_consistent_in_every_table(copy):
    """Readers count fewer rows; only the final capture has the earlier log end."""
    (copy.folder.clients / "drain.json").write_text(json.dumps({"partitions": {"orders-0": {}}}))
    cut_evidence(copy, 7)

    assert json.loads((copy.folder.clients / "drain-1.json").read_text())["rows"] == 7
    ends = {(row["capture"], row["log_end_offset"]) for row in copy.rows("offsets") if row["topic"] == "orders"}
    assert {("before", 0), ("after", 7)} <= ends
    assert ("after", 10) not in ends


def test_the_same_seed_chooses_the_same_place(original, tmp_path):
    """The same seed chooses the same place; an empty choice raises an error."""
    one, again = (Recording.copy(original.path, tmp_path / name, "seed") for name in ("one", "again"))

    assert [one.choose(range(1000)) for _ in range(5)] == [again.choose(range(1000)) for _ in range(5)]
    with pytest.raises(NoPlaceError):
        one.choose([])
    with pytest.raises(NoPlaceError):
        one.first(one.rows("sends"), lambda row: False)


def test_a_verdict_is_not_copied(original, tmp_path):
    """A copy has no verdict, so that the judge starts anew."""
    original.verdict.mkdir()
    original.verdict_file.write_text(json.dumps({"verdict": "pass"}))

    assert not Recording.copy(original.path, tmp_path / "copy", "seed").folder.verdict.exists()
    assert RunFolder(tmp_path / "copy").manifest.is_file()


def test_batches_are_split_and_changed_with_a_checksum_that_fits():
    """Batches are split and changed with a valid checksum; only a change after the checksum counts as damage."""
    segment = batch(0, [b"a", b"b"], epoch=3) + batch(2, [b"c"], epoch=4)
    first, second = split(segment)

    assert (header(first)["leader_epoch"], header(first)["last_offset"]) == (3, 1)
    assert header(second)["base_offset"] == 2
    changed = with_field(second, "base_timestamp", 77)
    assert header(changed)["base_timestamp"] == 77
    assert headers(bytes(first + changed))["problem"].tolist() == [0, 0]
    changed[-3] ^= 1
    assert headers(bytes(changed))["problem"].tolist() == [Problem.BAD_CRC]
    assert headers(bytes(with_crc(changed)))["problem"].tolist() == [0]


def test_rows_fall_into_runs():
    """Rows fall into runs of neighbours with one key."""
    rows = [{"epoch": epoch} for epoch in (0, 0, 1, 0)]

    assert [len(run) for run in runs_of(rows, lambda row: row["epoch"])] == [2, 1, 1]
