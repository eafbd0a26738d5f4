"""Sample every replica until SIGTERM: ``python -m clusters.clients.prober <config.json>``.

One thread per broker skips ticks while an answer is outstanding; a silent broker yields error rows. If a thread fails,
all end: an unobserved broker must not look idle.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from clusters.clients.configs import ProberConfig
from clusters.clients.pacing import SECOND_NS, Constant, Schedule
from clusters.clients.summary import Summary, log_to_stderr, stop_on_sigterm
from clusters.kafka.wire import (
    BrokerProbe,
    ClusterView,
    Connection,
    ReplicaSample,
    metadata,
    transport_error_name,
)
from history.partition import TopicPartition
from history.streams import RowWriter
from history.tables import ISR, REPLICAS

log = logging.getLogger("prober")

Row = dict[str, Any]


@dataclass
class BrokerWatch:
    """Convert one broker's answers into rows."""

    broker_id: int
    probe: BrokerProbe
    topics: list[str]
    _error: str | None = field(default=None, init=False)

    def tick(self, *, with_isr: bool) -> tuple[list[Row], list[Row]]:
        sent_ns = time.monotonic_ns()
        try:
            samples = self.probe.sample()
        except OSError as error:
            self._note(transport_error_name(error))
            return [self._gap(replica, sent_ns) for replica in sorted(self.probe.replicas)], []
        self._note(None)
        replicas = [{"broker_id": self.broker_id, **vars(sample)} for sample in samples]
        return replicas, self._isr() if with_isr else []

    def _isr(self) -> list[Row]:
        try:
            view = metadata(self.probe.connection, self.topics)
        except OSError:
            return []
        self._follow(view)
        return isr_rows(str(self.broker_id), view)

    def _follow(self, view: ClusterView) -> None:
        self.probe.replicas |= {
            TopicPartition(part.topic, part.partition) for part in view.partitions if self.broker_id in part.replicas
        }

    def _gap(self, replica: TopicPartition, sent_ns: int) -> Row:
        sample = ReplicaSample(*replica, sent_ns, time.monotonic_ns(), error=self._error)
        return {"broker_id": self.broker_id, **vars(sample)}

    def _note(self, error: str | None) -> None:
        if error != self._error:
            log.info("broker %d: %s", self.broker_id, error or "answers")
        self._error = error


def isr_rows(observer: str, view: ClusterView) -> list[Row]:
    """Return a broker's view as rows of ``isr``, without partition epoch and ELR."""
    return [
        {
            "observer": observer,
            "source": "metadata",
            **vars(part),
            "sent_ns": view.sent_ns,
            "received_ns": view.received_ns,
        }
        for part in view.partitions
    ]


def _replicas_of(config: ProberConfig, broker_id: int) -> set[TopicPartition]:
    return {
        TopicPartition(topic, partition)
        for topic, partitions in config.assignment.items()
        for partition, brokers in partitions.items()
        if broker_id in brokers
    }


def watches(config: ProberConfig) -> Iterator[BrokerWatch]:
    """Yield one watch per broker."""
    for broker_id, address in config.brokers.items():
        host, _, port = address.rpartition(":")
        connection = Connection(host, int(port), config.timeout_ms / 1000, config.client_id, access=config.access)
        probe = BrokerProbe(connection, _replicas_of(config, broker_id))
        yield BrokerWatch(broker_id, probe, sorted(config.assignment))


def _keep_ticking(
    watch: BrokerWatch,
    schedules: tuple[Schedule, Schedule],
    stop: threading.Event,
    rows: SimpleQueue[tuple[list[Row], list[Row]]],
) -> None:
    probes, views = schedules
    tick = viewed = 0
    with ExitStack() as ending:
        ending.callback(stop.set)
        ending.enter_context(watch.probe.connection)
        while not stop.wait(max(0, probes.due_ns(tick) - time.monotonic_ns()) / SECOND_NS):
            due = views.due_by(time.monotonic_ns())
            rows.put(watch.tick(with_isr=due > viewed))
            viewed = due
            tick = max(tick + 1, probes.due_by(time.monotonic_ns()))


def run(config: ProberConfig, stop: threading.Event) -> None:
    """Probe until ``stop`` is set; write wall/monotonic pairs to ``clock.jsonl``; raise a thread's error."""
    summary = Summary(config, "prober")
    rows: SimpleQueue[tuple[list[Row], list[Row]]] = SimpleQueue()
    start_ns = time.monotonic_ns()
    schedules = Schedule(start_ns, Constant(config.hz)), Schedule(start_ns, Constant(config.isr_hz))
    seconds = Schedule(start_ns, Constant(1.0))
    counts = {"replicas": 0, "isr": 0}
    with ExitStack() as files:
        writers = (
            files.enter_context(RowWriter(config.stream("replicas"), REPLICAS)),
            files.enter_context(RowWriter(config.stream("isr"), ISR)),
        )
        clock = files.enter_context((Path(config.out) / "clock.jsonl").open("a", buffering=1))
        pool = files.enter_context(ThreadPoolExecutor(len(config.brokers)))
        files.callback(stop.set)  # stops the threads before the pool waits for them
        threads = [pool.submit(_keep_ticking, watch, schedules, stop, rows) for watch in watches(config)]
        ticks = 0
        while not all(thread.done() for thread in threads) or not rows.empty():
            if seconds.due_by(time.monotonic_ns()) > ticks:
                ticks = seconds.due_by(time.monotonic_ns())
                clock.write(json.dumps({"t_ns": time.monotonic_ns(), "wall": datetime.now(UTC).isoformat()}) + "\n")
            try:
                ticked = rows.get(timeout=0.1)
            except Empty:
                continue
            for name, writer, found in zip(counts, writers, ticked, strict=True):
                counts[name] += len(found)
                for row in found:
                    writer.add(row)
            if any(row["error"] is None for row in ticked[0]):
                summary.ready()
        for thread in threads:
            thread.result()
    summary.end(rows=counts["replicas"], isr_rows=counts["isr"])
    log.info("ended: %s", counts)


if __name__ == "__main__":
    log_to_stderr()
    run(ProberConfig.from_json(Path(sys.argv[1]).read_text()), stop_on_sigterm())
