"""Resource limits of containers, with fake containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.runtimes.docker.daemon import Daemon
from clusters.runtimes.docker.limits import block_device
from clusters.runtimes.docker.runtime import DockerRuntime
from history.errors import BadInput


class Updated:
    """A container that records its changed limits."""

    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []

    def update(self, **change: Any) -> None:
        self.changes.append(change)


def test_cpu_time_is_a_quota_of_short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU limit is a quota over 20 ms periods; without one it is unlimited, and unnamed CPUs are not changed."""
    container = Updated()
    monkeypatch.setattr(Daemon, "container", lambda _self, _name: container)
    limits = DockerRuntime(Path("/runs/a-run")).resource_limits
    limits.limit_cpu("broker-1", 0.3, "0")
    limits.limit_cpu("broker-1", None, None)

    assert container.changes == [
        {"cpu_period": 20_000, "cpu_quota": 6000, "cpuset_cpus": "0"},
        {"cpu_period": 20_000, "cpu_quota": -1},
    ]


def test_a_folder_lies_on_a_disk_or_on_none(tmp_path: Path) -> None:
    """A folder without a block device, such as one in /proc, has no disk limit."""
    with pytest.raises(BadInput, match="disk_read cannot be limited: /proc/x lies on no block device"):
        block_device(Path("/proc/x"))


def test_a_partition_is_limited_by_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block device of a partition is its whole disk, since the kernel limits whole disks only."""
    (tmp_path / "sda" / "sda1").mkdir(parents=True)
    monkeypatch.setattr(Path, "resolve", lambda _self: tmp_path / "sda" / "sda1")
    assert block_device(tmp_path) == "/dev/sda1"

    (tmp_path / "sda" / "sda1" / "partition").touch()
    assert block_device(tmp_path) == "/dev/sda"
