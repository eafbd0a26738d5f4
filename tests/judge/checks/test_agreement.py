"""Replicas' logs compared: where they must be equal, and where they may differ."""

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.batches import read_batches
from evidence.columns import NULL
from evidence.facts import Replica
from judge.checks import agreement
from judge.checks.agreement import (
    i12_committed_prefix,
    i13_log_matching,
    i14_epoch_files,
    i14_epoch_of_batch,
    i17_sequences,
)
from judge.checks.invariants import INVARIANTS
from kafka_files.batches import CONTROL
from tests.evidence.folders import batch, sequenced, values
from tests.evidence.partitions import evidence


def logs_in(folder, logs, *, epochs=None, hw=10, log_start=0, ends=None, **other):
    """Return a partition with these logs (broker id → batches); ``ends`` are the captured log end offsets."""
    replicas = []
    for broker_id, data in logs.items():
        file = folder / f"{broker_id}.log"
        file.write_bytes(b"".join(data))
        known = (epochs or {}).get(broker_id)
        seen = hw.get(broker_id) if isinstance(hw, dict) else hw
        replicas.append(Replica(broker_id, [file], known, log_start, seen, (ends or {}).get(broker_id)))
    read = {replica.broker_id: read_batches(replica.segments) for replica in replicas}
    return evidence(replicas=tuple(replicas), batches=read, **({"final": 1, "complete": frozenset(logs)} | other))


@pytest.fixture
def check(tmp_path):
    """Writes logs and returns (checked, violations) of an invariant."""

    def run(name, logs, **other):
        of = logs_in(tmp_path, logs, **other)
        found = [each(of) for each in INVARIANTS[name].checks]
        return sum(each.checked for each in found), sum(each.violated_ns.size for each in found)

    return run


@pytest.fixture
def violations(tmp_path):
    """Writes logs and returns the evidence of each violation that a check finds."""

    def run(check, logs, **other):
        found = check(logs_in(tmp_path, logs, **other))
        assert set(found.violated_ns.tolist()) <= {NULL}
        return [found.evidence(place) for place in range(found.violated_ns.size)]

    return run


A, B = batch(0, values(0, 1)), batch(2, values(2))
OTHER = batch(2, values(3))
NEWER = batch(2, values(3), epoch=1)


def test_i12_two_committed_batches_that_differ(check):
    """I12 is violated if batches differ below both high watermarks; above one of them they may."""
    assert check("I12", {1: [A, B], 2: [A, NEWER]}) == (2, 1)
    assert check("I12", {1: [A, B], 2: [A, B]}) == (2, 0)
    assert check("I12", {1: [A, B], 2: [A, NEWER]}, hw={1: 3, 2: 2}) == (1, 0)


def test_i12_a_replica_that_lacks_what_it_knows_as_committed(check):
    """I12 is violated if a replica ends before its own high watermark, unless its export is torn there."""
    assert check("I12", {1: [A, B], 2: [A], 3: [A, B]}) == (2, 1)
    assert check("I12", {1: [A, B], 2: [A, B[:-1]], 3: [A, B]}) == (2, 0)


def test_i12_says_which_replica_lacks_what(violations):
    """I12's evidence lists the replicas that lack the batch and the epochs of the others, lowest offset first."""
    logs = {2: [A], 1: [A, B], 3: [A, NEWER, batch(3, values(4))]}

    assert violations(i12_committed_prefix, logs) == [
        {"base_offset": 2, "last_offset": 2, "lacking": [2], "epochs": {"1": 0, "3": 1}},
        {"base_offset": 3, "last_offset": 3, "lacking": [2, 1], "epochs": {"3": 0}},
    ]


def test_i12_a_torn_export_is_asked_below_its_last_whole_batch(check):
    """I12 checks a torn export below its last whole batch only."""
    torn = [batch(0, values(7, 8)), B, b"half a batch"]

    assert check("I12", {1: [A, B], 2: torn}) == (1, 1)
    assert check("I12", {1: [A, B], 2: torn[:-1]}) == (2, 1)
    assert check("I12", {1: [A, B], 2: torn[2:]}) == (0, 0)


def test_i12_an_export_that_ends_below_the_captured_end_is_asked_like_a_torn_one(check):
    """I12 checks an export that ends below the captured log end like a torn one: its missing batches prove nothing."""
    lacking, other = {1: [A, B], 2: [A], 3: [A, B]}, {1: [A, B], 2: [batch(0, values(7, 8)), B], 3: [A, B]}

    assert check("I12", lacking, ends={1: 3, 2: 3, 3: 3}) == (2, 0)
    assert check("I12", lacking, ends={1: 3, 2: 2, 3: 3}) == (2, 1)
    assert check("I12", other, ends={1: 3, 2: 4, 3: 3}) == (2, 1)


def test_i12_a_replica_without_an_answer_or_below_its_log_start_has_no_say(check):
    """I12 skips replicas without a known high watermark, and offsets below the log start."""
    logs = {1: [A, B], 2: [batch(0, values(7, 8)), B]}

    assert check("I12", logs) == (2, 1)
    assert check("I12", logs, hw={1: 10}) == (0, 0)
    assert check("I12", logs, log_start=2) == (1, 0)


def test_i12_a_damaged_batch_is_not_the_intact_one(check):
    """I12 is violated if one replica's batch is damaged and another's is not."""
    damaged = bytes([*B[:-2], B[-2] ^ 1, B[-1]])

    assert check("I12", {1: [A, B], 2: [A, damaged]}) == (2, 1)
    assert check("I12", {1: [A, damaged], 2: [A, damaged]}) == (2, 0)


def test_i12_is_about_clean_topics(check):
    """I12 needs a topic without unclean elections and without compaction."""
    assert check("I12", {1: [A, B], 2: [A, NEWER]}, clean=False) == (0, 0)
    assert check("I12", {1: [A, B], 2: [A, NEWER]}, kept=False) == (0, 0)


def test_i13_one_offset_and_epoch_with_two_contents(check):
    """I13 is violated if batches of equal offset and epoch differ, even above the HW; other epochs may differ."""
    assert check("I13", {1: [A, B], 2: [A, OTHER]}, hw=0, clean=False) == (2, 1)
    assert check("I13", {1: [A, B], 2: [A, NEWER]}, hw=0, clean=False) == (1, 0)


def test_i13_what_stands_before_an_equal_batch(check):
    """I13 is violated if logs agree at a batch and differ before it: one of them skipped a truncation."""
    last = batch(3, values(4), epoch=2)

    assert check("I13", {1: [A, B, last], 2: [A, NEWER, last]}) == (2, 1)
    assert check("I13", {1: [A, B, last], 2: [A, B, last]}) == (3, 0)


def test_i13_says_what_differs(violations):
    """I13's evidence states whether this batch or an earlier one differs, by offset and epoch."""
    other = batch(0, values(7, 8))
    logs = {1: [A, NEWER], 2: [A, B], 3: [other, NEWER], 4: [other, B]}

    assert violations(i13_log_matching, logs) == [
        {"base_offset": 0, "leader_epoch": 0, "brokers": [1, 2, 3, 4], "differs": "this batch"},
        {"base_offset": 2, "leader_epoch": 0, "brokers": [2, 4], "differs": "a batch before it"},
        {"base_offset": 2, "leader_epoch": 1, "brokers": [1, 3], "differs": "a batch before it"},
    ]


def test_i13_is_not_about_compacted_logs(check):
    """I13 skips compacted topics, since each replica compacts by itself."""
    assert check("I13", {1: [A, B], 2: [A, OTHER]}, kept=False) == (0, 0)


def test_i13_logs_that_start_apart_have_no_common_prefix(check):
    """I13 compares logs only from the later log start on."""
    assert check("I13", {1: [A, B], 2: [B]}) == (1, 0)


def test_i14_a_batch_and_the_epoch_file(check):
    """I14 compares each batch's epoch with the leader-epoch-checkpoint; without that file it checks nothing."""
    logs = {1: [A, NEWER]}

    assert check("I14", logs, epochs={1: [(0, 0), (1, 2)]}) == (3, 0)
    assert check("I14", logs, epochs={1: [(0, 0), (1, 1)]}, hw=1) == (3, 0)
    assert check("I14", logs, epochs={1: [(0, 0)]}) == (2, 1)
    assert check("I14", logs) == (0, 0)


def test_i14_what_was_deleted_is_not_in_the_epoch_file(check):
    """I14 skips batches below the log start, which the epoch file no longer covers."""
    logs, epochs = {1: [A, NEWER]}, {1: [(1, 2)]}

    assert check("I14", logs, epochs=epochs, log_start=2) == (1, 0)
    assert check("I14", logs, epochs=epochs, log_start=0) == (2, 1)
    assert check("I14", logs, epochs=epochs, log_start=None) == (1, 0)  # the last capture lacks it
    assert check("I14", logs, epochs={1: [(0, 2)]}, log_start=2) == (1, 1)


def test_i14_names_the_batch_and_what_the_file_says(violations):
    """I14's evidence has the batch's and the file's epoch; before the file's first entry the latter is null."""
    logs = {2: [A, NEWER], 1: [A, B]}

    assert violations(i14_epoch_of_batch, logs, epochs={1: [(1, 2)], 2: [(0, 0)]}) == [
        {"broker_id": 1, "base_offset": 0, "batch_epoch": 0, "file_epoch": None},
        {"broker_id": 2, "base_offset": 2, "batch_epoch": 1, "file_epoch": 0},
        {"broker_id": 1, "base_offset": 2, "batch_epoch": 0, "file_epoch": 1},
    ]


def test_i14_names_the_entries(violations):
    """I14's evidence lists non-rising entries of a file first, then starts that differ between files."""
    epochs = {1: [(0, 0), (1, 2), (1, 3)], 2: [(0, 0), (1, 1)]}

    assert violations(i14_epoch_files, {1: [A], 2: [A]}, epochs=epochs) == [
        {"broker_id": 1, "entries": [[1, 2], [1, 3]]},
        {"leader_epoch": 1, "starts": {"1": 3, "2": 1}},
    ]
    assert len(violations(i14_epoch_files, {1: [A], 2: [A]}, epochs=epochs, clean=False)) == 1


def test_i14_epoch_files_go_up(check):
    """In an epoch file both epochs and starts must rise; a leader's last entry may have no batch."""
    assert check("I14", {1: [A]}, epochs={1: [(0, 0), (3, 2)]}) == (2, 0)
    assert check("I14", {1: [A]}, epochs={1: [(0, 0), (2, 2), (1, 3)]}) == (3, 1)
    assert check("I14", {1: [A]}, epochs={1: [(0, 0), (1, 2), (2, 2)]}) == (3, 1)


def test_i14_epochs_start_at_equal_offsets(check):
    """Epoch files must agree on starts below the high watermarks; above one of them they may differ."""
    logs, epochs = {1: [A, NEWER], 2: [A, NEWER]}, {1: [(0, 0), (1, 2)], 2: [(0, 0), (1, 1)]}

    assert check("I14", logs, epochs=epochs, hw=3)[1] == 1
    assert check("I14", logs, epochs=epochs, hw=1)[1] == 0


def test_i17_sequence_numbers(check):
    """I17 is violated by a gap or a repetition of sequence numbers within one producer id and epoch."""
    first = sequenced(0, (0, 1), 0)

    assert check("I17", {1: [first, sequenced(2, (2,), 2)]}) == (2, 0)
    assert check("I17", {1: [first, sequenced(2, (2,), 5)]}) == (2, 1)
    assert check("I17", {1: [first, sequenced(2, (2,), 0)]}) == (2, 1)
    assert check("I17", {1: [first, sequenced(2, (2,), 0, producer=(7, 1))]}) == (2, 0)


def test_i17_wraps_and_looks_at_the_final_log_only(check):
    """I17 accepts the wrap from 2^31 - 1 to 0, and checks idempotent batches of the final log only."""
    assert check("I17", {1: [sequenced(0, (0,), 2**31 - 1), sequenced(1, (1,), 0)]}) == (2, 0)
    assert check("I17", {2: [sequenced(0, (0,), 0), sequenced(1, (1,), 9)]}) == (0, 0)
    assert check("I17", {1: [A, B]}) == (0, 0)


def test_i17_producers_that_take_turns(violations):
    """I17 follows each producer id and epoch by itself, and lists violations by offset."""
    log = [
        sequenced(0, (0,), 0, producer=(9, 0)),
        sequenced(1, (0,), 0, producer=(7, 1)),
        sequenced(2, (0,), 0, producer=(7, 0)),
        sequenced(3, (1,), 2, producer=(9, 0)),
        sequenced(4, (1,), 1, producer=(7, 1)),
        sequenced(5, (1,), 0, producer=(7, 0)),
    ]

    assert violations(i17_sequences, {1: log}) == [
        {
            "broker_id": 1,
            "base_offset": 3,
            "kafka_producer_id": 9,
            "producer_epoch": 0,
            "base_sequence": 2,
            "expected": 1,
        },
        {
            "broker_id": 1,
            "base_offset": 5,
            "kafka_producer_id": 7,
            "producer_epoch": 0,
            "base_sequence": 0,
            "expected": 1,
        },
    ]


def test_i17_control_batches_and_other_topics_are_not_asked(check):
    """I17 skips control batches, and topics with unclean elections or compaction."""
    first, gap = sequenced(0, (0,), 0), sequenced(2, (1,), 5)

    assert check("I17", {1: [first, sequenced(1, (0,), 0, attributes=CONTROL), sequenced(2, (1,), 1)]}) == (2, 0)
    assert check("I17", {1: [first, gap]}) == (2, 1)
    assert check("I17", {1: [first, gap]}, clean=False) == (0, 0)
    assert check("I17", {1: [first, gap]}, kept=False) == (0, 0)
    assert check("I17", {1: [first, gap]}, final=None) == (0, 0)


# --- against a plain reading of the same rules -------------------------------------------------------

HW = 4
LOGS = st.lists(  # per replica and offset: a one-record batch as (epoch, value), or None
    st.lists(st.none() | st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=3, max_size=6),
    min_size=1,
    max_size=4,
)


def plain_i12(logs):
    """Return the offsets below ``HW`` that I12 checks, and those at which replicas differ."""
    asked = [n for n in range(HW) if len(logs) > 1 and any(log.get(n) for log in logs)]
    return asked, [n for n in asked if len({log.get(n) for log in logs}) > 1]


def plain_i13(logs):
    """Return the offsets and epochs that I13 checks, and those where batches or their predecessors differ."""
    held = [(n, epoch, log) for log in logs for n, (epoch, _) in log.items()]
    asked = sorted({(n, epoch) for n, epoch, _ in held if [each[:2] for each in held].count((n, epoch)) > 1})
    violated = []
    for n, epoch in asked:
        same = [log for *at, log in held if at == [n, epoch]]
        begin_alike = len({min(log) for log in same}) == 1
        before = {tuple(sorted(each for each in log.items() if each[0] <= n)) for log in same}
        if len({log[n] for log in same}) > 1 or (begin_alike and len(before) > 1):
            violated.append((n, epoch))
    return asked, violated


@given(LOGS, st.integers(1, 4))
def test_checks_are_those_of_a_plain_reading(rows, window):
    """For any logs and window sizes, I12 and I13 agree with a direct implementation."""
    logs = [{n: each for n, each in enumerate(log) if each} for log in rows]
    written = {
        broker_id: [batch(n, values(seq), epoch) for n, (epoch, seq) in log.items()]
        for broker_id, log in enumerate(logs, 1)
    }
    with TemporaryDirectory() as folder, patch.object(agreement, "WINDOW_BATCHES", window):
        of = logs_in(Path(folder), written, hw=HW)
        i12, i13 = i12_committed_prefix(of), i13_log_matching(of)
    in_i12 = [i12.evidence(place)["base_offset"] for place in range(i12.violated_ns.size)]
    in_i13 = [i13.evidence(place) for place in range(i13.violated_ns.size)]

    assert (i12.checked, in_i12) == (len(plain_i12(logs)[0]), plain_i12(logs)[1])
    assert i13.checked == len(plain_i13(logs)[0])
    assert [(each["base_offset"], each["leader_epoch"]) for each in in_i13] == plain_i13(logs)[1]
