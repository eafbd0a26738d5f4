"""Imported histories of topics that remove records: compaction, tombstones and retention."""

import json

import pytest

from imports import formats
from imports.run_folder import Settings
from tests.imports.histories import poll, send
from tests.judge.checks.imported import cases_of, folder_of, judged


def test_tombstones_without_offsets_are_named_as_what_is_missing(tmp_path):
    """Tombstones without offsets are named as missing evidence; with offsets nothing is missing."""
    read = poll(2, "ok", ("k", 0, None), ("k", 1, None))

    def missing(name, *offsets):
        (tmp_path / name).mkdir()
        steps = [send(1, "ok", ("k", None, offset)) for offset in offsets]
        return [why for _, why in judged(folder_of(tmp_path / name, *steps, read)).items if why]

    assert missing("without", None, None) == [
        "2 tombstones were read of keys to which a tombstone was sent without its offset: add that."
    ]
    assert missing("with", 0, 1) == []


COMPACTED = {"table": "topics", "topic": "t", "config": {"cleanup.policy": "compact"}}


def ledger_of(where, *rows, **settings):
    """Return the run folder of an imported ledger.

    A tuple is a send (key, value, offset), an integer an offset that was read, a dict a topic row.
    """
    common = {"topic": "t", "partition": 0, "producer_id": "p"}
    send_row = {"table": "sends", "due_ns": 0, "done_ns": 1, "outcome": "ok", "acks": "all", "record_bytes": 9}
    poll_row = {"table": "polls", "consumer_id": "c", "pass": "final", "received_ns": 9, "checksum_ok": True}
    told, numbers = [], {}
    for row in rows:
        if isinstance(row, tuple):
            key, value, offset = row
            numbers[offset] = len(numbers)
            named = {} if key is None else {"key": key, "tombstone": value is None}
            told.append(common | send_row | named | {"seq": numbers[offset], "offset": offset})
        elif isinstance(row, int):
            read = {"seq": numbers[row], "offset": row, "position": row, "isolation": "read_committed"}
            told.append(common | poll_row | read)
        else:
            told.append(row)
    file = where / "ledger.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in told))
    return formats.import_history([file], "ledger", Settings(**settings), where / "runs")


@pytest.mark.parametrize(
    ("sends", "read", "found"),
    [
        ([("a", 1, 0), ("b", 1, 1), ("a", 2, 2)], [1, 2], []),
        ([("a", 1, 0), ("b", 1, 1), ("a", 2, 2)], [2], ["lost_write"]),  # the last value of b
        ([("a", 1, 0), ("b", 1, 1), ("a", 2, 2), ("c", 1, 3)], [1, 3], ["lost_write"]),  # both records of "a"
        ([("a", 1, 0), ("a", None, 1), ("b", 1, 2)], [2], []),  # a was deleted, and its tombstone removed
        ([("a", 1, 0), ("a", None, 1), ("b", 1, 2)], [1, 2], []),
        ([(None, 1, 0), ("a", 2, 1)], [1], ["unseen"]),  # which key the first one has is not known
        ([("a", 1, 0), (None, 1, 1), ("b", 1, 2)], [1, 2], ["unseen"]),  # the second one may be a's
    ],
)
def test_of_a_compacted_topic_the_last_value_of_each_key_must_live(tmp_path, sends, read, found):
    """On a compacted topic the last value of each key must exist; earlier values, and unknown keys, are not checked."""
    rows = cases_of(ledger_of(tmp_path, COMPACTED, *sends, *read))

    assert [row["anomaly"] for row in rows] == found


@pytest.mark.parametrize(
    ("sends", "read", "settings", "found"),
    [
        ([("a", 1, 0), ("a", None, 1), ("b", 1, 2)], [0, 2], {}, [("lost_write", 1)]),  # a came back
        ([("a", 1, 0), ("a", None, 1), ("b", 1, 2)], [2], {}, []),  # both records of "a"
        ([("a", 1, 0), ("a", None, 1), ("b", 1, 2)], [0, 1, 2], {}, []),  # both are there
        ([("a", 1, 0), ("a", None, 1), ("a", 2, 2)], [0, 2], {}, []),  # a later value stands for both
        ([("a", 1, 0), ("b", None, 1), ("b", 1, 2)], [0, 2], {}, []),  # of another key
        ([("a", None, 0), ("a", None, 1), ("b", 1, 2)], [0, 2], {}, []),  # an older tombstone, not a value
        ([("a", 1, 0), ("b", 1, 1), ("a", None, 2)], [0, 1], {}, [("unseen", 2)]),  # the reader did not get there
        ([("a", 1, 0), (None, 1, 1), ("a", None, 2), ("b", 1, 3)], [0, 1, 3], {}, [("unseen", 2)]),  # 1 may be a's
        (
            [("a", 1, 0), ("a", None, 1), ("b", 1, 2)],
            [0, 2],
            {"topics": {"t": {"delete.retention.ms": "0"}}},  # both may have been removed between the two reads
            [("unseen", 1)],
        ),
    ],
)
def test_a_tombstone_does_not_go_before_the_older_values_of_its_key(tmp_path, sends, read, settings, found):
    """A tombstone is lost if one reader returned an older value of its key and then passed the tombstone's offset."""
    rows = cases_of(ledger_of(tmp_path, COMPACTED, *sends, *read, **settings))

    assert [(row["anomaly"], row["offset"]) for row in rows] == found
    assert all("an older value of its key" in row["explanation"] for row in rows if row["anomaly"] == "lost_write")


@pytest.mark.parametrize(
    ("readers", "found"),
    [
        ([(2, "x", "y")], ["lost_write"]),
        ([(2, "x"), (3, "y")], []),  # the first one read before the second: both may be gone since
    ],
)
def test_only_one_reader_shows_that_a_value_outlived_its_tombstone(tmp_path, readers, found):
    """A lost tombstone needs one reader for both observations; two may have read at different times."""
    mops = [("a", "x", 0), ("a", None, 1), ("b", "y", 2)]
    steps = [
        {"process": 1, "type": "ok", "f": "send", "mops": [{"op": "send", "key": "k", "offset": at, "value": value}]}
        for _, value, at in mops
    ]
    for step, (record_key, _, _) in zip(steps, mops, strict=True):
        step["mops"][0]["record_key"] = record_key
    offsets = {value: at for _, value, at in mops}
    start = [
        {"process": process, "type": "ok", "f": "assign", "keys": ["k"], "from_beginning": process == 3}
        for process, *_ in readers
    ]
    reads = [poll(process, "ok", *(("k", offsets[each], each) for each in values)) for process, *values in readers]
    rows = cases_of(folder_of(tmp_path, *steps, *start, *reads, topics={"": {"cleanup.policy": "compact"}}))

    assert [row["anomaly"] for row in rows if row["anomaly"] != "poll_skip"] == found


@pytest.mark.parametrize(
    ("declared", "settings", "found"),
    [
        ({}, {}, ["lost_write"]),
        ({"config": {"retention.ms": 1000}}, {}, ["unseen"]),
        ({"config": {"retention.ms": -1}}, {}, ["lost_write"]),
        ({"deleted": True}, {}, []),
        ({}, {"topics": {"t": {"retention.bytes": "1000"}}}, ["unseen"]),
        ({}, {"topics": {"": {"cleanup.policy": "compact,delete", "retention.ms": "5"}}}, ["unseen"]),
        ({"config": {"retention.ms": 1000}}, {"topics": {"t": {"retention.ms": "-1"}}}, ["lost_write"]),
    ],
)
def test_what_a_topic_may_remove_is_declared(tmp_path, declared, settings, found):
    """With retention an unread record is undecided; on a deleted topic nothing is; options override the history."""
    rows = [{"table": "topics", "topic": "t", **declared}] if declared else []
    sends = [("a", 1, 0), ("b", 2, 1), ("c", 3, 2)]

    told = cases_of(ledger_of(tmp_path, *rows, *sends, 0, 2, **settings))
    assert [row["anomaly"] for row in told if row["anomaly"] != "poll_skip" or not found] == found


def test_tombstones_are_told_apart_by_their_offsets(tmp_path):
    """Tombstones are told apart by offset: a lost one is named, and one without an offset decides nothing."""
    sends = [send(1, "ok", ("k", None, 0)), send(1, "ok", ("k", "x", 1)), send(1, "ok", ("k", None, 2))]
    whole, lost = (("k", 0, None), ("k", 1, "x"), ("k", 2, None)), (("k", 1, "x"), ("k", 2, None))
    start = {"process": 2, "type": "ok", "f": "assign", "keys": ["k"], "from_beginning": True}

    def found(name, *steps):
        (tmp_path / name).mkdir()
        return [(row["anomaly"], row["offset"]) for row in cases_of(folder_of(tmp_path / name, *steps))]

    assert found("whole", *sends, poll(2, "ok", *whole)) == []
    assert found("lost", *sends, start, poll(2, "ok", *lost)) == [("lost_write", 0)]
    assert found("phantom", *sends, poll(2, "ok", *whole, ("k", 3, None))) == [("phantom_record", 3)]
    assert found("unplaced", *sends, send(4, "info", ("k", None, None)), poll(2, "ok", *whole, ("k", 3, None))) == []
