"""Free disk space of a run, on a real disk and on one that reports itself full."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusters.live import disk_space
from clusters.live.disk_space import SPARE_BYTES, DiskSpace, bytes_of
from history.errors import HarnessError
from history.folder import RunFolder

HELD = 1 << 20


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run with 1 MB of client streams and 10 MB of broker files, checked on every call."""
    folder = RunFolder(tmp_path)
    for name, size in {"streams/sends-0.arrow": HELD, "broker-1/0.log": 10 * HELD}.items():
        (folder.work / name).parent.mkdir(parents=True)
        (folder.work / name).write_bytes(bytes(size))
    monkeypatch.setattr(disk_space, "EVERY_S", 0.0)
    return folder


def test_a_run_ends_before_what_it_recorded_cannot_be_written(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends early if the disk lacks space for the tables that it will write: twice its streams plus a reserve."""
    needed = 2 * bytes_of(run.work / "streams") + SPARE_BYTES
    assert 2 * HELD <= needed - SPARE_BYTES < 3 * HELD
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed))
    DiskSpace(run).check()

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed - 1))
    with pytest.raises(HarnessError) as full:
        DiskSpace(run).check()
    assert str(full.value) == (
        f"The disk of {run.path} is full: {needed - 1 >> 20} MB are free, and to collect this run takes "
        f"{needed >> 20} MB. The run was ended early; free space on that disk."
    )


def test_the_disk_is_not_looked_at_all_the_time(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is checked at most once per interval, since a wait polls it fifty times a second."""
    monkeypatch.setattr(disk_space, "EVERY_S", 3600.0)
    disk = DiskSpace(run)
    disk.check()

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    disk.check()
    with pytest.raises(HarnessError):
        DiskSpace(run).check()


def test_holes_take_no_room(tmp_path: Path) -> None:
    """Sparse files count only their written bytes, as Kafka's preallocated indexes."""
    with (tmp_path / "0.index").open("wb") as file:
        file.truncate(10 << 20)
    assert bytes_of(tmp_path) == 0

    (tmp_path / "0.log").write_bytes(bytes(HELD))
    assert bytes_of(tmp_path) >= HELD
