"""Kill, stop or pause group members, verified by their polls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from clusters.clients.nodes import has_ended, is_ready, last_poll, start_member
from clusters.faults import Evidence
from clusters.faults.processes import Killed, Paused, Stopped, wait_for_each
from clusters.live.resource_limits import limit_clients
from clusters.live.world import World
from clusters.runtimes.nodes import Node

SILENT_S = 1.0  # ten polls


class _Watch:
    """Observe polls; modification times are only compared with each other, since the clock may be set."""

    def __init__(self, world: World, node: Node) -> None:
        self._last_poll = partial(last_poll, world, node.name)
        self._first = self._newest = self._last_poll()
        self._since_s = time.monotonic()

    def polls(self) -> bool:
        return self._look() != self._first

    def is_silent(self) -> bool:
        self._look()
        return time.monotonic() - self._since_s > SILENT_S

    def _look(self) -> int:
        if (now := self._last_poll()) != self._newest:
            self._newest, self._since_s = now, time.monotonic()
        return now


def _watch(world: World, nodes: list[Node]) -> dict[str, _Watch]:
    return {node.name: _Watch(world, node) for node in nodes}


def _wait_for_silence(world: World, nodes: list[Node]) -> None:
    watches = _watch(world, nodes)
    wait_for_each(world, nodes, lambda node: watches[node.name].is_silent(), "poll no more")


class _EndedMember:
    world: World
    nodes: list[Node]

    def verify_injected(self) -> Evidence:
        wait_for_each(self.world, self.nodes, lambda node: has_ended(self.world, node.name), "end")
        _wait_for_silence(self.world, self.nodes)
        return {"member": "polls no more"}

    def start_again(self, node: Node) -> None:
        start_member(self.world, node)

    def verify_cleared(self) -> Evidence:
        watches = _watch(self.world, self.nodes)

        def is_back(node: Node) -> bool:
            return is_ready(self.world, node.name) and watches[node.name].polls()

        wait_for_each(self.world, self.nodes, is_back, "poll and get partitions")
        limit_clients(self.world, self.nodes)
        return {"member": "polls", "assigned": True}


class KilledMember(_EndedMember, Killed):
    """Kill members (SIGKILL): the group notices after the session timeout."""


class StoppedMember(_EndedMember, Stopped):
    """Stop members (SIGTERM): they commit and leave the group."""


@dataclass
class PausedMember(Paused):
    """Pause members: they send neither polls nor heartbeats."""

    def verify_injected(self) -> Evidence:
        _wait_for_silence(self.world, self.nodes)
        return {"member": "polls no more"}

    def verify_cleared(self) -> Evidence:
        watches = _watch(self.world, self.resumed())
        wait_for_each(self.world, self.resumed(), lambda node: watches[node.name].polls(), "poll again")
        return {"member": "polls", **self.ended_meanwhile()}
