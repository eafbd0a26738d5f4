"""Checkpoint files: entries in order, without torn lines."""

import pytest

from history.partition import TopicPartition
from kafka_files.checkpoints import faults, read_epochs, read_offsets


def test_epochs_are_read_in_their_order(tmp_path):
    """Epochs are read in order after version and count; a missing file is None and an empty one has no entry."""
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_text("0\n2\n2 30\n0 0\n")
    (tmp_path / "empty").write_text("0\n0\n")

    assert read_epochs(file) == [(2, 30), (0, 0)]
    assert read_epochs(tmp_path / "empty") == []
    assert read_epochs(tmp_path / "none") is None


def test_offsets_are_read_by_replica(tmp_path):
    """Offsets are read by replica, also of topics with a dash."""
    file = tmp_path / "replication-offset-checkpoint"
    file.write_text("0\n3\norders 0 42\norders 1 7\norders-0 10 9\n")

    assert read_offsets(file) == {
        TopicPartition("orders", 0): 42,
        TopicPartition("orders", 1): 7,
        TopicPartition("orders-0", 10): 9,
    }
    assert read_offsets(tmp_path / "none") is None


def test_torn_and_strange_lines_are_left_out(tmp_path):
    """Torn and malformed lines are skipped, and complete ones are read."""
    epochs, offsets = tmp_path / "epochs", tmp_path / "offsets"
    epochs.write_bytes(b"0\n3\n0 0\n1 x\n2\n3 17 4\n\xff\xfe\n4 20\n5 " + b"9" * 40 + b"\n")
    offsets.write_bytes(b"0\n3\norders 0 42\norders 1\norders 2 \xff\norders 3 -1\n")

    assert read_epochs(epochs) == [(0, 0), (4, 20)]
    assert read_offsets(offsets) == {TopicPartition("orders", 0): 42}


def test_a_last_line_without_its_end_is_torn(tmp_path):
    """A last line without its line end is torn, since a cut number is another number."""
    epochs, offsets = tmp_path / "epochs", tmp_path / "offsets"
    epochs.write_text("0\n2\n0 0\n7 1")  # of "7 100"
    offsets.write_text("0\n2\norders 0 42\norders 1 7")

    assert read_epochs(epochs) == [(0, 0)]
    assert read_offsets(offsets) == {TopicPartition("orders", 0): 42}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),  # as Kafka creates it
        (b"0\n1\n0 0\n", []),
        (b"hello\n", ['line 1 is no version: "hello" instead of 0']),
        (b"0\n", ["line 2, the number of entries, is missing"]),
        (b"0\nx\n0 0\n", ['line 2 is no number of entries: "x"']),
        (b"0\n2\n0 0\n1 -3\n", ['line 4 is not an epoch and its first offset: "1 -3"']),
        (b"0\n2\n0 0\n", ["line 2 announces 2 entries; whole entries found: 1"]),
        (
            b"0\n2\n0 0\n1 3",
            ['line 4 is torn: "1 3" has no line end; line 2 announces 2 entries; whole entries found: 1'],
        ),
        (b"\x07\xff", ['line 1 is torn: "\\x07\ufffd" has no line end']),
    ],
)
def test_what_is_wrong_with_a_file_is_named_by_line(tmp_path, data, expected):
    """Errors of a file that Kafka rejects are named with the line; a missing file has none."""
    (tmp_path / "leader-epoch-checkpoint").write_bytes(data)

    assert faults(tmp_path / "leader-epoch-checkpoint") == expected
    assert faults(tmp_path / "none") == []


def test_offset_checkpoints_have_entries_of_three_fields(tmp_path):
    """Entries of offset checkpoints have three fields; the first wrong line is quoted, and others are counted."""
    file = tmp_path / "replication-offset-checkpoint"
    file.write_text("0\n3\norders 0 -7\norders 1 7\norders 2\n")

    assert faults(file) == ['line 3 is not a topic, a partition and an offset: "orders 0 -7"; 2 such lines in all']


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """An unreadable file, such as a folder, is named."""
    assert faults(tmp_path) == ["cannot be read (is a directory)"]
