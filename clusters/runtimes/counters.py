"""Read cumulative counters of a process, its network namespace and the host from /proc.

Unavailable counters are absent, never zero.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_KIB = 1024


def of_process(pid: int) -> dict[str, float]:
    """Return ``cpu_ns``, ``memory_bytes`` and ``memory_peak_bytes`` (resident, without page cache), ``disk_read_bytes``
    and ``disk_write_bytes`` (of the disk, immediately or later).
    """
    process = PROC / str(pid)
    found: dict[str, float] = {}
    if fields := _read(process / "stat").rpartition(")")[2].split():
        found["cpu_ns"] = float(sum(int(ticks) for ticks in fields[11:13]) * _TICK_NS)
    status = _pairs(process / "status")
    for name, key in (("memory_bytes", "VmRSS"), ("memory_peak_bytes", "VmHWM")):
        if key in status:
            found[name] = float(status[key].split()[0]) * _KIB
    moved = _pairs(process / "io")
    for name, key in (("disk_read_bytes", "read_bytes"), ("disk_write_bytes", "write_bytes")):
        if key in moved:
            found[name] = float(moved[key])
    return found


def of_network(pid: int, interface: str = "eth0") -> dict[str, float]:
    """Return ``network_in_bytes`` and ``network_out_bytes`` of an interface in a process's namespace."""
    told = _pairs(PROC / str(pid) / "net" / "dev").get(interface)
    if told is None:
        return {}
    numbers = told.split()
    return {"network_in_bytes": float(numbers[0]), "network_out_bytes": float(numbers[8])}


def of_host() -> dict[str, float]:
    """Return ``psi_<cpu|io|memory>_some_us`` (not on every kernel), and ``busy_ns``, ``idle_ns``, ``steal_ns`` over all
    CPUs.
    """
    found: dict[str, float] = {}
    for resource in ("cpu", "io", "memory"):
        some = next((line for line in _read(PROC / "pressure" / resource).splitlines() if line.startswith("some")), "")
        if total := some.partition("total=")[2]:
            found[f"psi_{resource}_some_us"] = float(total)
    ticks = [int(number) for number in _read(PROC / "stat").partition("\n")[0].split()[1:]]
    if len(ticks) >= 8:
        user, nice, system, idle, waiting, irq, softirq, steal = ticks[:8]  # guests' time is part of user and nice
        found["busy_ns"] = float((user + nice + system + irq + softirq) * _TICK_NS)
        found["idle_ns"] = float((idle + waiting) * _TICK_NS)
        found["steal_ns"] = float(steal * _TICK_NS)
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _pairs(file: Path) -> dict[str, str]:
    parts = (line.partition(":") for line in _read(file).splitlines())
    return {name.strip(): value.strip() for name, _, value in parts}
