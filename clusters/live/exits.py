"""Record servers that ended by themselves, each once, as an event ``server_exited``.

A phase looks for them every few seconds and before it injects or heals a fault, and so does the collection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from clusters.live.world import World
from clusters.runtimes.nodes import Node, opened
from history.errors import HarnessError
from history.folder import read_notes, write_atomically

_NOTES = "exits.json"  # in work/: node → its last incarnation known to have ended
_TAIL_BYTES = 64 * 1024
_LINES, _ERRORS, _LETTERS = 5, 10, 300
_TELLING = ("ERROR", "FATAL", "Exception", "OutOfMemory", "SIG")


def end(world: World, node: Node, signal: str) -> None:
    """Send a node a signal that ends it."""
    world.kill(node, signal)
    _note(world, node)


def record_exits(world: World, nodes: Iterable[Node] | None = None) -> list[Node]:
    """Record and return servers that ended by themselves since the last call; only made ones show it."""
    if world.plan.attached:
        return []
    known = read_notes(world.folder.work / _NOTES)
    exited = [
        node
        for node in (world.servers.nodes if nodes is None else nodes)
        if known.get(node.name, 0) < world.incarnation(node) and world.state(node) == "exited"
    ]
    for node in exited:
        world.events.add(
            "server_exited",
            target=node.name,
            incarnation=world.incarnation(node),
            exit_status=world.servers.exit_status(node),
            log=_last_words(node),
        )
        _note(world, node)
    return exited


def _last_words(node: Node) -> list[str]:
    """Return a server log's last errors and last lines."""
    try:
        with opened(node, node.log, os.O_RDONLY) as log:
            size = os.fstat(log).st_size
            tail = os.pread(log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").splitlines()
    except (OSError, HarnessError):  # there is none, or it is a link
        return []
    errors = [line for line in tail[:-_LINES] if any(word in line for word in _TELLING)]
    return [line[:_LETTERS] for line in (*errors[-_ERRORS:], *tail[-_LINES:])]


def _note(world: World, node: Node) -> None:
    notes = world.folder.work / _NOTES
    write_atomically(notes, json.dumps(read_notes(notes) | {node.name: world.incarnation(node)}))
