"""Run nodes as local processes, each with a loopback address, identified by their environment."""

from __future__ import annotations

import ipaddress
import os
import signal as signals
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil

from clusters.paths import ROOT
from clusters.runtimes import counters
from clusters.runtimes.addresses import HOST, candidate_prefixes
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS
from clusters.runtimes.runtime import NodeState
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError

RUN_VARIABLE = "PLIMSOLL_RUN"
NODE_VARIABLE = "PLIMSOLL_NODE"
# The only inherited variables: others may hold keys of an object store or Airflow.
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
_REAP_S = 1.0  # for the kernel to report a child's end


class ProcessRuntime:
    """Kill and pause by signals, without a network between nodes, resource limits or separate disks."""

    name: Literal["process"] = "process"
    network = None
    resource_limits = None
    disks = None

    def __init__(self, run: Path) -> None:
        self._run = run
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def reserve(self, subnet: str | None) -> str:
        if subnet is not None:
            if not _is_loopback_range(subnet):
                raise BadInput(f"--subnet={subnet} is no loopback range such as 127.30.7 (three numbers).")
            if busy := _busy_address(subnet):
                raise BadInput(f"--subnet={subnet}: the address {busy} is in use; name another range or none.")
            return subnet
        for prefix in candidate_prefixes(self._run, 127, 200):
            if not _busy_address(prefix):
                return prefix
        raise HarnessError("64 loopback ranges were tried and all are in use; run `make clean ALL=1`.")

    def start(self, node: Node) -> None:
        program = sys.executable if node.program == "python" else node.program
        environment = {
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "LC_ALL": "C.UTF-8",  # else Java cannot open non-ASCII paths
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
        (node.folder / "pid").write_text(str(child.pid))
        wait_until(lambda: child.poll() is not None or _has_begun(child.pid), limit_s=5, what=f"{node.name} to begin")

    def kill(self, name: str, signal: str) -> None:
        process = self._process(name)
        with suppress(psutil.NoSuchProcess):
            if process is not None:
                process.send_signal(signals.Signals[signal])
                return
        raise HarnessError(f"{name} cannot be sent {signal}: it does not run.")

    def pause(self, name: str) -> None:
        self.kill(name, "SIGSTOP")

    def resume(self, name: str) -> None:
        self.kill(name, "SIGCONT")

    def state(self, name: str) -> NodeState:
        if not (self._run / "work" / name / "pid").exists():
            return "absent"
        process = self._process(name)
        with suppress(psutil.NoSuchProcess):
            if process is not None:
                return "paused" if process.status() == psutil.STATUS_STOPPED else "running"
        return "exited"

    def exit_status(self, name: str) -> int | None:
        """Return a status only for nodes that this process started."""
        with suppress(FileNotFoundError, ValueError):
            child = self._children.get(int((self._run / "work" / name / "pid").read_text()))
            if child and self.state(name) == "exited":  # the parent may see it a moment later
                with suppress(subprocess.TimeoutExpired):
                    return child.wait(timeout=_REAP_S)
            return child.poll() if child else None
        return None

    def usage(self, name: str) -> dict[str, float]:
        process = self._process(name)
        return counters.of_process(process.pid) if process is not None else {}  # its network is the host's

    def remove_all(self) -> list[str]:
        found = processes_of(self._run)
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        wait_until(
            lambda: not any(map(self._lives, found)), limit_s=10, what=f"the processes of {self._run.name} to end"
        )
        return sorted(found.values())

    def _process(self, name: str) -> psutil.Process | None:
        """Return the node's live process; the environment excludes one with a reused pid."""
        with suppress(FileNotFoundError, ValueError, psutil.Error):
            process = psutil.Process(int((self._run / "work" / name / "pid").read_text()))
            if self._lives(process) and _owner_of(process.environ()) == f"{self._run}/{name}":
                return process
        return None

    def _lives(self, process: psutil.Process) -> bool:
        """Return whether it runs; reap an own child."""
        if process.pid in self._children:
            self._children[process.pid].poll()
        with suppress(psutil.NoSuchProcess):
            return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
        return False


def _has_begun(pid: int) -> bool:
    """Return whether the environment, which identifies a node, is visible: shortly after exec it is not."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() != b""
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return True


def processes_of(run: Path | None = None) -> dict[psutil.Process, str]:
    """Return process → "run folder/node" of the nodes of a run, or of all runs.

    Ignore those in containers and chroots, because their folders and leases are not visible here.
    """
    found = {}
    for process in psutil.process_iter(["environ"]):
        owner = _owner_of(process.info["environ"] or {})  # None for another user's process
        with suppress(OSError):
            if owner and (run is None or Path(owner).parent == run) and Path(f"/proc/{process.pid}/root").samefile("/"):
                found[process] = owner
    return found


def _owner_of(environment: Mapping[str, str]) -> str:
    """Return ``run folder/node`` of a node process or its child; empty for any other."""
    run, node = environment.get(RUN_VARIABLE), environment.get(NODE_VARIABLE)
    return f"{run}/{node}" if run and node is not None else ""


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
