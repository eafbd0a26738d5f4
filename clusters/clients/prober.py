"""Sample every replica until SIGTERM: ``python -m clusters.clients.prober <config.json>``.

One thread per broker skips ticks while an answer is outstanding; a silent broker yields error rows. If a thread fails,
all end: an unobserved broker must not look idle.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from clusters.clients.configs import ProberConfig
from clusters.clients.main import main, stop_on_sigterm
from clusters.clients.pacing import SECOND_NS, Constant, Schedule
from clusters.clients.summary import Summary
from clusters.kafka.connection import Connection, transport_error_name
from clusters.kafka.probe import BrokerProbe, ReplicaSample
from clusters.kafka.views import ClusterView, metadata
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


def rests_until_ns(sent_ns: int, answered_ns: int, busy: float, throttled_until_ns: int) -> int:
    """Return when the next request may be sent: requests take the share ``busy`` of the time, and quotas count."""
    return max(answered_ns + int((answered_ns - sent_ns) * (1 / busy - 1)), throttled_until_ns)


def _keep_ticking(
    watch: BrokerWatch,
    schedules: tuple[Schedule, Schedule],
    stop: threading.Event,
    rows: SimpleQueue[tuple[list[Row], list[Row]]],
    busy: float,
) -> None:
    probes, views = schedules
    tick = viewed = 0
    with ExitStack() as ending:
        ending.callback(stop.set)
        ending.enter_context(watch.probe.connection)
        not_before_ns = 0
        while not stop.wait(max(0, max(probes.due_ns(tick), not_before_ns) - time.monotonic_ns()) / SECOND_NS):
            sent_ns = time.monotonic_ns()
            due = views.due_by(sent_ns)
            rows.put(watch.tick(with_isr=due > viewed))
            viewed = due
            answered_ns = time.monotonic_ns()
            tick = max(tick + 1, probes.due_by(answered_ns))
            not_before_ns = rests_until_ns(sent_ns, answered_ns, busy, watch.probe.connection.throttled_until_ns)


Show = Callable[[list[Row], list[Row]], None]


def run(config: ProberConfig, stop: threading.Event, show: Show = lambda *_: None) -> None:
    """Probe until ``stop`` is set; write wall/monotonic pairs to ``clock.jsonl``; raise a thread's error.

    ``show`` receives all written rows.
    """
    summary = Summary(config, "prober")
    rows: SimpleQueue[tuple[list[Row], list[Row]]] = SimpleQueue()
    start_ns = time.monotonic_ns()
    schedules = Schedule(start_ns, Constant(config.hz)), Schedule(start_ns, Constant(config.isr_hz))
    seconds = Schedule(start_ns, Constant(1.0))
    with ExitStack() as files:
        replicas = files.enter_context(RowWriter(config.stream("replicas"), REPLICAS))
        isr = files.enter_context(RowWriter(config.stream("isr"), ISR))
        clock = files.enter_context((Path(config.out) / "clock.jsonl").open("a", buffering=1))
        pool = files.enter_context(ThreadPoolExecutor(len(config.brokers)))
        files.callback(stop.set)  # stops the threads before the pool waits for them
        threads = [pool.submit(_keep_ticking, watch, schedules, stop, rows, config.busy) for watch in watches(config)]
        ticks = 0
        while not all(thread.done() for thread in threads) or not rows.empty():
            if seconds.due_by(time.monotonic_ns()) > ticks:
                ticks = seconds.due_by(time.monotonic_ns())
                clock.write(json.dumps({"t_ns": time.monotonic_ns(), "wall": datetime.now(UTC).isoformat()}) + "\n")
                summary.so_far(rows=replicas.rows)
            try:
                ticked = rows.get(timeout=0.1)
            except Empty:
                continue
            for writer, found in zip((replicas, isr), ticked, strict=True):
                for row in found:
                    writer.add(row)
            show(*ticked)
            if any(row["error"] is None for row in ticked[0]):
                summary.ready()
        for thread in threads:
            thread.result()
    summary.end(rows=replicas.rows, isr_rows=isr.rows)
    log.info("ended: %d samples, %d views", replicas.rows, isr.rows)


if __name__ == "__main__":
    main(ProberConfig, run, stop_on_sigterm())
