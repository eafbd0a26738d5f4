"""Define where nodes listen. Nodes that Plimsoll starts have the same ports on every runtime.

No fault affects PROBE, so that an isolated broker stays observable.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Listener = Literal["REPLICATION", "CLIENT", "PROBE", "CONTROLLER", "METRICS", "ZOOKEEPER"]

PORTS: dict[Listener, int] = {
    "REPLICATION": 9091,
    "CLIENT": 9092,
    "PROBE": 9093,
    "CONTROLLER": 9094,
    "METRICS": 9095,
    "ZOOKEEPER": 2181,
}
_BY_ROLE: dict[str, tuple[Listener, ...]] = {
    "broker": ("REPLICATION", "CLIENT", "PROBE", "METRICS"),
    "controller": ("CONTROLLER",),
    "zookeeper": ("ZOOKEEPER",),
}


class Endpoint(NamedTuple):
    """A host, by name or address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoints_of(role: str, address: str) -> dict[Listener, Endpoint]:
    """Return where a node of this role listens; clients listen nowhere."""
    return {listener: Endpoint(address, PORTS[listener]) for listener in _BY_ROLE.get(role, ())}
