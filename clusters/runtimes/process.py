"""Nodes as local processes: one loopback address per node, found again by their environment."""

from __future__ import annotations

import ipaddress
import os
import signal as signals
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from clusters import counters
from clusters.nodes import Node
from clusters.paths import ROOT
from clusters.ports import PORTS
from clusters.runtimes import CAPABILITIES, HOST, Limited, NodeState, candidate_prefixes
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError

RUN_VARIABLE = "PLIMSOLL_RUN"
NODE_VARIABLE = "PLIMSOLL_NODE"


class ProcessRuntime:
    """Kill, pause and lag by signals; what needs a network of its own is refused beforehand."""

    name: Literal["process"] = "process"
    capabilities = CAPABILITIES["process"]

    def __init__(self, run: Path) -> None:
        self._run = run
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def reserve(self, subnet: str | None) -> str:
        if subnet is not None:
            if not _is_loopback_range(subnet):
                raise BadInput(f"SUBNET={subnet} is no loopback range such as 127.30.7 (three numbers).")
            if busy := _busy_address(subnet):
                raise BadInput(f"SUBNET={subnet}: the address {busy} is in use; name another range or none.")
            return subnet
        for prefix in candidate_prefixes(self._run, 127, 200):
            if not _busy_address(prefix):
                return prefix
        raise HarnessError("64 loopback ranges were tried and all are in use; run `make clean ALL=1`.")

    def start(self, node: Node) -> None:
        program = sys.executable if node.program == "python" else node.program
        environment = {
            **os.environ,
            **node.environment,
            "PYTHONPATH": str(ROOT),
            RUN_VARIABLE: str(self._run),
            NODE_VARIABLE: node.name,
        }
        with node.log.open("ab") as log:
            child = subprocess.Popen(
                [program, *node.arguments],
                cwd=node.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # outlives the task that started it
            )
        self._children[child.pid] = child
        (node.folder / "pid").write_text(f"{child.pid} {_started(child.pid)}")
        # For a moment after exec the kernel shows no environment yet, and by that a node is found.
        environ = Path(f"/proc/{child.pid}/environ")
        wait_until(
            lambda: child.poll() is not None or environ.read_bytes() != b"", limit_s=5, what=f"{node.name} to begin"
        )

    def kill(self, name: str, signal: str) -> None:
        pid = self._pid(name)
        with suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signals.Signals[signal])
                return
        raise HarnessError(f"{name} cannot be sent {signal}: it does not run.")

    def pause(self, name: str) -> None:
        self.kill(name, "SIGSTOP")

    def resume(self, name: str) -> None:
        self.kill(name, "SIGCONT")

    def state(self, name: str) -> NodeState:
        if not (self._run / "work" / name / "pid").exists():
            return "absent"
        pid = self._pid(name)
        if pid is None:
            return "exited"
        return "paused" if _process_state(pid) == "T" else "running"

    def limit_ingress(self, node: Node, _senders: list[Node], _port: int, _bytes_per_s: float | None) -> None:
        raise HarnessError(f"The process runtime cannot shape traffic into {node.name}; use RUNTIME=docker.")

    def delay_ingress(self, node: Node, _sender: Node, _by_s: float, _overtaking: float = 0.0) -> None:
        raise HarnessError(f"The process runtime cannot delay traffic into {node.name}; use RUNTIME=docker.")

    def limited(self, _node: Node, _sender: Node) -> Limited | None:
        return None

    def delayed_bytes(self, _node: Node, _sender: Node) -> int | None:
        return None

    def drop_packets(self, node: Node, _rule: str, _matches: list[str]) -> None:
        raise HarnessError(f"The process runtime cannot drop packets of {node.name}; use RUNTIME=docker.")

    def dropped_packets(self, _node: Node, _rule: str) -> int | None:
        return None

    def stop_dropping(self, node: Node, rule: str) -> int | None:
        raise HarnessError(f"The process runtime has no {rule} at {node.name} to end; use RUNTIME=docker.")

    def limit_egress(self, node: Node, _bytes_per_s: float) -> None:
        raise HarnessError(f"The process runtime cannot limit what {node.name} sends; use RUNTIME=docker.")

    def limit_cpu(self, name: str, _cpus: float | None, _cpu_set: str | None) -> None:
        raise HarnessError(f"The process runtime cannot limit the CPU time of {name}; use RUNTIME=docker.")

    def on_disk(self, node: Node, _script: str) -> str:
        raise HarnessError(f"The process runtime has no disk of its own for {node.name}; use RUNTIME=docker.")

    def limits(self, _node: Node) -> dict[str, Any]:
        return {}

    def usage(self, name: str) -> dict[str, float]:
        pid = self._pid(name)
        return counters.of_process(pid) if pid is not None else {}  # its network is the host's

    def remove_all(self) -> list[str]:
        found = processes_of(self._run)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signals.SIGKILL)
        wait_until(lambda: not self._reap(found), limit_s=10, what=f"the processes of {self._run.name} to end")
        return sorted(found.values())

    def _pid(self, name: str) -> int | None:
        try:
            pid, started = (int(part) for part in (self._run / "work" / name / "pid").read_text().split())
        except (FileNotFoundError, ValueError):
            return None
        self._reap({pid: name})
        return pid if _started(pid) == started and _process_state(pid) != "Z" else None

    def _reap(self, pids: dict[int, str]) -> list[int]:
        """Collect the exit of own children; returns those that still live."""
        for pid in pids:
            if pid in self._children:
                self._children[pid].poll()
        return [pid for pid in pids if _process_state(pid) not in ("", "Z")]


def processes_of(run: Path | None = None) -> dict[int, str]:
    """Process id → "run folder/node" of every node process of a run, or of all runs.

    Those of a container or chroot are left out: their folders, and so their leases, cannot be seen from here.
    """
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if not (process / "root").samefile("/"):
                continue
            lines = (process / "environ").read_bytes().decode(errors="replace").split("\0")
            variables = dict(line.split("=", 1) for line in lines if "=" in line)
            owner = variables.get(RUN_VARIABLE)
            if owner and NODE_VARIABLE in variables and (run is None or owner == str(run)):
                found[int(process.name)] = f"{owner}/{variables[NODE_VARIABLE]}"
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the third on; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _process_state(pid: int) -> str:
    return (_stat(pid) or [""])[0]


def _started(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[19]) if fields else -1


def _is_loopback_range(prefix: str) -> bool:
    try:
        return ipaddress.IPv4Address(f"{prefix}.0").is_loopback
    except ValueError:
        return False


def _busy_address(prefix: str) -> str | None:
    for host in range(HOST, HOST + 4):
        for port in PORTS.values():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((f"{prefix}.{host}", port))
                except OSError:
                    return f"{prefix}.{host}:{port}"
    return None
