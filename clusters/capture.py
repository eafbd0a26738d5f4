"""Captures every replica's offsets at one moment, and writes fixed batches for ``write`` steps."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clusters.clients.ledger import NO_ACKNOWLEDGEMENT, outcome
from clusters.nodes import Node
from clusters.partition import TopicPartition
from clusters.ports import PORTS
from clusters.scenario import Scenario
from clusters.story.flow import Write
from clusters.wire import TIMEOUT, Connection, ReplicaSample, probe, produce, transport_error_name
from clusters.world import World
from history.folder import write_atomically
from history.payload import encode
from history.streams import RowWriter
from history.tables import OFFSETS, SENDS


def capture_offsets(world: World, label: str) -> None:
    """Write one row per replica to a file of its own; a broker that does not answer has its error there."""
    with ThreadPoolExecutor(len(world.brokers)) as pool:  # at about one moment, and one time-out for all
        of_brokers = list(pool.map(lambda broker_id: _rows(world, label, broker_id), world.brokers))
    rows = sorted((row for rows in of_brokers for row in rows), key=lambda row: (row["topic"], row["partition"]))
    folder = world.folder.table("offsets")
    folder.mkdir(exist_ok=True)
    # Numbered: one fault may be in force twice in a phase, and two labels may differ in their signs only.
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
        **read_checkpoints(world.brokers[broker_id].folder / "data", partition),
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
    epochs = _read_entries(data / str(partition) / "leader-epoch-checkpoint")
    epoch, start = (int(value) for value in epochs[-1]) if epochs else (None, None)
    return {
        "checkpoint_high_watermark": _offset_in(data / "replication-offset-checkpoint", partition),
        "checkpoint_log_start_offset": _offset_in(data / "log-start-offset-checkpoint", partition),
        "checkpoint_recovery_point": _offset_in(data / "recovery-point-offset-checkpoint", partition),
        "checkpoint_leader_epoch": epoch,
        "checkpoint_epoch_start_offset": start,
    }


def _offset_in(file: Path, partition: TopicPartition) -> int | None:
    wanted = [partition.topic, str(partition.partition)]
    return next((int(entry[2]) for entry in _read_entries(file) if entry[:2] == wanted), None)


def _read_entries(file: Path) -> list[list[str]]:
    """A checkpoint file's entries: a version and a count stand before them; a torn or missing file has none."""
    try:
        return [line.split() for line in file.read_text().splitlines()[2:]]
    except OSError:
        return []


def write_directly(world: World, node: Node, step: Write, phase: str, go_on: Callable[[], bool]) -> None:
    """Send a fixed number of records to one broker, no retries, each record in the ledger.

    ``go_on`` is asked before each request; what is left when it says no was never sent.
    """
    producer_id = direct_producer_id(world.scenario, step)
    values = [encode(producer_id, seq, step.record_bytes) for seq in range(step.records)]
    batches = [values[first : first + step.batch] for first in range(0, step.records, step.batch)]
    silent = NO_ACKNOWLEDGEMENT if step.acks == "0" else None
    errors: list[str | None] = []
    stream = world.folder.work / "streams" / f"sends-{producer_id}.arrow"
    started_ns = time.monotonic_ns()
    with Connection(node.address, PORTS["CLIENT"], 15.0) as connection, RowWriter(stream, SENDS) as ledger:
        answers = produce(connection, step.topic, step.partition, batches, step.acks, go_on=go_on)
        for answer, batch in zip(answers, batches, strict=True):  # as they come, so that none is lost with this process
            error = answer.error or silent
            for index in range(len(batch)):
                ledger.add(
                    {
                        "producer_id": producer_id,
                        "seq": len(errors),
                        "topic": step.topic,
                        "partition": step.partition,
                        "due_ns": answer.sent_ns or started_ns,
                        "sent_ns": answer.sent_ns,
                        "done_ns": answer.done_ns,
                        "outcome": outcome(error, may_have_retried=False),
                        "error": error,
                        "offset": None if answer.base_offset is None else answer.base_offset + index,
                        "acks": step.acks,
                        "record_bytes": step.record_bytes,
                    }
                )
                errors.append(error)
    summary = {
        "client_id": producer_id,
        "role": "producer",
        "started_ns": started_ns,
        "ended_ns": time.monotonic_ns(),
        "clean": True,
        "rows": len(errors),
        "last_seq": len(errors) - 1,
    }
    write_atomically(world.folder.clients / f"{producer_id}.json", json.dumps(summary, indent=1))
    sent = {"acked": errors.count(None), "sent": len(errors)}
    world.events.add("step", phase=phase, step="written", target=node.name, **sent)


def direct_producer_id(scenario: Scenario, step: Write) -> str:
    """``write-1`` for the first ``write`` step of the scenario, and so on."""
    writes = [s for phase in scenario.phases for s in phase.steps if isinstance(s, Write)]
    return f"write-{next(index for index, each in enumerate(writes) if each is step) + 1}"
