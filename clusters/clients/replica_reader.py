"""Consume from a given replica, leader or follower, during a phase."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter

from kafka.errors import CorruptRecordError

from clusters.kafka.connection import Connection, transport_error_name
from clusters.kafka.fetching import FENCED_LEADER_EPOCH, Consumed, consume, preferred_replica
from clusters.kafka.offsets import list_offset
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.steps.flow import Read
from history.folder import write_atomically
from history.payload import decode
from history.streams import RowWriter
from history.tables import POLLS

SILENCE_S = 0.2
ERROR_S = 0.02  # pause after an error


class ReplicaReader:
    """Fetch at once again, to catch what a follower shows only briefly."""

    def __init__(self, world: World, node: Node, step: Read) -> None:
        self.stop = threading.Event()
        self._world, self._node, self._rack, self._offset = world, node, step.rack, step.offset
        self._partition = step.replica.of or world.partitions[0]
        self._epoch = -1
        self._id = world.scenario.id_of(step)
        self._answers = 0
        self._errors: Counter[str] = Counter()
        self._unreadable: dict[str, str] = {}

    def run(self) -> None:
        started_ns, offset, rows = time.monotonic_ns(), self._offset, 0
        stream = self._world.folder.work / "streams" / f"polls-{self._id}.arrow"
        if self._rack:
            self._node = self._preferred(self._rack)
        with RowWriter(stream, POLLS) as writer, self._connect() as connection:
            while not (self.stop.is_set() or self._unreadable):
                for record in self._consume(connection, offset):
                    writer.add(self._row(record, rows))
                    rows, offset = rows + 1, record.offset + 1
        summary = {
            "client_id": self._id,
            "role": "consumer",
            "started_ns": started_ns,
            "ended_ns": time.monotonic_ns(),
            "clean": True,
            "rows": rows,
            "answers": self._answers,
            "errors": self._errors,
            "unreadable": self._unreadable,
            "replica": self._node.name,
            "position": offset,
        }
        write_atomically(self._world.folder.clients / f"{self._id}.json", json.dumps(summary, indent=1))

    def _connect(self) -> Connection:
        client_id = f"{self._world.plan.id_prefix}{self._id}"
        return self._world.reports.connect(self._node, "CLIENT", timeout_s=2.0, client_id=client_id)

    def _preferred(self, rack: str) -> Node:
        with self._connect() as connection:
            while not self.stop.is_set():
                try:
                    preferred, error = preferred_replica(connection, self._partition, self._offset, rack)
                except OSError as silence:
                    error = transport_error_name(silence)
                if error is None:
                    return self._node if preferred is None else self._world.servers.node(preferred)
                self._errors[error] += 1
                self.stop.wait(SILENCE_S)
        return self._node

    def _consume(self, connection: Connection, offset: int) -> list[Consumed]:
        """Read, never from an older leader epoch; count answers and errors."""
        try:
            if self._epoch < 0:
                self._learn_epoch(connection)
            records, error = consume(connection, self._partition, offset, self._epoch)
            if error == FENCED_LEADER_EPOCH:
                self._learn_epoch(connection)
        except CorruptRecordError as damage:
            self._unreadable[str(self._partition)] = str(damage.args[0])
            return []
        except OSError as silence:
            self._errors[transport_error_name(silence)] += 1
            self.stop.wait(SILENCE_S)
            return []
        if error is None:
            self._answers += 1
        else:
            self._errors[error] += 1
            self.stop.wait(ERROR_S)
        return records

    def _learn_epoch(self, connection: Connection) -> None:
        listed = list_offset(connection, *self._partition)
        self._epoch = max(self._epoch, -1 if listed.leader_epoch is None else listed.leader_epoch)

    def _row(self, record: Consumed, position: int) -> dict[str, object]:
        payload = decode(record.value)
        return {
            "consumer_id": self._id,
            "pass": "live",
            "position": position,
            **self._partition._asdict(),
            "offset": record.offset,
            "leader_epoch": record.leader_epoch,
            "producer_id": payload.producer_id,
            "seq": payload.seq,
            "checksum_ok": payload.checksum_ok if record.sound else False,
            "received_ns": time.monotonic_ns(),
            "isolation": "read_uncommitted",
        }
