"""The run folder and its seal."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history.errors import EvidenceError
from history.folder import SEAL, RunFolder, write_atomically, write_private

FILES = {
    "manifest.json": b"{}",
    "events.jsonl": b"",
    "sends/sends-producer.parquet": b"PAR1",
    "brokers/broker-1/data/orders-0/00.log": bytes(range(200)),
    "brokers/broker-1/data/verdict/odd.log": b"a topic may be named like a folder of ours",
}


def sealed_folder(path: Path) -> RunFolder:
    """Return a small run, collected and sealed."""
    for name, content in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    folder = RunFolder(path)
    folder.seal()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A small run, collected and sealed."""
    return sealed_folder(tmp_path / "a-run")


def test_a_whole_folder_has_no_differences(folder: RunFolder) -> None:
    """A sealed folder has no differences to its seal."""
    assert folder.is_sealed
    assert folder.check_seal() == []


def test_verdict_report_work_and_stages_may_change(folder: RunFolder) -> None:
    """Verdict, report, working files and stages may change after the seal."""
    for place in (folder.verdict, folder.report, folder.work):
        place.mkdir()
        (place / "anything").write_text("x")
    folder.stages.write_text("it is judged after it was collected")

    assert folder.check_seal() == []


@settings(max_examples=40)
@given(data=st.data())
def test_any_change_removal_or_addition_is_named(data: st.DataObject) -> None:
    """Every changed, removed or added file is named, and no other."""
    with tempfile.TemporaryDirectory() as path:
        folder = sealed_folder(Path(path))
        names = st.sampled_from(sorted(FILES))
        actions = data.draw(st.dictionaries(names, st.sampled_from(["change", "remove"]), max_size=3))
        added = data.draw(st.sets(st.sampled_from(["extra", "sends/extra.parquet", "brokers/x/y", ".hidden"])))
        for name, action in actions.items():
            file = folder.path / name
            if action == "remove":
                file.unlink()
            else:
                content = file.read_bytes()
                at = data.draw(st.integers(0, len(content)))
                file.write_bytes(content[:at] + b"~" + content[at:])
        for name in added:
            (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
            (folder.path / name).touch()

        expected = [
            f"{name} {'is missing' if done == 'remove' else 'was changed after sealing'}"
            for name, done in actions.items()
        ]
        expected += [f"{name} was added after sealing" for name in added]
        assert sorted(expected) == folder.check_seal()


def test_one_flipped_bit_is_a_change(folder: RunFolder) -> None:
    """One flipped bit is a change, although the length is the same."""
    log = folder.path / "brokers/broker-1/data/orders-0/00.log"
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)

    assert folder.check_seal() == ["brokers/broker-1/data/orders-0/00.log was changed after sealing"]


def test_what_is_mixed_from_two_runs_is_named(folder: RunFolder, tmp_path: Path) -> None:
    """A file from another run is an added one, and records in another order are a change."""
    other = sealed_folder(tmp_path / "another-run")
    (other.path / "sends/sends-producer.parquet").replace(folder.path / "sends/sends-other.parquet")
    (folder.path / "brokers/broker-1/data/orders-0/00.log").write_bytes(bytes(reversed(range(200))))

    assert folder.check_seal() == [
        "brokers/broker-1/data/orders-0/00.log was changed after sealing",
        "sends/sends-other.parquet was added after sealing",
    ]
    assert other.check_seal() == ["sends/sends-producer.parquet is missing"]


def test_an_interrupted_seal_can_be_done_again(tmp_path: Path) -> None:
    """An interrupted seal can be repeated; its temporary file counts as an ordinary file."""
    (tmp_path / f".{SEAL}.77").write_text("{")
    folder = sealed_folder(tmp_path)

    assert folder.check_seal() == []


def test_parts_are_checked_alone(folder: RunFolder) -> None:
    """Parts are checked separately, without other differences or names with the same prefix."""
    (folder.path / "sends" / "sends-producer.parquet").unlink()
    (folder.path / "sends-2").mkdir()
    (folder.path / "sends-2" / "a.parquet").write_bytes(b"PAR1")

    assert folder.check_seal("manifest.json", "brokers", "usage") == []
    assert folder.check_seal("events.jsonl", "sends") == ["sends/sends-producer.parquet is missing"]
    folder.require_intact("brokers")
    told = rf"{folder.path.name} is not what was sealed: sends-2/a\.parquet was added .*; sends/"
    with pytest.raises(EvidenceError, match=told):
        folder.require_intact()


def test_a_folder_that_was_never_sealed_is_no_evidence(tmp_path: Path) -> None:
    """A folder without a seal is no evidence, and the sentence names folder and file."""
    with pytest.raises(EvidenceError, match=r"a-run is no run folder .*: sealed\.json is missing\."):
        RunFolder(tmp_path / "a-run").check_seal()


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"7", b"\xff\xfe{}"])
def test_a_damaged_seal_is_no_evidence(folder: RunFolder, content: bytes) -> None:
    """A torn, foreign or binary seal is no evidence."""
    (folder.path / SEAL).write_bytes(content)

    with pytest.raises(EvidenceError, match=r"sealed\.json cannot be read as a list of files"):
        folder.check_seal()


def test_a_private_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Only the owner can read it, unlike other files."""
    write_private(tmp_path / "password", "s3cret")
    write_atomically(tmp_path / "notes", "")

    assert (tmp_path / "password").read_text() == "s3cret"
    assert stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "notes").stat().st_mode) & 0o044


def test_writing_aside_leaves_one_file(tmp_path: Path) -> None:
    """An atomic write replaces the old text and leaves no other file."""
    file = tmp_path / "manifest.json"
    write_atomically(file, "old")
    write_atomically(file, "new")

    assert [file] == list(tmp_path.iterdir())
    assert file.read_text() == "new"


def test_what_cannot_be_written_is_named_and_not_left(tmp_path: Path) -> None:
    """A failed write names the place and leaves no file."""
    file = tmp_path / "manifest.json"
    file.mkdir()

    with pytest.raises(OSError, match=str(file)):
        write_atomically(file, "new")
    assert [file] == list(tmp_path.iterdir())


def test_what_no_locale_can_write_is_not_left(tmp_path: Path) -> None:
    """After an encoding error the old text remains, without other files."""
    file = tmp_path / "manifest.json"
    write_atomically(file, "old")

    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "half of a pair: \ud800")
    assert [file] == list(tmp_path.iterdir())
    assert file.read_text() == "old"


def test_a_stream_is_written_and_never_replaced(tmp_path: Path) -> None:
    """A pipe or device is written and not replaced, by name, by file descriptor or through a link."""
    pipe, full = tmp_path / "pipe", tmp_path / "full"
    os.mkfifo(pipe)
    full.symlink_to("/dev/full")
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader, pipe.open("w") as writer:
        write_atomically(pipe, "by its name, ")
        write_atomically(Path(f"/dev/fd/{writer.fileno()}"), "by its number")
        assert reader.read() == "by its name, by its number"
    with pytest.raises(OSError, match=rf"No space left on device: '{full}'"):
        write_atomically(full, "text")

    assert pipe.is_fifo()
    assert full.is_symlink()


def test_what_is_open_is_written_where_it_stands(tmp_path: Path) -> None:
    """A file written by descriptor is appended to, as with ``> file``; by name it is replaced."""
    file = tmp_path / "out.txt"
    with file.open("w") as out:
        out.write("first\n")
        out.flush()
        write_atomically(Path(f"/dev/fd/{out.fileno()}"), "second\n")
    assert file.read_text() == "first\nsecond\n"

    write_atomically(file, "third\n")
    assert file.read_text() == "third\n"
    assert [file] == list(tmp_path.iterdir())


def test_places_lie_in_the_folder() -> None:
    """The judge's files are in verdict/, the recorded ones are not."""
    folder = RunFolder(Path("/runs/20260101-a"))

    assert folder.run_id == "20260101-a"
    assert folder.table("sends") == Path("/runs/20260101-a/sends")
    assert folder.judged("delivery") == Path("/runs/20260101-a/verdict/delivery")
    assert folder.verdict_file == Path("/runs/20260101-a/verdict/verdict.json")


def test_a_symbolic_link_is_no_evidence(folder: RunFolder, tmp_path: Path) -> None:
    """A symbolic link is no evidence: it is named and never followed, whether from before or after the seal."""
    (tmp_path / "secret").write_text("keep this")
    (folder.path / "brokers" / "secret").symlink_to(tmp_path / "secret")
    (folder.path / "away").symlink_to(tmp_path)
    linked = ["away is a symbolic link", "brokers/secret is a symbolic link"]

    assert folder.check_seal() == linked
    assert folder.check_seal("away", "events.jsonl") == linked[:1]
    folder.seal()
    assert folder.check_seal() == linked
    assert "secret" not in (folder.path / SEAL).read_text()
