"""Counters of /proc, laid out in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.runtimes import counters


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /proc with 100 ticks per second."""
    monkeypatch.setattr(counters, "PROC", tmp_path)
    monkeypatch.setattr(counters, "_TICK_NS", 10_000_000)
    return tmp_path


def write(file: Path, content: str) -> None:
    """Write a file and create its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def test_a_process_is_read_by_its_files(proc: Path) -> None:
    """CPU time is user plus system ticks, memory is in KiB, and a process name may have blanks and brackets."""
    write(proc / "7/stat", "7 (java (x) y) S 1 7 7 0 -1 4 0 0 0 0 250 50 0 0 20 0 30 0 99 0 0")
    write(proc / "7/status", "Name:\tjava\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
    write(proc / "7/io", "rchar: 5\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n")

    assert counters.of_process(7) == {
        "cpu_ns": 3e9,
        "memory_bytes": 1024 * 1024,
        "memory_peak_bytes": 2048 * 1024,
        "disk_read_bytes": 4096,
        "disk_write_bytes": 8192,
    }


def test_a_namespace_is_read_by_its_interface(proc: Path) -> None:
    """An interface's received bytes are the first number in net/dev, sent bytes the ninth; loopback is skipped."""
    write(
        proc / "7/net/dev",
        "Inter-| Receive | Transmit\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12\n  eth0: 100 2 0 0 0 0 0 0 900 3 0 0 0 0 0 0\n",
    )

    assert counters.of_network(7) == {"network_in_bytes": 100, "network_out_bytes": 900}
    assert counters.of_network(7, "eth1") == {}


def test_the_host_is_read_by_pressure_and_stat(proc: Path) -> None:
    """The host's CPU line counts I/O wait as idle; guest time is part of user time."""
    write(proc / "pressure/cpu", "some avg10=0.0 avg60=0.0 avg300=0.0 total=77\nfull avg10=0.0 total=9\n")
    write(proc / "stat", "cpu  10 20 30 400 5 6 7 8 9 9\ncpu0 1 2 3 4 5 6 7 8 9 9\n")

    assert counters.of_host() == {"psi_cpu_some_us": 77, "busy_ns": 73e7, "idle_ns": 405e7, "steal_ns": 8e7}


def test_what_cannot_be_read_is_absent(proc: Path) -> None:
    """Counters of files that do not exist are absent, not zero."""
    assert (counters.of_process(7), counters.of_network(7), counters.of_host()) == ({}, {}, {})
