"""Turn a live run into evidence: servers' files, and clients' streams as tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from clusters.clients.ledger import sends_of
from clusters.clients.polls import polls_of
from clusters.live.exits import end, record_exits
from clusters.live.servers import PREFIX
from clusters.live.world import World
from clusters.runtimes.runtime import available
from history.errors import HarnessError
from history.events import read_events
from history.partitioned import Read, streams_to_parquet
from history.streams import read_stream
from history.tables import RECORDED

Starts = dict[int, list[tuple[int, int]]]  # broker id → (started_ns, incarnation)

OF_MEMBERS = ("group_reads", "rebalances", "commits", "share_reads", "share_acks")
STREAMED = ("sends", "polls", "seeks", *OF_MEMBERS, "replicas", "isr")


def collect_servers(world: World) -> None:
    """Pause all servers at once, kill them (SIGKILL), and move their files to the evidence.

    A clean stop would change ISR and epochs; a copy would need twice the space. Safe to repeat.
    """
    files = world.servers.files
    if files is None or not (world.folder.work / PREFIX).exists():  # no node starts before addresses are reserved
        return
    record_exits(world)
    live = [node for node in world.servers.nodes if world.state(node) == "running"]
    for node in live:
        world.pause(node)
    for node in world.servers.nodes:
        if node.disk_bytes:  # lost with its server
            available(world.runtime.disks, "disk for each node").run_script(node, "cp -a --sparse=always /disk/. data/")
    for node in live:
        end(world, node, "SIGKILL")
    for node in world.servers.nodes:
        try:
            files.collect(node, world.folder.brokers / node.name)
        except OSError as error:
            raise HarnessError(f"What {node.name} wrote could not be collected: {error}.") from error


def collect_clients(world: World) -> None:
    """Copy clients' logs and clock readings."""
    for log in world.folder.work.glob("*/server.log"):
        if not log.is_symlink() and any(world.folder.clients.glob(f"{log.parent.name}.*json")):
            shutil.copy(log, world.folder.clients / f"{log.parent.name}.log")
    clock = world.folder.work / "streams" / "clock.jsonl"
    if clock.exists():
        shutil.copy(clock, world.folder.path / "clock.jsonl")


def write_tables(world: World) -> None:
    """Convert every stream to Parquet."""
    streams = world.folder.work / "streams"
    readers: dict[str, Read] = {
        "sends": sends_of,
        "polls": polls_of,
        "replicas": partial(_replicas_of, starts=_broker_starts(world)),
    }
    for name in STREAMED:
        files = sorted(streams.glob(f"{name}-*.arrow"))
        rows = streams_to_parquet(files, world.folder.table(name), RECORDED[name], readers.get(name, read_stream))
        world.events.add("step", step="table", target=name, rows=rows)


def _broker_starts(world: World) -> Starts:
    numbers = {node.name: number for number, node in world.servers.brokers.items()}
    starts: Starts = {number: [] for number in world.servers.brokers}
    for event in read_events(world.folder.events):
        if event.kind == "node_started" and event.target in numbers:
            starts[numbers[event.target]].append((event.t_ns, event.detail["incarnation"]))
    return starts


def _replicas_of(stream: Path, starts: Starts) -> Iterator[pa.RecordBatch]:
    """Yield samples in batches: a long run exceeds memory."""
    for batch in read_stream(stream):
        yield with_incarnations(batch, starts)


def with_incarnations(replicas: pa.RecordBatch, starts: Starts) -> pa.RecordBatch:
    """Set ``incarnation`` to that of the last start before the sample."""
    incarnations = pa.nulls(replicas.num_rows, pa.int32())
    for broker_id, of_broker in starts.items():
        own = pc.equal(replicas["broker_id"], broker_id)
        for started_ns, incarnation in of_broker:
            since = pc.and_(own, pc.greater_equal(replicas["sent_ns"], started_ns))
            incarnations = pc.if_else(since, pa.scalar(incarnation, pa.int32()), incarnations)
    index = replicas.schema.get_field_index("incarnation")
    return replicas.set_column(index, replicas.schema.field("incarnation"), incarnations)
