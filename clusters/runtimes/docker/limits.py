"""Limit a container: CPU by its control group, egress by an HTB class."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from clusters.runtimes import cgroups
from clusters.runtimes.docker.daemon import Daemon, trying
from clusters.runtimes.docker.image import run_script
from clusters.runtimes.docker.namespaces import Namespaces
from clusters.runtimes.nodes import Node
from history.errors import BadInput, HarnessError

CPU_PERIOD_US = 20_000  # with Docker's 100 ms, a small quota stops a broker for most of them
EGRESS_BURST = "64k"  # the largest piece that the kernel passes on


class DockerLimits:
    """Apply resource limits to a run's containers."""

    def __init__(self, daemon: Daemon, namespaces: Namespaces) -> None:
        self._daemon = daemon
        self._namespaces = namespaces

    def limit_egress(self, node: Node, bytes_per_s: float) -> None:
        most = int(bytes_per_s * 8)
        # The leaf borrows most of its rate, so that a lag's class does not add to the sum.
        script = (
            "tc qdisc add dev eth0 root handle 1: htb default 2 && "
            f"tc class add dev eth0 parent 1: classid 1:1 htb rate {most}bit burst {EGRESS_BURST} && "
            f"tc class add dev eth0 parent 1:1 classid 1:2 htb rate {most // 10}bit ceil {most}bit "
            f"burst {EGRESS_BURST} cburst {EGRESS_BURST}"
        )
        self._namespaces.run_script(node, script, f"limit what {node.name} sends")

    def limit_cpu(self, name: str, cpus: float | None, cpu_set: str | None) -> None:
        quota = -1 if cpus is None else int(cpus * CPU_PERIOD_US)
        changes: dict[str, Any] = {"cpu_period": CPU_PERIOD_US, "cpu_quota": quota}
        if cpu_set is not None:
            changes["cpuset_cpus"] = cpu_set
        with trying(f"limit the CPU time of {name} to {cpus} on {cpu_set}"):
            self._daemon.container(name).update(**changes)

    def limit_disk(self, node: Node, bytes_per_s: float | None) -> None:
        """Set the limit in the control group, because Docker sets it only at creation."""
        what = f"limit what {node.name} writes to its disk"
        pid = pid_of(self._daemon, node.name)
        if pid is None:
            raise HarnessError(f"Docker could not {what}: it does not run.")
        disk = Path("/sys/block") / Path(block_device(node.folder)).name
        file, line = cgroups.write_limit(pid, (disk / "dev").read_text().strip(), bytes_per_s)
        run_script(
            self._daemon.client,
            self._daemon.run,
            f"echo '{line}' >/groups/{file}",
            what,
            network_mode="none",
            volumes={str(cgroups.ROOT): {"bind": "/groups", "mode": "rw"}},
        )

    def time_write(self, node: Node, size_bytes: int) -> float:
        probe, what = node.folder / "disk-probe", f"time a write to the disk of {node.name}"
        command = ["dd", "if=/dev/zero", f"of={probe}", f"bs={size_bytes}", "count=1", "conv=fsync"]
        with trying(what):
            container = self._daemon.container(node.name)
        said = self._daemon.printed_by(container, command, what)
        probe.unlink(missing_ok=True)
        took = re.search(r"copied, ([\d.e+-]+) s", said)
        if took is None:
            raise HarnessError(f"Docker could not {what}: {said.strip()}")
        return float(took[1])

    def in_effect(self, node: Node) -> dict[str, Any]:
        pid = pid_of(self._daemon, node.name)
        shown = self._namespaces.show(node, "tc", "-s", "class", "show", "dev", "eth0")
        said: dict[str, Any] = {"network": " ".join(shown.split())}
        if pid is not None:
            said |= {**cgroups.cpu_limits(pid), **cgroups.cpu_counters(pid), **cgroups.disk_limits(pid)}
        return {name: value for name, value in said.items() if value not in (None, "")}


def pid_of(daemon: Daemon, name: str) -> int | None:
    """Return the host's pid of a node's first process; None if it does not run."""
    with trying(f"tell the process of {name}"):
        try:
            return int(daemon.container(name).attrs["State"]["Pid"]) or None
        except NotFound:
            return None


def block_device(folder: Path) -> str:
    """Return a (future) folder's disk, such as ``/dev/sda``.

    Raises:
        BadInput: it is not on a disk that the kernel can limit.
    """
    number = next(path for path in (folder, *folder.parents) if path.exists()).stat().st_dev
    known = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    disk = known.parent if (known / "partition").exists() else known
    if not disk.exists():
        raise BadInput(
            f"disk_read cannot be limited: {folder} lies on no block device (a network or layered file system?)."
        )
    return f"/dev/{disk.name}"
