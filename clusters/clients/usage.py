"""Sample nodes' and the host's resource usage at phase boundaries."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from clusters.clients.nodes import client_names
from clusters.kafka.metrics import scrape
from clusters.live.capture import write_numbered
from clusters.live.world import World
from clusters.runtimes import counters
from clusters.runtimes.nodes import Node
from history.folder import read_notes, write_atomically
from history.tables import USAGE

HOST, OTHERS = "host", "others"
_ENDS_WITH_PROCESS = ("cpu_", "disk_", "gc_", "request_")  # counters that restart with a process


def record_usage(world: World, label: str) -> None:
    """Write one row per counter to a new file."""
    names = [*(node.name for node in world.servers.nodes), *client_names(world)]
    with ThreadPoolExecutor(len(names)) as pool:
        of_nodes = pool.map(lambda name: _rows(label, name, _counted(world, name, _carried(world))), names)
        rows = [row for sample in of_nodes for row in sample]
    rows += _rows(label, HOST, counters.of_host())
    rows += _rows(label, OTHERS, world.guard.written_by_others()) if world.guard else []
    write_numbered(world.folder.table("usage"), label, pa.Table.from_pylist(rows, schema=USAGE))


def carry_usage(world: World, nodes: Iterable[Node]) -> None:
    """Save the counters of nodes about to end, as the base for their next process."""
    carried = _carried(world)
    for node in nodes:
        now = carried.get(node.name, {}) | _counted(world, node.name, carried)
        carried[node.name] = {name: value for name, value in now.items() if name.startswith(_ENDS_WITH_PROCESS)}
    write_atomically(_carried_file(world), json.dumps(carried))


def _counted(world: World, name: str, carried: dict[str, dict[str, float]]) -> dict[str, float]:
    before = carried.get(name, {})
    now = world.runtime.usage(name)
    if now and world.scenario.cluster.metrics:
        agents = (node.endpoints.get("METRICS") for node in world.servers.brokers.values() if node.name == name)
        now |= scrape(agent) if (agent := next(agents, None)) else {}
    return {key: value + before.get(key, 0.0) for key, value in now.items()}


def _rows(label: str, source: str, counted: dict[str, float]) -> list[dict[str, object]]:
    t_ns = time.monotonic_ns()
    return [{"t_ns": t_ns, "label": label, "source": source, "name": n, "value": v} for n, v in counted.items()]


def _carried_file(world: World) -> Path:
    return world.folder.work / "usage.json"


def _carried(world: World) -> dict[str, dict[str, float]]:
    return read_notes(_carried_file(world))
