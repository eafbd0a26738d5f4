"""Faults of a member of the consumer group: the same as of a broker, proven by whether the member polls."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from clusters.clients.nodes import has_ended, is_ready, last_poll, start_member
from clusters.faults import Evidence
from clusters.faults.processes import LIMIT_S, Killed, Paused, Stopped
from clusters.live.resource_limits import limit_clients
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.waiting import wait_until

SILENT_S = 1.0  # ten polls


def _wait_for_each(world: World, nodes: list[Node], condition: Callable[[World, str], bool], what: str) -> None:
    for node in nodes:
        wait_until(
            partial(condition, world, node.name),
            limit_s=LIMIT_S,
            what=f"{node.name} to {what}",
            last_seen=partial(world.describe_node, node),
        )


def _silent(world: World, name: str) -> bool:
    return time.time_ns() - last_poll(world, name) > SILENT_S * 1e9


def _polls(world: World, name: str) -> bool:
    return not _silent(world, name)


def _is_back(world: World, name: str) -> bool:
    return is_ready(world, name) and _polls(world, name)


class _EndedMember:
    """How the end of a member is proven, and how it is started again: as a new member to its group."""

    world: World
    nodes: list[Node]

    def verify_injected(self) -> Evidence:
        """It polls no more, and its process has ended: by SIGTERM once it has committed and left."""
        _wait_for_each(self.world, self.nodes, has_ended, "end")
        _wait_for_each(self.world, self.nodes, _silent, "poll no more")
        return {"member": "polls no more"}

    def start_again(self, node: Node) -> None:
        start_member(self.world, node)

    def verify_cleared(self) -> Evidence:
        """It polls, and its group has given it partitions."""
        _wait_for_each(self.world, self.nodes, _is_back, "poll and be given partitions")
        limit_clients(self.world, self.nodes)
        return {"member": "polls", "assigned": True}


class KilledMember(_EndedMember, Killed):
    """SIGKILL: the group learns of it by the session time-out."""


class StoppedMember(_EndedMember, Stopped):
    """SIGTERM: it commits what it has processed and leaves the group."""


@dataclass
class PausedMember(Paused):
    """A paused member: it neither polls nor tells its coordinator that it lives."""

    def verify_injected(self) -> Evidence:
        _wait_for_each(self.world, self.nodes, _silent, "poll no more")
        return {"member": "polls no more"}

    def verify_cleared(self) -> Evidence:
        _wait_for_each(self.world, self.resumed(), _polls, "poll again")
        return {"member": "polls", **self.told_ended()}
