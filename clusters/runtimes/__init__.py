"""Where nodes run: ``docker`` (the real thing) or ``process`` (embedded, no network faults)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from clusters.runtimes.nodes import Node
from history.errors import BadInput

NodeState = Literal["running", "paused", "exited", "absent"]
HOST = 10  # the first node's last address byte
CAPABILITIES = {
    "docker": frozenset({"kill", "pause", "lag", "limit_bandwidth", "network", "allowance", "disk"}),
    "process": frozenset({"kill", "pause", "lag"}),
}


class Limited(NamedTuple):
    """What passed a limit, and how often the limit held something back."""

    passed_bytes: int
    held_back: int


class Runtime(Protocol):
    """Runs the nodes of one run. All calls by node name; all leftovers are found by the run's folder."""

    @property
    def name(self) -> Literal["docker", "process"]: ...

    @property
    def capabilities(self) -> frozenset[str]: ...

    def reserve(self, subnet: str | None) -> str:
        """Reserve an address range for the run; returns its first three bytes, such as ``172.30.7``.

        Raises:
            BadInput: the subnet that was asked for is in use or no /24 of this runtime.
        """
        ...

    def start(self, node: Node) -> None: ...

    def kill(self, name: str, signal: str) -> None:
        """Send a signal (``SIGKILL``, ``SIGTERM``) to a node that runs."""
        ...

    def pause(self, name: str) -> None: ...

    def resume(self, name: str) -> None: ...

    def state(self, name: str) -> NodeState: ...

    def limit_ingress(self, node: Node, senders: list[Node], port: int, bytes_per_s: float | None, /) -> None:
        """Limit what ``senders`` send from ``port`` to a node; None lifts the limit (capability ``shape``)."""
        ...

    def delay_ingress(self, node: Node, sender: Node, by_s: float, overtaking: float = 0.0) -> None:
        """Hold back what ``limit_ingress`` lets through from a sender, but for so many per cent, until that limit is
        lifted (``shape``).
        """
        ...

    def limited(self, node: Node, sender: Node) -> Limited | None:
        """What the kernel counted within ``limit_ingress`` from a sender so far; None without a limit (``shape``)."""
        ...

    def delayed_bytes(self, node: Node, sender: Node) -> int | None:
        """What ``delay_ingress`` has let through from a sender so far; None without a delay (``shape``)."""
        ...

    def drop_packets(self, node: Node, rule: str, matches: list[str]) -> None:
        """Drop a node's packets that match, in iptables' words, under a name of at most 28 letters (``network``)."""
        ...

    def dropped_packets(self, node: Node, rule: str) -> int | None:
        """How many packets the kernel has dropped by that name; None where there is no such rule (``network``)."""
        ...

    def stop_dropping(self, node: Node, rule: str) -> int | None:
        """End it; returns how many packets were dropped, or None where the kernel still lists it (``network``)."""
        ...

    def limit_egress(self, node: Node, bytes_per_s: float) -> None:
        """Limit what a node sends, whoever to, for as long as the run lasts (capability ``allowance``)."""
        ...

    def limit_cpu(self, name: str, cpus: float | None, cpu_set: str | None) -> None:
        """Limit a running node's CPU time (None: no limit) and where it may run (None: as it is; ``allowance``)."""
        ...

    def limits(self, node: Node) -> dict[str, Any]:
        """What the kernel says of a node's limits and of what they held back (``allowance``)."""
        ...

    def on_disk(self, node: Node, script: str) -> str:
        """Run a script in a node's folder, beside the node, its own disk as /disk; what it printed (``disk``)."""
        ...

    def usage(self, name: str) -> dict[str, float]:
        """What a node has used since its process began (see ``counters``); of one that does not run, nothing."""
        ...

    def remove_all(self) -> list[str]:
        """Remove everything of the run; returns what was there. Safe to call again."""
        ...


def candidate_prefixes(run: Path, first_byte: int, second_bytes: int) -> Iterator[str]:
    """64 address ranges to try (their first three bytes), beginning at one that follows from the run's name."""
    start = int.from_bytes(hashlib.sha256(run.name.encode()).digest()[:2])
    for attempt in range(64):
        high, low = divmod((start + attempt) % (second_bytes * 254), 254)
        yield f"{first_byte}.{high + 20}.{low + 1}"


def open_runtime(name: str, run: Path) -> Runtime:
    """The runtime of a run by its name."""
    if name == "docker":
        from clusters.runtimes.docker import DockerRuntime

        return DockerRuntime(run)
    from clusters.runtimes.process import ProcessRuntime

    return ProcessRuntime(run)


def choose_runtime(wanted: str) -> Literal["docker", "process"]:
    """``auto`` → docker where a daemon answers, else process.

    Raises:
        BadInput: docker was asked for and no daemon answers, or there is no such runtime.
    """
    if wanted not in ("auto", "docker", "process"):
        raise BadInput(f"RUNTIME={wanted} is unknown; it is auto, docker or process.")
    if wanted == "process":
        return "process"
    from clusters.runtimes.docker import daemon_answers

    if daemon_answers():
        return "docker"
    if wanted == "docker":
        raise BadInput("RUNTIME=docker, but no Docker daemon answers; start it, or use RUNTIME=process.")
    return "process"
