"""Temporary folders of killed processes."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from clusters.paths import ROOT
from history.errors import NotRemoved
from history.scratch import remove_scratch, scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_with_its_block(temporary: Path) -> None:
    """A scratch folder is private, and is removed with its contents at the end of the block."""
    with scratch() as folder:
        assert [*folder.iterdir()] == []
        (folder / "secrets").write_text("x")
        assert folder.parent.stat().st_mode & 0o077 == 0
    assert [*temporary.iterdir()] == []


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(temporary: Path) -> None:
    """Folders of killed processes are removed; folders in use and other tools' with a similar name stay."""
    holds = "from history.scratch import scratch\nwith scratch() as folder: print(folder, flush=True); input()"
    (temporary / "plimsoll-other").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", holds],
        cwd=ROOT,
        env={"TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        assert remove_scratch() == []
        process.send_signal(signal.SIGKILL)
    assert folder.is_dir()

    assert remove_scratch() == [folder.parent.name]
    assert [path.name for path in temporary.iterdir()] == ["plimsoll-other"]


def test_a_link_to_a_folder_is_not_followed(temporary: Path) -> None:
    """A symbolic link is not followed, so that other users' folders are safe in /tmp."""
    (temporary / "mine").mkdir()
    (temporary / "mine" / "lock").touch()
    (temporary / "plimsoll-trap").symlink_to(temporary / "mine")

    assert remove_scratch() == []
    assert (temporary / "mine" / "lock").exists()


def test_one_that_cannot_be_removed_keeps_no_other(temporary: Path) -> None:
    """A folder that cannot be removed is named, and the others are removed."""
    (temporary / "plimsoll-a" / "lock").mkdir(parents=True)  # no lock can be taken
    (temporary / "plimsoll-b").mkdir()
    (temporary / "plimsoll-b" / "lock").touch()

    with pytest.raises(NotRemoved, match="plimsoll-a/lock") as error:
        remove_scratch()
    assert error.value.removed == ["plimsoll-b"]
