"""Record servers that ended by themselves, each once, as an event ``server_exited``.

A phase looks for them every few seconds and before it injects or heals a fault, and so does the collection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress

from clusters.live.world import World
from clusters.runtimes.nodes import Node, opened
from history.errors import HarnessError
from history.folder import write_atomically

_NOTES = "exits.json"  # in work/: node → its last incarnation known to have ended
_TAIL_BYTES = 64 * 1024
_LINES, _ERRORS, _LETTERS = 5, 10, 300
_TELLING = ("ERROR", "FATAL", "Exception", "OutOfMemory", "SIG")


def end(world: World, node: Node, signal: str) -> None:
    """Send a node a signal that ends it."""
    world.runtime.kill(node.name, signal)
    _note(world, node)


def record_exits(world: World, nodes: Iterable[Node] | None = None) -> list[Node]:
    """Record and return servers that ended by themselves since the last call."""
    known = _known(world)
    exited = [
        node
        for node in (world.servers if nodes is None else nodes)
        if known.get(node.name, 0) < world.incarnation_of(node) and world.runtime.state(node.name) == "exited"
    ]
    for node in exited:
        world.events.add(
            "server_exited",
            target=node.name,
            incarnation=world.incarnation_of(node),
            exit_status=world.runtime.exit_status(node.name),
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


def _known(world: World) -> dict[str, int]:
    with suppress(FileNotFoundError):
        return dict(json.loads((world.folder.work / _NOTES).read_text()))
    return {}


def _note(world: World, node: Node) -> None:
    known = _known(world) | {node.name: world.incarnation_of(node)}
    write_atomically(world.folder.work / _NOTES, json.dumps(known))
