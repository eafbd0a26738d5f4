"""A broker's disk: the counts of each replica, and problems that a sound broker never leaves."""

import os
import struct
import subprocess
import sys
from contextlib import contextmanager
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
    """Write a log directory with one replica of two segments."""
    replica = folder / "orders-0"
    replica.mkdir(parents=True)
    (replica / FIRST).write_bytes(first or batch(0, values(0, 1, 2)))
    (replica / SECOND).write_bytes(batch(3, values(3, 4), epoch=1) if second is None else second)
    (replica / "leader-epoch-checkpoint").write_text(epochs)
    for name, offset in (checkpoints or {}).items():
        (folder / name).write_text(f"0\n1\norders 0 {offset}\n")
    return folder


def end_marker(offset, producer_id, *, commit):
    """Return a control batch that ends a producer's transaction."""
    data = bytearray(batch_of(offset, [Record(key=struct.pack(">hh", 0, commit))], attributes=TRANSACTIONAL | CONTROL))
    struct.pack_into(">q", data, 43, producer_id)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def texts(folder, *, problems=True):
    """Return the problems, or the notes, of a log directory's only replica."""
    (replica,) = inspect([folder])
    return [each.text for each in replica.findings if each.is_problem is problems]


def test_a_sound_replica_is_counted(tmp_path):
    """A sound replica has counts of segments, batches, records, offsets, epochs and checkpoints, without findings."""
    (replica,) = inspect([log_dir(tmp_path, checkpoints={"replication-offset-checkpoint": 5})])

    assert (replica.segments, replica.batches, replica.records) == (2, 2, 5)
    assert (replica.first_offset, replica.end_offset) == (0, 5)
    assert replica.epochs == [(0, 0, 2), (1, 3, 4)]
    assert replica.checkpoints == {"high watermark": 5}
    assert replica.findings == []


def test_a_changed_byte_is_a_problem(tmp_path):
    """A changed byte is a problem with byte and offset; later batches are read, and its hidden offsets are no gap."""
    sound = batch(3, values(3)) + batch(4, values(4)) + batch(5, values(5))
    size = len(sound) // 3
    damaged = sound[: size + 70] + b"\xff" + sound[size + 71 :]
    (replica,) = inspect([log_dir(tmp_path, second=damaged, epochs="0\n1\n0 0\n")])

    assert replica.findings == [(SECOND, size, 4, "bad crc", True)]
    assert replica.end_offset == 6


def test_a_gap_is_noted_and_offsets_that_go_back_are_a_problem(tmp_path):
    """A gap is a note, as compaction leaves gaps; decreasing offsets are a problem."""
    epochs = "0\n1\n0 0\n"
    gap = log_dir(tmp_path / "gap", second=batch(3, values(3)) + batch(7, values(7)), epochs=epochs)
    back = log_dir(tmp_path / "back", second=batch(3, values(3)) + batch(2, values(2)), epochs=epochs)

    assert (texts(gap), texts(gap, problems=False)) == ([], ["gap: offsets 4 to 6 are not there"])
    assert texts(back) == ["offsets go back: the log reached 3 before"]


def test_a_torn_tail_is_a_problem_where_another_segment_follows(tmp_path):
    """A torn tail is a note in the last segment, as after a kill, and a problem before another segment."""
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
    """A segment with offsets below its name is a problem, since Kafka finds a segment by its name."""
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
    """An epoch file that contradicts its batches is a problem; entries removed by retention are not."""
    assert texts(log_dir(tmp_path / "wrong", epochs=epochs)) == [text]
    assert texts(log_dir(tmp_path / "retention", epochs="0\n1\n1 3\n")) == []


def test_epochs_that_fall_are_a_problem(tmp_path):
    """A decreasing leader epoch is a problem."""
    falling = batch(3, values(3), epoch=2) + batch(4, values(4), epoch=1)

    assert "leader epoch falls from 2 to 1" in texts(log_dir(tmp_path, second=falling))


@pytest.mark.parametrize(
    ("file", "name"),
    [("replication-offset-checkpoint", "high watermark"), ("recovery-point-offset-checkpoint", "recovery point")],
)
def test_a_checkpoint_beyond_the_log_end_is_a_problem(tmp_path, file, name):
    """A checkpoint beyond the log end offset is a problem; one equal to it is not."""
    assert texts(log_dir(tmp_path / "at", checkpoints={file: 5})) == []
    assert texts(log_dir(tmp_path / "beyond", checkpoints={file: 6})) == [
        f"the {name} of orders-0 is 6, beyond the log end offset 5"
    ]


def test_transactions_are_counted_and_open_ones_named(tmp_path):
    """Transactions are counted and open ones named; a marker ends only its producer's transaction."""
    open_, ended = (sequenced(at, [at], 0, producer=(at, 0), attributes=TRANSACTIONAL) for at in (3, 4))
    (replica,) = inspect(
        [log_dir(tmp_path, second=open_ + ended + end_marker(5, 4, commit=True), epochs="0\n1\n0 0\n")]
    )

    assert (replica.commits, replica.aborts, replica.open_transactions) == (1, 0, [(3, 3)])
    assert (replica.records, replica.end_offset) == (5, 6)


def test_old_formats_are_counted_and_no_problem(tmp_path):
    """Old formats are counted without a problem, unless a message fails its CRC; a later batch is read."""
    old = message(0, b"tiny", magic=0) + message(1, b"tiny", magic=1) + batch(2, values(2))
    (replica,) = inspect([log_dir(tmp_path / "old", first=old)])
    damaged = old.replace(b"tiny", b"tinY", 1)

    assert (replica.formats, replica.records, replica.findings) == ({0: 1, 1: 1, 2: 2}, 5, [])
    assert texts(log_dir(tmp_path / "damaged", first=damaged)) == ["bad crc"]


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data):
    """Any bytes are read, and damage is a finding, never an exception."""
    with TemporaryDirectory() as folder:
        (replica,) = inspect([log_dir(Path(folder), second=data)])
        assert replica.size_bytes == len(data) + len(batch(0, values(0, 1, 2)))


def test_one_segment_is_read_alone(tmp_path):
    """A single segment is read without comparison to checkpoints, which cover the whole log."""
    folder = log_dir(tmp_path, epochs="0\n1\n0 0\n", checkpoints={"replication-offset-checkpoint": 9})
    (replica,) = inspect([folder / "orders-0" / SECOND])

    assert (replica.segments, replica.end_offset, replica.findings) == (1, 5, [])


def test_whole_batches_behind_damage_are_a_problem_and_read(tmp_path):
    """Complete batches behind damage are a problem and are read; a cut last batch is a note."""
    sound = [batch(at, values(at)) for at in (3, 4, 5)]
    size = len(sound[0])
    wrong = bytearray(b"".join(sound))
    wrong[size + 9] ^= 0x10
    epochs = "0\n1\n0 0\n"
    (replica,) = inspect([log_dir(tmp_path / "wrong", second=bytes(wrong), epochs=epochs)])
    cut = log_dir(tmp_path / "cut", second=b"".join(sound)[:-1], epochs=epochs)

    assert [each.text for each in replica.findings if each.is_problem] == [
        f"bytes {size} to {2 * size - 1} cannot be read; the next whole batch begins at byte {2 * size} with offset 5"
    ]
    assert (replica.records, replica.end_offset, replica.notes) == (5, 6, 0)
    assert texts(cut) == []
    assert texts(cut, problems=False) == [f"torn tail: the last {size - 1} bytes are no whole batch"]


def test_a_length_that_leads_into_another_batch_hides_none_behind(tmp_path):
    """A length that points into another batch is one problem, and the sound batches behind it are read."""
    sound = [batch(at, values(at)) for at in (3, 4, 5, 6)]
    size = len(sound[0])
    wrong = bytearray(b"".join(sound))
    struct.pack_into(">i", wrong, size + 8, size + 20)
    folder = log_dir(tmp_path, second=bytes(wrong), epochs="0\n1\n0 0\n")

    assert texts(folder) == [
        f"bytes {size} to {2 * size - 1} cannot be read; the next whole batch begins at byte {2 * size} with offset 5"
    ]


def test_other_bytes_at_the_end_are_a_problem(tmp_path):
    """Non-zero bytes at the end are a problem; zeros are a note, up to the last byte."""
    sound = batch(3, values(3, 4), epoch=1)

    assert texts(log_dir(tmp_path / "other", second=sound + b"\xee" * 80)) == [
        "the last 80 bytes are no batch, and no whole batch follows in them"
    ]
    assert texts(log_dir(tmp_path / "zeros", second=sound + bytes(1 << 17))) == []
    assert texts(log_dir(tmp_path / "almost", second=sound + bytes(1 << 17) + b"x")) != []


def test_one_wrong_base_offset_is_one_problem(tmp_path):
    """A wrong base offset is one problem, and the batches behind it are sound."""
    second = batch(3, values(3)) + batch(900, values(4)) + batch(5, values(5)) + batch(6, values(6))
    (replica,) = inspect([log_dir(tmp_path, second=second, epochs="0\n1\n0 0\n")])

    assert [each.text for each in replica.findings] == [
        "base offset 900 does not fit its neighbours: 4 is expected (the CRC does not cover base offsets)"
    ]
    assert replica.end_offset == 7


def test_findings_that_are_alike_are_counted_by_kind(tmp_path):
    """Findings are counted by kind, regardless of numbers and quoted lines."""
    gaps = b"".join(batch(at, values(at)) for at in (3, 5, 8))
    (replica,) = inspect([log_dir(tmp_path, second=gaps, epochs="0\n1\n0 0\n")])

    assert [each.text for each in replica.findings] == [
        "gap: offset 4 is not there",
        "gap: offsets 6 to 7 are not there",
    ]
    assert replica.kinds == {"gap: offset N is not there": 2}


@pytest.mark.parametrize(
    ("epochs", "text"),
    [
        ("", "the file has no entry, although the log has batches"),
        ("0\n0\n", "the file has no entry, although the log has batches"),
        ("0\nx\n", 'line 2 is no number of entries: "x"'),
    ],
)
def test_a_log_with_batches_needs_leader_epochs(tmp_path, epochs, text):
    """A log with batches needs leader epochs, except in formats 0 and 1."""
    folder = log_dir(tmp_path / "new", epochs=epochs)
    old = log_dir(tmp_path / "old", first=message(0, b"tiny", magic=1), second=b"", epochs="")

    assert texts(folder) == [text]
    assert texts(old) == []


def test_a_missing_leader_epoch_checkpoint_is_a_note(tmp_path):
    """A missing leader-epoch checkpoint is a note, since a broker rebuilds it."""
    folder = log_dir(tmp_path / "new")
    (folder / "orders-0" / "leader-epoch-checkpoint").unlink()
    (replica,) = inspect([folder])

    assert (replica.problems, replica.notes) == (0, 1)
    assert [found.text for found in replica.findings] == [
        "the file is missing, although the log has batches; a broker rebuilds it"
    ]


def test_a_broken_offset_checkpoint_is_reported_once(tmp_path):
    """A broken offset checkpoint is reported once, with the first replica of the log directory."""
    folder = log_dir(tmp_path, checkpoints={"replication-offset-checkpoint": -7})
    (folder / "orders-1").mkdir()
    (folder / "orders-1" / FIRST).write_bytes(b"")

    assert [[each.text for each in replica.findings] for replica in inspect([folder])] == [
        ['line 3 is not a topic, a partition and an offset: "orders 0 -7"'],
        [],
    ]


@pytest.mark.parametrize(
    ("left", "text", "is_problem"),
    [
        (
            ["index", "timeindex"],
            "gap: offsets 3 to 6 are not there; segment 00000000000000000003.log is missing "
            "(left behind: .index, .timeindex)",
            True,
        ),
        (["snapshot"], "gap: offsets 3 to 6 are not there", False),
        (["index", "log.deleted"], "gap: offsets 3 to 6 are not there", False),
    ],
)
def test_index_files_name_a_segment_that_is_missing(tmp_path, left, text, is_problem):
    """A gap is a problem if index files name a missing segment, and a note otherwise, as compaction leaves gaps."""
    folder = log_dir(tmp_path, epochs="0\n1\n0 0\n")
    replica = folder / "orders-0"
    (replica / SECOND).rename(replica / "00000000000000000007.log")
    (replica / "00000000000000000007.log").write_bytes(batch(7, values(7)))
    for suffix in left:
        (replica / f"00000000000000000003.{suffix}").touch()

    assert texts(folder, problems=is_problem) == [text]
    assert texts(folder, problems=not is_problem) == []


def test_a_first_or_last_segment_that_is_missing_is_named_by_its_index(tmp_path):
    """An index without its segment names a missing first or last segment."""
    folder = log_dir(tmp_path)
    (folder / "orders-0" / "00000000000000000003.index").touch()
    assert texts(folder) == []

    (folder / "orders-0" / "00000000000000000005.index").touch()
    assert texts(folder) == ["the segment is missing (left behind: .index)"]


@pytest.mark.parametrize(
    ("log_start", "problems", "notes"),
    [
        (None, ["the first epoch begins at 0, and the first segment at 3: offsets 0 to 2 are lost, and no log start "
                "offset explains it"], []),
        (3, [], []),
        (1, [], ["the first epoch begins at 0, and the first segment at 3; the log start offset is 1: the segments "
                 "between are in tiered storage, or lost"]),
    ],
)  # fmt: skip
def test_a_first_epoch_before_the_first_segment_is_a_problem(tmp_path, log_start, problems, notes):
    """A first epoch below the first segment is a problem unless a log start offset explains it."""
    told = {} if log_start is None else {"log-start-offset-checkpoint": log_start}
    folder = log_dir(tmp_path, checkpoints=told)
    (folder / "orders-0" / FIRST).unlink()

    assert (texts(folder), texts(folder, problems=False)) == (problems, notes)


def test_an_empty_segment_in_the_middle_is_named(tmp_path):
    """An empty segment in the middle is a note if compaction may have left it; an empty last segment is a new one."""
    folder = log_dir(tmp_path, epochs="0\n1\n0 0\n")
    (folder / "orders-0" / SECOND).write_bytes(b"")
    assert (texts(folder), texts(folder, problems=False)) == ([], [])

    (folder / "orders-0" / "00000000000000000005.log").touch()
    assert texts(folder, problems=False) == ["0 bytes, and another segment follows, as compaction may leave"]

    (folder / "cleaner-offset-checkpoint").write_text("0\n1\norders 1 5\n")
    assert texts(folder) == ["0 bytes, and another segment follows; the partition was never compacted"]


def test_what_is_no_file_is_a_problem(tmp_path):
    """A folder or a broken link in a segment's place is a problem, and the other segment is read."""
    folder = log_dir(tmp_path, epochs="0\n1\n1 3\n")
    (folder / "orders-0" / FIRST).unlink()
    (folder / "orders-0" / FIRST).mkdir()
    assert texts(folder) == ["is a directory, not a segment"]

    (folder / "orders-0" / FIRST).rmdir()
    (folder / "orders-0" / FIRST).symlink_to("/nope")
    assert texts(folder) == ["is a link to /nope, which does not exist"]


@pytest.mark.parametrize(
    ("error", "text", "is_problem"),
    [
        (PermissionError(13, "Permission denied"), "cannot be read (permission denied)", True),
        (
            FileNotFoundError(2, "No such file or directory"),
            "cannot be read (no such file or directory): it was deleted since the folder was listed, as by retention",
            False,
        ),
    ],
)
def test_a_segment_that_cannot_be_opened_is_one_finding(tmp_path, monkeypatch, error, text, is_problem):
    """A segment that cannot be opened is one finding, without a gap, and the other segment is read."""

    @contextmanager
    def refuse_first(file):
        if file.name == FIRST:
            raise error
        yield file.read_bytes()

    monkeypatch.setattr("kafka_files.log_reader.mapped", refuse_first)
    folder = log_dir(tmp_path, epochs="0\n1\n1 3\n")

    assert texts(folder, problems=is_problem) == [text]
    assert texts(folder, problems=not is_problem) == []


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path, monkeypatch):
    """A folder that cannot be listed is a problem of its replica, which has no segments; lost+found is no replica."""

    def walk(path, onerror):
        for name in ("lost+found", "orders-1"):
            onerror(PermissionError(13, "Permission denied", str(path / name)))
        yield from real_walk(path)

    folder, real_walk = log_dir(tmp_path), os.walk
    monkeypatch.setattr("os.walk", walk)

    assert [(each.folder.name, [finding.text for finding in each.findings]) for each in inspect([folder])] == [
        ("orders-0", []),
        ("orders-1", ["cannot be read (permission denied)"]),
    ]


def test_what_holds_no_segment_is_bad_input(tmp_path):
    """A path without a segment is bad input, and the sentence names the path and what is expected."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "server.log").write_text("a line")
    for path in (tmp_path / "none", tmp_path / "empty", tmp_path / "server.log"):
        with pytest.raises(BadInput, match=f"{path.name} .*segment"):
            list(inspect([path]))


def test_a_running_broker_is_recognised(tmp_path):
    """A running broker is detected by the lock on its log directory."""
    (tmp_path / ".lock").touch()
    held = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", held, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        broker.stdout.readline()
        assert is_open(tmp_path)
        broker.communicate(b"\n")
    assert not is_open(tmp_path)
