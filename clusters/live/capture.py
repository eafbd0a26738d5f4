"""Capture every replica's offsets at one moment."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clusters.kafka.connection import Connection, transport_error_name
from clusters.kafka.probe import ReplicaSample, probe_all
from clusters.live.world import World
from history.partition import TopicPartition
from history.tables import OFFSETS

MOST_TOLD = 60  # replicas in a capture's event; its table has all


def capture_offsets(world: World, label: str) -> None:
    """Write a file with one row per replica; a silent broker's rows have its error."""
    with ThreadPoolExecutor(len(world.servers.brokers)) as pool:  # at about one moment, and with one time-out
        of_brokers = list(pool.map(lambda broker_id: _rows(world, label, broker_id), world.servers.brokers))
    rows = sorted((row for rows in of_brokers for row in rows), key=lambda row: (row["topic"], row["partition"]))
    write_numbered(world.folder.table("offsets"), label, pa.Table.from_pylist(rows, schema=OFFSETS))
    summary = [
        f"{row['broker_id']}: HW {row['high_watermark']} LEO {row['log_end_offset']}" for row in rows[:MOST_TOLD]
    ]
    world.events.add("capture", target=label, replicas=summary, count=len(rows))


def write_numbered(folder: Path, label: str, table: pa.Table) -> None:
    """Write a further file; labels may repeat in a phase, or differ only in punctuation."""
    folder.mkdir(exist_ok=True)
    name = f"{len(list(folder.iterdir())):02}-{re.sub('[^a-z0-9]+', '-', label.lower())}"
    pq.write_table(table, folder / f"{name}.parquet")


def _rows(world: World, label: str, broker_id: int) -> list[dict[str, Any]]:
    node, partitions = world.servers.brokers[broker_id], world.partitions_of(broker_id)
    samples = _samples_or_error(world.reports.connection(broker_id), partitions)
    of_files = world.servers.files.checkpoints(node, partitions) if world.servers.files else {}
    common = {"capture": label, "broker_id": broker_id, "incarnation": world.incarnation(node)}
    return [
        {**common, **sample._asdict(), **of_files.get(TopicPartition(sample.topic, sample.partition), {})}
        for sample in samples
    ]


def _samples_or_error(connection: Connection, partitions: Sequence[TopicPartition]) -> list[ReplicaSample]:
    """Return a broker's samples; a silent one costs one time-out, not one per partition."""
    sent_ns = time.monotonic_ns()
    try:
        return probe_all(connection, partitions)
    except OSError as error:
        received_ns, name = time.monotonic_ns(), transport_error_name(error)
        return [ReplicaSample(*partition, sent_ns, received_ns, error=name) for partition in partitions]
