"""Read a container's control group (cgroups v1 or v2) on the host."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
_THROTTLED = {"nr_periods": "cpu_periods", "nr_throttled": "cpu_throttled_periods"}


def cpu_limits(pid: int) -> dict[str, str]:
    """Return ``cpu_quota`` as ``"<µs> <period µs>"`` (``max``: none) and ``cpu_set``, each if available."""
    quota = _read(pid, "cpu.max")
    if quota is None:
        parts = [_read(pid, f"cpu.cfs_{name}_us", "cpu") for name in ("quota", "period")]
        quota = " ".join("max" if part == "-1" else part for part in parts if part is not None) or None
    cpus = _read(pid, "cpuset.cpus.effective", "cpuset") or _read(pid, "cpuset.cpus", "cpuset")
    return {name: said for name, said in (("cpu_quota", quota), ("cpu_set", cpus)) if said is not None}


def disk_limits(pid: int) -> dict[str, str]:
    """Return the limits of block devices in the kernel's spelling; absent if unlimited."""
    both = _read(pid, "io.max")
    found = {
        f"disk_{name}": _read(pid, f"blkio.throttle.{name}_bps_device", "blkio") or both for name in ("read", "write")
    }
    return {name: said for name, said in found.items() if said}


def write_limit(pid: int, device: str, bytes_per_s: float | None) -> tuple[Path, str]:
    """Return a file below ``ROOT`` and its content, which limit a control group's writes to a device (``"254:0"``).

    None removes the limit. Version 1 limits only writes that do not wait in the page cache, as for fsync.
    """
    group, of_version_1 = _group(pid, "blkio")
    rate = None if bytes_per_s is None else int(bytes_per_s)
    if of_version_1:
        return group.relative_to(ROOT) / "blkio.throttle.write_bps_device", f"{device} {rate or 0}"
    return group.relative_to(ROOT) / "io.max", f"{device} wbps={rate or 'max'}"


def throttles_disks() -> bool:
    """Return whether this kernel can limit a control group's writes."""
    try:
        return "io" in (ROOT / "cgroup.controllers").read_text().split()
    except OSError:
        return (ROOT / "blkio" / "blkio.throttle.write_bps_device").exists()


def pauses_processes() -> bool:
    """Return whether this kernel can pause a control group; version 1 needs a mounted controller."""
    if (ROOT / "cgroup.controllers").exists():
        return all((group / "cgroup.freeze").exists() for group in ROOT.glob("*/"))  # the root group has none
    try:
        return bool(re.search(r"^freezer\t[1-9]", (PROC / "cgroups").read_text(), re.MULTILINE))
    except OSError:
        return False


def cpu_counters(pid: int) -> dict[str, float]:
    """Return CPU time and throttling since the container started: ``cpu_ns``, ``cpu_periods``,
    ``cpu_throttled_periods``, ``cpu_throttled_ns``, each if available.
    """
    stat = dict(line.split() for line in (_read(pid, "cpu.stat", "cpu") or "").splitlines())
    found = {name: float(stat[key]) for key, name in _THROTTLED.items() if key in stat}
    for name, key, unit_ns in (
        ("cpu_throttled_ns", "throttled_time", 1),
        ("cpu_throttled_ns", "throttled_usec", 1000),
        ("cpu_ns", "usage_usec", 1000),
    ):
        if key in stat:
            found[name] = float(stat[key]) * unit_ns
    if usage := _read(pid, "cpuacct.usage", "cpuacct"):
        found["cpu_ns"] = float(usage)
    return found


def _read(pid: int, file: str, controller: str | None = None) -> str | None:
    try:
        return (_group(pid, controller)[0] / file).read_text().strip()
    except OSError:
        return None


def _group(pid: int, controller: str | None) -> tuple[Path, bool]:
    """Return a process's group in the controller's own hierarchy (version 1) and True, else its unified one and False.

    Raises:
        OSError: there is no such process.
    """
    lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
    groups = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    if controller is not None and controller in groups:
        return ROOT / controller / groups[controller].lstrip("/"), True
    return ROOT / groups.get("", "/").lstrip("/"), False
