"""Logs side by side: what two replicas may never show, and where they may differ."""

import struct

import google_crc32c
import pytest

from spark.checks.agreement import Logs, compare
from spark.evidence.partition import Replica
from tests.spark.folders import batch, values


def sequenced(base_offset, seqs, base_sequence, *, producer=(7, 0)):
    """An idempotent producer's batch."""
    data = bytearray(batch(base_offset, values(*seqs)))
    struct.pack_into(">qhi", data, 43, *producer, base_sequence)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


@pytest.fixture
def check(tmp_path):
    """Writes logs (broker id → batches' bytes) and counts (checked, violations) of an invariant."""

    def run(name, logs, *, epochs=None, hw=10, log_start=0, **other):
        replicas = []
        for broker_id, data in logs.items():
            file = tmp_path / f"{broker_id}.log"
            file.write_bytes(b"".join(data))
            known = (epochs or {}).get(broker_id)
            replicas.append(
                Replica(broker_id, [file], known, log_start, hw.get(broker_id) if isinstance(hw, dict) else hw)
            )
        found = [c for n, c in compare(Logs("orders", 0, replicas, **({"final": 1} | other))) if n == name]
        return len(found), sum(c.violated for c in found)

    return run


A, B = batch(0, values(0, 1)), batch(2, values(2))
OTHER = batch(2, values(3))
NEWER = batch(2, values(3), epoch=1)


def test_i12_two_committed_batches_that_differ(check):
    """Offset 2 holds other bytes on broker 2, below both high watermarks; above one of them it may."""
    assert check("I12", {1: [A, B], 2: [A, NEWER]}) == (2, 1)
    assert check("I12", {1: [A, B], 2: [A, B]}) == (2, 0)
    assert check("I12", {1: [A, B], 2: [A, NEWER]}, hw={1: 3, 2: 2}) == (1, 0)


def test_i12_a_replica_that_lacks_what_it_knows_as_committed(check):
    """Broker 2 ends before its own high watermark; an export that was torn there proves nothing."""
    assert check("I12", {1: [A, B], 2: [A], 3: [A, B]}) == (2, 1)
    assert check("I12", {1: [A, B], 2: [A, B[:-1]], 3: [A, B]}) == (2, 0)


def test_i12_is_about_clean_topics(check):
    """After an unclean election committed records may differ; a compacted log may be rewritten."""
    assert check("I12", {1: [A, B], 2: [A, NEWER]}, clean=False) == (0, 0)
    assert check("I12", {1: [A, B], 2: [A, NEWER]}, kept=False) == (0, 0)


def test_i13_one_offset_and_epoch_with_two_contents(check):
    """Equal offset and epoch, other bytes: wrong even above the HW; in another epoch a divergent tail may stand."""
    assert check("I13", {1: [A, B], 2: [A, OTHER]}, hw=0, clean=False) == (2, 1)
    assert check("I13", {1: [A, B], 2: [A, NEWER]}, hw=0, clean=False) == (1, 0)


def test_i13_what_stands_before_an_equal_batch(check):
    """The batch at 3 is equal and the one before it is not: one of the logs skipped a truncation."""
    last = batch(3, values(4), epoch=2)

    assert check("I13", {1: [A, B, last], 2: [A, NEWER, last]}) == (2, 1)
    assert check("I13", {1: [A, B, last], 2: [A, B, last]}) == (3, 0)


def test_i13_logs_that_start_apart_have_no_common_prefix(check):
    """A replica whose beginning was deleted shares the rest only."""
    assert check("I13", {1: [A, B], 2: [B]}) == (1, 0)


def test_i14_a_batch_and_the_epoch_file(check):
    """Offset 2 is of epoch 1; the file must say so. Without a file nothing is said."""
    logs = {1: [A, NEWER]}

    assert check("I14", logs, epochs={1: [(0, 0), (1, 2)]}) == (3, 0)
    assert check("I14", logs, epochs={1: [(0, 0), (1, 1)]}, hw=1) == (3, 0)
    assert check("I14", logs, epochs={1: [(0, 0)]}) == (2, 1)
    assert check("I14", logs) == (0, 0)


def test_i14_what_was_deleted_is_not_in_the_epoch_file(check):
    """The segment still has the first batch, the file begins at the log's start; from there on it counts."""
    logs, epochs = {1: [A, NEWER]}, {1: [(1, 2)]}

    assert check("I14", logs, epochs=epochs, log_start=2) == (1, 0)
    assert check("I14", logs, epochs=epochs, log_start=0) == (2, 1)
    assert check("I14", logs, epochs={1: [(0, 2)]}, log_start=2) == (1, 1)


def test_i14_epoch_files_go_up(check):
    """Epochs and starts both grow from line to line; a leader's last entry may be empty."""
    assert check("I14", {1: [A]}, epochs={1: [(0, 0), (3, 2)]}) == (2, 0)
    assert check("I14", {1: [A]}, epochs={1: [(0, 0), (2, 2), (1, 3)]}) == (3, 1)
    assert check("I14", {1: [A]}, epochs={1: [(0, 0), (1, 2), (2, 2)]}) == (3, 1)


def test_i14_epochs_start_at_equal_offsets(check):
    """Below the high watermarks; above one of them a divergent tail may have begun elsewhere."""
    logs, epochs = {1: [A, NEWER], 2: [A, NEWER]}, {1: [(0, 0), (1, 2)], 2: [(0, 0), (1, 1)]}

    assert check("I14", logs, epochs=epochs, hw=3)[1] == 1
    assert check("I14", logs, epochs=epochs, hw=1)[1] == 0


def test_i17_sequence_numbers(check):
    """5 after 0..1 is a gap, 0 again a repetition; another epoch or producer counts for itself."""
    first = sequenced(0, (0, 1), 0)

    assert check("I17", {1: [first, sequenced(2, (2,), 2)]}) == (2, 0)
    assert check("I17", {1: [first, sequenced(2, (2,), 5)]}) == (2, 1)
    assert check("I17", {1: [first, sequenced(2, (2,), 0)]}) == (2, 1)
    assert check("I17", {1: [first, sequenced(2, (2,), 0, producer=(7, 1))]}) == (2, 0)


def test_i17_wraps_and_looks_at_the_final_log_only(check):
    """After 2^31 - 1 comes 0; plain producers and other replicas' tails are not asked."""
    assert check("I17", {1: [sequenced(0, (0,), 2**31 - 1), sequenced(1, (1,), 0)]}) == (2, 0)
    assert check("I17", {2: [sequenced(0, (0,), 0), sequenced(1, (1,), 9)]}) == (0, 0)
    assert check("I17", {1: [A, B]}) == (0, 0)
