"""Control groups of versions 1 and 2, laid out in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.runtimes import cgroups


def laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, membership: str, files: dict[str, str]) -> None:
    """Lay out a host on which process 7 is in these groups, and the groups have these files."""
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(membership)
    for name, content in files.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(content)
    monkeypatch.setattr(cgroups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroups, "ROOT", tmp_path / "cgroup")


V1 = "5:cpuset:/docker/x\n4:cpu,cpuacct:/docker/x\n3:blkio:/docker/x\n0::/docker/x\n"


def test_version_1_has_a_hierarchy_per_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 has a hierarchy per controller; throttled time is in nanoseconds and CPU time in another file."""
    files = {
        "cpu/docker/x/cpu.cfs_quota_us": "6000\n",
        "cpu/docker/x/cpu.cfs_period_us": "20000\n",
        "cpu/docker/x/cpu.stat": "nr_periods 50\nnr_throttled 13\nthrottled_time 61\n",
        "cpuacct/docker/x/cpuacct.usage": "900\n",
        "cpuset/docker/x/cpuset.cpus": "0\n",
        "blkio/docker/x/blkio.throttle.read_bps_device": "254:0 5000000\n",
        "blkio/docker/x/blkio.throttle.write_bps_device": "\n",
    }
    laid_out(tmp_path, monkeypatch, V1, files)

    assert cgroups.cpu_limits(7) == {"cpu_quota": "6000 20000", "cpu_set": "0"}
    assert cgroups.disk_limits(7) == {"disk_read": "254:0 5000000"}
    assert cgroups.cpu_counters(7) == {
        "cpu_periods": 50,
        "cpu_throttled_periods": 13,
        "cpu_throttled_ns": 61,
        "cpu_ns": 900,
    }


def test_version_2_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 2 has one hierarchy; times are in microseconds."""
    files = {
        "docker/x/cpu.max": "6000 20000\n",
        "docker/x/cpuset.cpus.effective": "0-1\n",
        "docker/x/cpu.stat": "usage_usec 9\nnr_periods 50\nnr_throttled 13\nthrottled_usec 61\n",
        "docker/x/io.max": "254:0 rbps=5000000 wbps=max\n",
    }
    laid_out(tmp_path, monkeypatch, "0::/docker/x\n", files)

    assert cgroups.cpu_limits(7) == {"cpu_quota": "6000 20000", "cpu_set": "0-1"}
    assert cgroups.disk_limits(7) == dict.fromkeys(("disk_read", "disk_write"), "254:0 rbps=5000000 wbps=max")
    assert cgroups.cpu_counters(7) == {
        "cpu_periods": 50,
        "cpu_throttled_periods": 13,
        "cpu_throttled_ns": 61_000,
        "cpu_ns": 9000,
    }


def test_no_quota_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a quota, version 1's -1 is reported as version 2's max."""
    files = {"cpu/docker/x/cpu.cfs_quota_us": "-1\n", "cpu/docker/x/cpu.cfs_period_us": "100000\n"}
    laid_out(tmp_path, monkeypatch, V1, files)

    assert cgroups.cpu_limits(7) == {"cpu_quota": "max 100000"}


def test_what_the_kernel_does_not_say_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of files or processes that do not exist are absent, not zero."""
    laid_out(tmp_path, monkeypatch, "0::/docker/x\n", {})

    for pid in (7, 8):
        assert (cgroups.cpu_limits(pid), cgroups.disk_limits(pid), cgroups.cpu_counters(pid)) == ({}, {}, {})


@pytest.mark.parametrize(
    ("membership", "file", "lines"),
    [
        (V1, "blkio/docker/x/blkio.throttle.write_bps_device", ["254:0 200000", "254:0 0"]),
        ("0::/docker/x\n", "docker/x/io.max", ["254:0 wbps=200000", "254:0 wbps=max"]),
    ],
)
def test_what_is_written_to_a_disk_is_limited_in_each_version_s_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, membership: str, file: str, lines: list[str]
) -> None:
    """A write limit is a file per limit in version 1, and a line of io.max in version 2."""
    laid_out(tmp_path, monkeypatch, membership, {})

    assert [cgroups.write_limit(7, "254:0", rate) for rate in (200_000.0, None)] == [
        (Path(file), line) for line in lines
    ]


def test_a_kernel_limits_disks_by_either_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disk limits need version 1's throttle file or version 2's io controller."""
    throttles = []
    for file, text in {"cgroup.controllers": "cpu memory", "blkio/blkio.throttle.write_bps_device": ""}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
        monkeypatch.setattr(cgroups, "ROOT", tmp_path)
        throttles.append(cgroups.throttles_disks())
        (tmp_path / file).unlink()
    (tmp_path / "cgroup.controllers").write_text("cpu io memory")

    assert [*throttles, cgroups.throttles_disks()] == [False, True, True]


@pytest.mark.parametrize(
    ("files", "pauses"),
    [
        ({"proc/cgroups": "cpu\t1\t9\t1\nfreezer\t6\t9\t1\n"}, True),
        ({"proc/cgroups": "cpu\t1\t9\t1\nfreezer\t0\t1\t1\n"}, False),  # mounted nowhere
        ({"proc/cgroups": "cpu\t1\t9\t1\n"}, False),
        ({}, False),
        ({"cgroup/cgroup.controllers": "cpu", "cgroup/docker/cgroup.freeze": "0"}, True),
        ({"cgroup/cgroup.controllers": "cpu", "cgroup/docker/cgroup.procs": "7"}, False),
        ({"cgroup/cgroup.controllers": "cpu"}, True),  # no group that could lack it
    ],
)
def test_a_kernel_pauses_control_groups_by_either_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], pauses: bool
) -> None:
    """Pausing needs an enabled freezer in version 1, or version 2's file in every group."""
    laid_out(tmp_path, monkeypatch, V1, {f"../{name}": text for name, text in files.items()})

    assert cgroups.pauses_processes() == pauses
