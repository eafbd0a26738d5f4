"""Checkpoint files: entries in their order, torn lines left out."""

from history.partition import TopicPartition
from kafka_files.checkpoints import read_epochs, read_offsets


def test_epochs_are_read_in_their_order(tmp_path):
    """Version and count stand before the entries; no file is not an empty one."""
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_text("0\n2\n2 30\n0 0\n")
    (tmp_path / "empty").write_text("0\n0\n")

    assert read_epochs(file) == [(2, 30), (0, 0)]
    assert read_epochs(tmp_path / "empty") == []
    assert read_epochs(tmp_path / "none") is None


def test_offsets_are_read_by_replica(tmp_path):
    """A topic's partitions are told apart, and so is a topic with a dash."""
    file = tmp_path / "replication-offset-checkpoint"
    file.write_text("0\n3\norders 0 42\norders 1 7\norders-0 10 9\n")

    assert read_offsets(file) == {
        TopicPartition("orders", 0): 42,
        TopicPartition("orders", 1): 7,
        TopicPartition("orders-0", 10): 9,
    }
    assert read_offsets(tmp_path / "none") is None


def test_torn_and_strange_lines_are_left_out(tmp_path):
    """A file that was cut, or whose bytes are others, gives the lines that are whole."""
    epochs, offsets = tmp_path / "epochs", tmp_path / "offsets"
    epochs.write_bytes(b"0\n3\n0 0\n1 x\n2\n3 17 4\n\xff\xfe\n4 20\n5 " + b"9" * 40 + b"\n")
    offsets.write_bytes(b"0\n3\norders 0 42\norders 1\norders 2 \xff\norders 3 -1\n")

    assert read_epochs(epochs) == [(0, 0), (4, 20)]
    assert read_offsets(offsets) == {TopicPartition("orders", 0): 42}


def test_a_last_line_without_its_end_is_torn(tmp_path):
    """Kafka ends each line: a number that was cut is another number."""
    epochs, offsets = tmp_path / "epochs", tmp_path / "offsets"
    epochs.write_text("0\n2\n0 0\n7 1")  # of "7 100"
    offsets.write_text("0\n2\norders 0 42\norders 1 7")

    assert read_epochs(epochs) == [(0, 0)]
    assert read_offsets(offsets) == {TopicPartition("orders", 0): 42}
