"""What a broker's disk holds: the counts of each replica, and what no sound broker leaves behind."""

import struct
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.errors import BadInput
from kafka_files.batches import CONTROL, TRANSACTIONAL
from kafka_files.inspection import inspect, is_open
from tests.evidence.folders import batch, sequenced, values
from tests.kafka_files.written import Record, batch_of, message

FIRST, SECOND = "00000000000000000000.log", "00000000000000000003.log"


def log_dir(folder, *, first=b"", second=None, epochs="0\n2\n0 0\n1 3\n", checkpoints=None):
    """A log directory with one replica of two segments."""
    replica = folder / "orders-0"
    replica.mkdir(parents=True)
    (replica / FIRST).write_bytes(first or batch(0, values(0, 1, 2)))
    (replica / SECOND).write_bytes(batch(3, values(3, 4), epoch=1) if second is None else second)
    (replica / "leader-epoch-checkpoint").write_text(epochs)
    for name, offset in (checkpoints or {}).items():
        (folder / name).write_text(f"0\n1\norders 0 {offset}\n")
    return folder


def end_marker(offset, producer_id, *, commit):
    """A control batch that ends a producer's transaction."""
    data = bytearray(batch_of(offset, [Record(key=struct.pack(">hh", 0, commit))], attributes=TRANSACTIONAL | CONTROL))
    struct.pack_into(">q", data, 43, producer_id)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def texts(folder, *, problems=True):
    """The problems, or the notes, of a log directory's only replica."""
    (replica,) = inspect([folder])
    return [each.text for each in replica.findings if each.is_problem is problems]


def test_a_sound_replica_is_counted(tmp_path):
    """Segments, batches, records, offsets, epochs and checkpoints, and no finding."""
    (replica,) = inspect([log_dir(tmp_path, checkpoints={"replication-offset-checkpoint": 5})])

    assert (replica.segments, replica.batches, replica.records) == (2, 2, 5)
    assert (replica.first_offset, replica.end_offset) == (0, 5)
    assert replica.epochs == [(0, 0, 2), (1, 3, 4)]
    assert replica.checkpoints == {"high watermark": 5}
    assert replica.findings == []


def test_a_changed_byte_is_a_problem(tmp_path):
    """It has its byte and its offset; what follows is read, and the offsets that it may hide are no gap."""
    sound = batch(3, values(3)) + batch(4, values(4)) + batch(5, values(5))
    size = len(sound) // 3
    damaged = sound[: size + 70] + b"\xff" + sound[size + 71 :]
    (replica,) = inspect([log_dir(tmp_path, second=damaged, epochs="0\n1\n0 0\n")])

    assert replica.findings == [(SECOND, size, 4, "bad crc", True)]
    assert replica.end_offset == 6


def test_a_gap_is_noted_and_offsets_that_go_back_are_a_problem(tmp_path):
    """Compaction leaves gaps; no broker writes an offset twice."""
    epochs = "0\n1\n0 0\n"
    gap = log_dir(tmp_path / "gap", second=batch(3, values(3)) + batch(7, values(7)), epochs=epochs)
    back = log_dir(tmp_path / "back", second=batch(3, values(3)) + batch(2, values(2)), epochs=epochs)

    assert (texts(gap), texts(gap, problems=False)) == ([], ["gap: offsets 4 to 6 are not there"])
    assert texts(back) == ["offsets go back: the log reached 3 before"]


def test_a_torn_tail_is_a_problem_where_another_segment_follows(tmp_path):
    """A broker that was killed leaves one in its last segment, and cuts it at its next start."""
    whole, torn = batch(0, values(0, 1, 2)), batch(0, values(0, 1, 2)) + b"torn"
    last = texts(log_dir(tmp_path / "last", first=whole, second=batch(3, values(3), epoch=1) + b"torn"), problems=False)

    assert last == ["torn tail: the last 4 bytes are no whole batch"]
    assert texts(log_dir(tmp_path / "first", first=torn)) == [
        "torn tail: the last 4 bytes are no whole batch, and another segment follows"
    ]
    assert texts(log_dir(tmp_path / "zeros", second=batch(3, values(3, 4), epoch=1) + bytes(80)), problems=False) == [
        "the last 80 bytes are zeros, as of a preallocated segment"
    ]


def test_a_segment_that_begins_before_its_name_is_a_problem(tmp_path):
    """Kafka finds a segment by its name."""
    assert texts(log_dir(tmp_path, first=batch(0, values(0)), second=batch(1, values(1)), epochs="0\n1\n0 0\n")) == [
        "the segment's name promises offsets from 3 on"
    ]


@pytest.mark.parametrize(
    ("epochs", "text"),
    [
        ("0\n1\n0 0\n", "epoch 1 of offsets 3 to 4 has no entry"),
        ("0\n2\n0 0\n1 4\n", "epoch 1 begins at 4; its batches have offsets 3 to 4"),
        ("0\n3\n0 0\n1 3\n2 4\n", "epoch 1 begins at 3, and a later one from 4; its batches have offsets 3 to 4"),
        ("0\n3\n0 0\n2 5\n1 3\n", "epoch 1 from 3 follows epoch 2 from 5"),
    ],
)
def test_an_epoch_file_that_contradicts_its_batches_is_a_problem(tmp_path, epochs, text):
    """Followers truncate by it; entries that retention removed are none."""
    assert texts(log_dir(tmp_path / "wrong", epochs=epochs)) == [text]
    assert texts(log_dir(tmp_path / "retention", epochs="0\n1\n1 3\n")) == []


def test_epochs_that_fall_are_a_problem(tmp_path):
    """A leader's epoch only grows."""
    falling = batch(3, values(3), epoch=2) + batch(4, values(4), epoch=1)

    assert "leader epoch falls from 2 to 1" in texts(log_dir(tmp_path, second=falling))


@pytest.mark.parametrize(
    ("file", "name"),
    [("replication-offset-checkpoint", "high watermark"), ("recovery-point-offset-checkpoint", "recovery point")],
)
def test_a_checkpoint_beyond_the_log_end_is_a_problem(tmp_path, file, name):
    """What it says was there is gone; at the log end it is as it should be."""
    assert texts(log_dir(tmp_path / "at", checkpoints={file: 5})) == []
    assert texts(log_dir(tmp_path / "beyond", checkpoints={file: 6})) == [
        f"the {name} of orders-0 is 6, beyond the log end offset 5"
    ]


def test_transactions_are_counted_and_open_ones_named(tmp_path):
    """A marker ends the transaction of its own producer only."""
    open_, ended = (sequenced(at, [at], 0, producer=(at, 0), attributes=TRANSACTIONAL) for at in (3, 4))
    (replica,) = inspect(
        [log_dir(tmp_path, second=open_ + ended + end_marker(5, 4, commit=True), epochs="0\n1\n0 0\n")]
    )

    assert (replica.commits, replica.aborts, replica.open_transactions) == (1, 0, [(3, 3)])
    assert (replica.records, replica.end_offset) == (5, 6)


def test_old_formats_are_counted_and_no_problem(tmp_path):
    """A batch of format 2 behind them is read; one that does not fit its CRC is a problem."""
    old = message(0, b"tiny", magic=0) + message(1, b"tiny", magic=1) + batch(2, values(2))
    (replica,) = inspect([log_dir(tmp_path / "old", first=old)])
    damaged = old.replace(b"tiny", b"tinY", 1)

    assert (replica.formats, replica.records, replica.findings) == ({0: 1, 1: 1, 2: 2}, 5, [])
    assert texts(log_dir(tmp_path / "damaged", first=damaged)) == ["bad crc"]


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data):
    """Damage is a finding, never an exception."""
    with TemporaryDirectory() as folder:
        (replica,) = inspect([log_dir(Path(folder), second=data)])
        assert replica.size_bytes == len(data) + len(batch(0, values(0, 1, 2)))


def test_one_segment_is_read_alone(tmp_path):
    """Checkpoints are of the whole log, so they are not compared."""
    folder = log_dir(tmp_path, epochs="0\n1\n0 0\n", checkpoints={"replication-offset-checkpoint": 9})
    (replica,) = inspect([folder / "orders-0" / SECOND])

    assert (replica.segments, replica.end_offset, replica.findings) == (1, 5, [])


def test_what_holds_no_segment_is_bad_input(tmp_path):
    """The sentence names the path and what is expected."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "server.log").write_text("a line")
    for path in (tmp_path / "none", tmp_path / "empty", tmp_path / "server.log"):
        with pytest.raises(BadInput, match=f"{path.name} .*segment"):
            list(inspect([path]))


def test_a_running_broker_is_recognised(tmp_path):
    """It holds a lock on its log directory; one that has ended does not."""
    (tmp_path / ".lock").touch()
    held = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", held, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        broker.stdout.readline()
        assert is_open(tmp_path)
        broker.communicate(b"\n")
    assert not is_open(tmp_path)
