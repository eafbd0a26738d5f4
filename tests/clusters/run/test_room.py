"""Room on a run's disk, on a real disk and on one that is said to be full."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusters.run import room
from clusters.run.room import SPARE_BYTES, Room, bytes_of
from history.errors import HarnessError
from history.folder import RunFolder

HELD = 1 << 20


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that holds a megabyte; looked at as often as it is asked for."""
    folder = RunFolder(tmp_path)
    (folder.work / "broker-1").mkdir(parents=True)
    (folder.work / "broker-1" / "0.log").write_bytes(bytes(HELD))
    monkeypatch.setattr(room, "EVERY_S", 0.0)
    return folder


def test_a_run_ends_before_what_it_holds_cannot_be_copied(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the last byte that is needed nothing is said, a byte less is refused in a sentence."""
    needed = bytes_of(run.work) + SPARE_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed))
    Room(run).check()

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed - 1))
    with pytest.raises(HarnessError) as full:
        Room(run).check()
    assert str(full.value) == (
        f"The disk of {run.path} is full: {needed - 1 >> 20} MB are free, and to collect this run takes "
        f"{needed >> 20} MB. The run was ended early; make room on that disk."
    )


def test_the_disk_is_not_looked_at_all_the_time(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait asks fifty times a second."""
    monkeypatch.setattr(room, "EVERY_S", 3600.0)
    disk = Room(run)
    disk.check()

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    disk.check()
    with pytest.raises(HarnessError):
        Room(run).check()


def test_between_two_counts_a_run_holds_what_has_gone_from_the_disk(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that counting, which takes long where there are many files, is done now and then."""
    counts = 0

    def counted(_: Path) -> int:
        nonlocal counts
        counts += 1
        return HELD

    monkeypatch.setattr(room, "bytes_of", counted)
    monkeypatch.setattr(room, "SHARE", 1e-9)
    needed = HELD + SPARE_BYTES
    free = iter([needed + 20 * HELD, needed + 10 * HELD, needed + 10 * HELD - 1])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    disk = Room(run)
    disk.check()
    disk.check()  # ten more are held, and ten are free
    with pytest.raises(HarnessError, match="is full"):
        disk.check()
    assert counts == 1


def test_holes_take_no_room(tmp_path: Path) -> None:
    """Kafka makes its index files large before they are filled."""
    with (tmp_path / "0.index").open("wb") as file:
        file.truncate(10 << 20)
    assert bytes_of(tmp_path) == 0

    (tmp_path / "0.log").write_bytes(bytes(HELD))
    assert bytes_of(tmp_path) >= HELD
