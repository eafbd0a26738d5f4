"""Write fixed batches to one broker for ``write`` steps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from clusters.clients.ledger import NO_ACKNOWLEDGEMENT, outcome
from clusters.kafka.producing import Produced, produce
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.steps.flow import Write
from history.folder import write_atomically
from history.payload import encode
from history.streams import RowWriter
from history.tables import SENDS

REQUEST_LIMIT_S = 15.0


def write_directly(world: World, node: Node, step: Write, phase: str, go_on: Callable[[], bool]) -> None:
    """Send records to one broker without retries; record each in the ledger."""
    producer_id = world.scenario.id_of(step)
    values = [encode(producer_id, seq, step.record_bytes) for seq in range(step.records)]
    batches = [values[first : first + step.batch] for first in range(0, step.records, step.batch)]
    errors: list[str | None] = []
    stream = world.folder.work / "streams" / f"sends-{producer_id}.arrow"
    started_ns = time.monotonic_ns()
    with world.reports.connect(node, "CLIENT", REQUEST_LIMIT_S) as connection, RowWriter(stream, SENDS) as ledger:
        answers = produce(connection, step.topic, step.partition, batches, step.acks, go_on=go_on)
        for answer, batch in zip(answers, batches, strict=True):  # at once, to survive a crash of this process
            for row in _rows(producer_id, step, answer, range(len(errors), len(errors) + len(batch))):
                ledger.add(row | {"due_ns": answer.sent_ns or started_ns})
                errors.append(row["error"])
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


def _rows(producer_id: str, step: Write, answer: Produced, seqs: range) -> Iterator[dict[str, Any]]:
    error = answer.error or (NO_ACKNOWLEDGEMENT if step.acks == "0" else None)
    for index, seq in enumerate(seqs):
        yield {
            "producer_id": producer_id,
            "seq": seq,
            "topic": step.topic,
            "partition": step.partition,
            "sent_ns": answer.sent_ns,
            "done_ns": answer.done_ns,
            "outcome": outcome(error, may_have_retried=False),
            "error": error,
            "offset": None if answer.base_offset is None else answer.base_offset + index,
            "acks": step.acks,
            "record_bytes": step.record_bytes,
        }
