"""What a runtime offers: nodes always; a network, resource limits and disks where it has them, else None."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from clusters.runtimes.nodes import Node
from history.errors import HarnessError

T = TypeVar("T")

NodeState = Literal["running", "paused", "exited", "absent"]
OPTIONAL = ("network", "resource_limits", "disks")  # what a scenario's steps may need of a runtime


class Runtime(Protocol):
    """Runs the nodes of one run. All calls by node name; all leftovers are found by the run's folder."""

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
        """Send a signal (``SIGKILL``, ``SIGTERM``) to a node that runs."""
        ...

    def pause(self, name: str) -> None: ...

    def resume(self, name: str) -> None: ...

    def state(self, name: str) -> NodeState: ...

    def exit_status(self, name: str) -> int | None:
        """Return the exit status of a node that has ended (137 or -9 after SIGKILL), or None where it is not known."""
        ...

    def usage(self, name: str) -> dict[str, float]:
        """Return a node's usage since its process began (see ``counters``); empty if it does not run."""
        ...

    def remove_all(self) -> list[str]:
        """Remove everything of the run; returns what was there. Safe to call again."""
        ...


class LimitCounters(NamedTuple):
    """What passed a limit or delay, and how often something was held back."""

    passed_bytes: int
    held_back: int


class Network(Protocol):
    """The traffic between nodes, dropped, limited or delayed by the kernel, which counts what it did."""

    def drop_packets(self, node: Node, rule: str, matches: list[str]) -> None:
        """Drop a node's packets that match, in iptables' words, under a name of at most 28 letters."""
        ...

    def dropped_packets(self, node: Node, rule: str) -> int | None:
        """How many packets the kernel has dropped by that name; None where there is no such rule."""
        ...

    def stop_dropping(self, node: Node, rule: str) -> int | None:
        """End it; returns how many packets were dropped, or None where the kernel still lists it."""
        ...

    def limit_ingress(self, node: Node, senders: list[Node], port: int, bytes_per_s: float, /) -> None:
        """Limit what ``senders`` send from ``port`` to a node; once more to change the limit."""
        ...

    def delay_ingress(self, node: Node, senders: list[Node], port: int, by_s: float, overtaking: float = 0.0) -> None:
        """Hold it back for so long instead, but for so many per cent."""
        ...

    def restore_ingress(self, node: Node, senders: list[Node], /) -> None:
        """End either; what is held back at that moment arrives."""
        ...

    def round_trips_s(self, node: Node, sender: Node, port: int) -> list[float]:
        """Connect from a node's address to a sender's port a few times; return how long each took, in seconds."""
        ...

    def limited(self, node: Node, sender: Node) -> LimitCounters | None:
        """What the kernel counted of what a sender's limit or delay let through so far; None without either."""
        ...


class ResourceLimits(Protocol):
    """What a node may use of its host."""

    def limit_egress(self, node: Node, bytes_per_s: float) -> None:
        """Limit all that a node sends, until the run ends."""
        ...

    def limit_cpu(self, name: str, cpus: float | None, cpu_set: str | None) -> None:
        """Limit a running node's CPU time (None: no limit) and its CPUs (None: unchanged)."""
        ...

    def limit_disk(self, node: Node, bytes_per_s: float | None) -> None:
        """Limit what a running node writes through to the disk on which its folder lies; None lifts the limit."""
        ...

    def time_write(self, node: Node, size_bytes: int) -> float:
        """Return the seconds to write and flush so many bytes within a running node's limits."""
        ...

    def in_effect(self, node: Node) -> dict[str, Any]:
        """What the kernel says of a node's limits and of what they held back."""
        ...


class Disks(Protocol):
    """A node's own disk."""

    def run_script(self, node: Node, script: str) -> str:
        """Run a shell script in a node's folder, with the node's disk as /disk; return its output."""
        ...


def available(capability: T | None, name: str) -> T:
    """Return a capability that the plan has checked.

    Raises:
        HarnessError: the runtime lacks it.
    """
    if capability is None:
        raise HarnessError(f"This runtime has no {name}; use --runtime=docker.")
    return capability
