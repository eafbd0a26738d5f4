"""Captures every replica's offsets at one moment."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clusters.kafka.wire import TIMEOUT, Connection, ReplicaSample, probe, transport_error_name
from clusters.live.world import World
from history.partition import TopicPartition
from history.tables import OFFSETS
from kafka_files import checkpoints


def capture_offsets(world: World, label: str) -> None:
    """Write one row per replica to a file of its own; a broker that does not answer has its error there."""
    with ThreadPoolExecutor(len(world.brokers)) as pool:  # at about one moment, and one time-out for all
        of_brokers = list(pool.map(lambda broker_id: _rows(world, label, broker_id), world.brokers))
    rows = sorted((row for rows in of_brokers for row in rows), key=lambda row: (row["topic"], row["partition"]))
    folder = world.folder.table("offsets")
    folder.mkdir(exist_ok=True)
    # Numbered: one fault may be active twice in a phase, and two labels may differ in their signs only.
    name = f"{len(list(folder.iterdir())):02}-{re.sub('[^a-z0-9]+', '-', label.lower())}"
    pq.write_table(pa.Table.from_pylist(rows, schema=OFFSETS), folder / f"{name}.parquet")
    summary = [f"{row['broker_id']}: HW {row['high_watermark']} LEO {row['log_end_offset']}" for row in rows]
    world.events.add("capture", target=label, replicas=summary)


def _rows(world: World, label: str, broker_id: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for partition in world.partitions:
        if broker_id in world.replicas(partition):
            silent = bool(rows) and rows[-1]["error"] == TIMEOUT  # one time-out a broker, not one a partition
            sample = _silence(partition) if silent else _sample_or_error(world.connection(broker_id), partition)
            rows.append(_row(world, label, broker_id, sample))
    return rows


def _row(world: World, label: str, broker_id: int, sample: ReplicaSample) -> dict[str, Any]:
    partition = TopicPartition(sample.topic, sample.partition)
    return {
        "capture": label,
        "broker_id": broker_id,
        "incarnation": world.incarnation(broker_id),
        **asdict(sample),
        **read_checkpoints(world.brokers[broker_id].log_dir_of(str(partition)), partition),
    }


def _silence(partition: TopicPartition) -> ReplicaSample:
    now_ns = time.monotonic_ns()
    return ReplicaSample(*partition, now_ns, now_ns, error=TIMEOUT)


def _sample_or_error(connection: Connection, partition: TopicPartition) -> ReplicaSample:
    sent_ns = time.monotonic_ns()
    try:
        return probe(connection, *partition)
    except OSError as error:
        return ReplicaSample(*partition, sent_ns, time.monotonic_ns(), error=transport_error_name(error))


def read_checkpoints(data: Path, partition: TopicPartition) -> dict[str, int | None]:
    """The values of a replica in its broker's checkpoint files; None where a file has none."""
    epochs = checkpoints.read_epochs(data / str(partition) / checkpoints.LEADER_EPOCHS)
    epoch, start = epochs[-1] if epochs else (None, None)
    return {
        "checkpoint_high_watermark": _offset_in(data / checkpoints.HIGH_WATERMARKS, partition),
        "checkpoint_log_start_offset": _offset_in(data / checkpoints.LOG_STARTS, partition),
        "checkpoint_recovery_point": _offset_in(data / checkpoints.RECOVERY_POINTS, partition),
        "checkpoint_leader_epoch": epoch,
        "checkpoint_epoch_start_offset": start,
    }


def _offset_in(file: Path, partition: TopicPartition) -> int | None:
    return (checkpoints.read_offsets(file) or {}).get(partition)
