"""Define a runtime: nodes, and optionally a network, resource limits and disks (else None)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from clusters.runtimes.nodes import Node
from history.errors import HarnessError

T = TypeVar("T")

NodeState = Literal["running", "paused", "exited", "absent"]
OPTIONAL = ("network", "resource_limits", "disks")  # parts of a runtime
# What steps may need of servers. "files": readable and writable here; "settings", "binaries": changed for the next
# start; "controllers": nodes of their own.
CAPABILITIES = frozenset(
    ("kill", "stop", "start", "pause", "disconnect", *OPTIONAL, "files", "settings", "binaries", "controllers")
)
OF_OTHERS = frozenset({"owner"})  # what clusters of others alone have


class Runtime(Protocol):
    """Run one run's nodes by name; leftovers are found by the run's folder."""

    @property
    def name(self) -> Literal["docker", "process"]: ...

    @property
    def network(self) -> Network | None: ...

    @property
    def resource_limits(self) -> ResourceLimits | None: ...

    @property
    def disks(self) -> Disks | None: ...

    def reserve(self, subnet: str | None) -> str:
        """Reserve an address range for the run; return its first three bytes, such as ``172.30.7``.

        Raises:
            BadInput: the subnet is in use, or not a /24 of this runtime.
        """
        ...

    def start(self, node: Node) -> None: ...

    def kill(self, name: str, signal: str) -> None:
        """Send a signal (``SIGKILL``, ``SIGTERM``) to a running node."""
        ...

    def pause(self, name: str) -> None: ...

    def resume(self, name: str) -> None: ...

    def state(self, name: str) -> NodeState: ...

    def exit_status(self, name: str) -> int | None:
        """Return an ended node's exit status (137 or -9 after SIGKILL); None if unknown."""
        ...

    def usage(self, name: str) -> dict[str, float]:
        """Return a node's usage since its process began (see ``counters``); empty if it does not run."""
        ...

    def remove_all(self) -> list[str]:
        """Remove everything of the run and return it; repeatable."""
        ...


class LimitCounters(NamedTuple):
    """The bytes that passed a limit or delay, and how often packets were held back."""

    passed_bytes: int
    held_back: int


class Flow(NamedTuple):
    """TCP packets between two addresses (None: any), by the port of one; ``share`` of them, at random.

    ``response_ends``: only those that end a response (PSH).
    """

    source: str | None
    destination: str | None
    port: int
    port_of: Literal["source", "destination"]
    share: float = 1.0
    response_ends: bool = False


class Network(Protocol):
    """Drop, limit or delay traffic between nodes, with the kernel's counters."""

    def drop_packets(self, node: Node, rule: str, flows: list[Flow]) -> None:
        """Drop a node's packets; ``rule`` has at most 28 letters."""
        ...

    def dropped_packets(self, node: Node, rule: str) -> int | None:
        """Return the number of packets that a rule dropped; None without the rule."""
        ...

    def stop_dropping(self, node: Node, rule: str) -> int | None:
        """Remove a rule; return its dropped packets, or None if the kernel still lists it."""
        ...

    def limit_ingress(self, node: Node, senders: list[Node], port: int, bytes_per_s: float, /) -> None:
        """Limit what ``senders`` send from ``port`` to a node, or change the limit."""
        ...

    def delay_ingress(self, node: Node, senders: list[Node], port: int, by_s: float, overtaking: float = 0.0) -> None:
        """Delay that traffic instead, except ``overtaking`` per cent of the packets."""
        ...

    def restore_ingress(self, node: Node, senders: list[Node], /) -> None:
        """Remove limit or delay; queued packets arrive."""
        ...

    def round_trips_s(self, node: Node, sender: Node, port: int) -> list[float]:
        """Connect from a node's address to a sender's port a few times; return the durations."""
        ...

    def limited(self, node: Node, sender: Node) -> LimitCounters | None:
        """Return the counters of a sender's limit or delay; None without either."""
        ...


class ResourceLimits(Protocol):
    """Limit a node's use of its host."""

    def limit_egress(self, node: Node, bytes_per_s: float) -> None:
        """Limit all that a node sends, until the run ends."""
        ...

    def limit_cpu(self, name: str, cpus: float | None, cpu_set: str | None) -> None:
        """Limit a running node's CPU time (None: no limit) and its CPUs (None: unchanged)."""
        ...

    def limit_disk(self, node: Node, bytes_per_s: float | None) -> None:
        """Limit a running node's writes to its folder's disk; None removes the limit."""
        ...

    def time_write(self, node: Node, size_bytes: int) -> float:
        """Return the seconds to write and flush so many bytes within a running node's limits."""
        ...

    def in_effect(self, node: Node) -> dict[str, Any]:
        """Return the kernel's values and counters of a node's limits."""
        ...


class Disks(Protocol):
    """Access a node's own disk."""

    def run_script(self, node: Node, script: str) -> str:
        """Run a shell script in a node's folder, with the node's disk as /disk; return its output."""
        ...


def available(capability: T | None, name: str) -> T:
    """Return a capability that the plan has checked; raise HarnessError if the cluster lacks it."""
    if capability is None:
        raise HarnessError(f"This cluster has no {name}.")
    return capability
