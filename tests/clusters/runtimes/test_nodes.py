"""Nodes and their ports."""

from __future__ import annotations

from pathlib import Path

from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS


def test_the_log_lies_in_the_nodes_own_folder() -> None:
    """So that collecting the folder collects it."""
    node = Node("broker-1", "broker", "127.1.1.11", Path("/w/broker-1"), "java", ())

    assert node.log == Path("/w/broker-1/server.log")


def test_no_two_ports_are_the_same() -> None:
    """A fault that filters by port must hit one listener only."""
    assert len(set(PORTS.values())) == len(PORTS)
