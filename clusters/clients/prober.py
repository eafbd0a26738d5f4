"""Sample every replica until SIGTERM.

One thread per broker skips ticks while an answer is outstanding; a silent broker yields error rows. If a thread fails,
all end: an unobserved broker must not look idle.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue

from clusters.clients.configs import ProberConfig
from clusters.clients.main import main, stop_on_sigterm
from clusters.clients.pacing import SECOND_NS, Constant, Schedule
from clusters.clients.summary import Summary
from clusters.kafka.connection import Connection, transport_error_name
from clusters.kafka.probe import INCONSISTENT_TOPIC_ID, BrokerProbe, ReplicaSample, Tick
from clusters.kafka.views import UNKNOWN_TOPIC, ClusterView, MetadataReader
from history.partition import TopicPartition
from history.streams import BatchWriter, batch_of
from history.tables import ISR, REPLICAS

log = logging.getLogger("prober")


@dataclass
class BrokerWatch:
    """Sample one broker.

    If ``topic_ids`` is not empty, samples of other topics with these names become errors. Sound: metadata that has a
    topic's id shows that the samples before were of this topic, since brokers change their metadata before their logs
    (with ZooKeeper, no metadata has the topic in between).
    """

    broker_id: int
    probe: BrokerProbe
    metadata: MetadataReader
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    listed: dict[int, tuple[str, int]] = field(default_factory=dict)  # shared
    _error: str | None = field(default=None, init=False)

    def tick(self, *, with_isr: bool) -> Tick:
        sent_ns = time.monotonic_ns()
        try:
            self._find()
            samples = self.probe.sample()
            view = self._view() if with_isr or self.topic_ids else None
        except OSError as error:
            self._note(transport_error_name(error))
            return Tick(self.broker_id, [self._gap(replica, sent_ns) for replica in sorted(self.probe.replicas)], None)
        self._note(None)
        if view is None:
            return Tick(self.broker_id, samples, None)
        others = {topic for topic, topic_id in self.topic_ids.items() if view.topic_ids.get(topic) != topic_id}
        if others:
            samples = [_of_other_topic(each, view) if each.topic in others else each for each in samples]
            view = replace(view, partitions=[part for part in view.partitions if part.topic not in others])
        self._follow(view)
        return Tick(self.broker_id, samples, view)

    def _find(self) -> None:
        connection = self.probe.connection
        if not connection.host:
            if self.broker_id not in self.listed:
                raise ConnectionRefusedError("no broker reports its address")
            connection.host, connection.port = self.listed[self.broker_id]

    def _view(self) -> ClusterView | None:
        try:
            return self.metadata.read()
        except OSError:
            if self.topic_ids:
                raise
            return None

    def _follow(self, view: ClusterView) -> None:
        self.listed |= view.brokers
        self.probe.replicas |= {
            TopicPartition(part.topic, part.partition) for part in view.partitions if self.broker_id in part.replicas
        }

    def _gap(self, replica: TopicPartition, sent_ns: int) -> ReplicaSample:
        return ReplicaSample(*replica, sent_ns, time.monotonic_ns(), error=self._error)

    def _note(self, error: str | None) -> None:
        if error != self._error:
            log.info("broker %d: %s", self.broker_id, error or "answers")
        self._error = error


def _of_other_topic(sample: ReplicaSample, view: ClusterView) -> ReplicaSample:
    error = INCONSISTENT_TOPIC_ID if sample.topic in view.topic_ids else sample.error or UNKNOWN_TOPIC
    return ReplicaSample(sample.topic, sample.partition, sample.sent_ns, sample.received_ns, error=error)


def _replicas_of(config: ProberConfig, broker_id: int) -> set[TopicPartition]:
    return {
        TopicPartition(topic, partition)
        for topic, partitions in config.assignment.items()
        for partition, brokers in partitions.items()
        if broker_id in brokers
    }


def watches(config: ProberConfig) -> Iterator[BrokerWatch]:
    """Yield one watch per broker."""
    listed: dict[int, tuple[str, int]] = {}
    for broker_id, address in config.brokers.items():
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")  # IPv6
        connection = Connection(
            host, int(port or 0), config.timeout_ms / 1000, config.id_on_cluster, access=config.credentials
        )
        probe = BrokerProbe(connection, _replicas_of(config, broker_id))
        metadata = MetadataReader(connection, sorted(config.assignment))
        yield BrokerWatch(broker_id, probe, metadata, config.topic_ids, listed)


def rests_until_ns(sent_ns: int, answered_ns: int, busy: float, throttled_until_ns: int) -> int:
    """Return when the next request may be sent: requests take the share ``busy`` of the time, and quotas count."""
    return max(answered_ns + int((answered_ns - sent_ns) * (1 / busy - 1)), throttled_until_ns)


def _keep_ticking(
    watch: BrokerWatch,
    schedules: tuple[Schedule, Schedule],
    stop: threading.Event,
    ticks: SimpleQueue[Tick],
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
            ticks.put(watch.tick(with_isr=due > viewed))
            viewed = due
            answered_ns = time.monotonic_ns()
            tick = max(tick + 1, probes.due_by(answered_ns))
            not_before_ns = rests_until_ns(sent_ns, answered_ns, busy, watch.probe.connection.throttled_until_ns)


Show = Callable[[Tick], None]


class _Tables:
    """Write ticks to the streams ``replicas`` and ``isr``."""

    def __init__(self, config: ProberConfig, files: ExitStack) -> None:
        self._replicas = files.enter_context(BatchWriter(config.stream("replicas"), REPLICAS))
        self._isr = files.enter_context(BatchWriter(config.stream("isr"), ISR))
        self.rows = self.isr_rows = 0

    def add(self, tick: Tick) -> None:
        self._replicas.add(batch_of(tick.samples, REPLICAS, broker_id=tick.broker_id))
        self.rows += len(tick.samples)
        if view := tick.view:
            same = {"observer": str(tick.broker_id), "source": "metadata"}
            times = {"sent_ns": view.sent_ns, "received_ns": view.received_ns}
            self._isr.add(batch_of(view.partitions, ISR, **same, **times))
            self.isr_rows += len(view.partitions)
        self._replicas.flush_if_due()
        self._isr.flush_if_due()


def run(config: ProberConfig, stop: threading.Event, show: Show = lambda _: None) -> None:
    """Probe until ``stop`` is set; write wall/monotonic pairs to ``clock.jsonl``; raise a thread's error.

    ``show`` receives all that is written.
    """
    summary = Summary(config, "prober")
    ticks: SimpleQueue[Tick] = SimpleQueue()
    start_ns = time.monotonic_ns()
    schedules = Schedule(start_ns, Constant(config.hz)), Schedule(start_ns, Constant(config.isr_hz))
    seconds = Schedule(start_ns, Constant(1.0))
    with ExitStack() as files:
        tables = _Tables(config, files)
        clock = files.enter_context((Path(config.out) / "clock.jsonl").open("a", buffering=1))
        pool = files.enter_context(ThreadPoolExecutor(len(config.brokers)))
        files.callback(stop.set)  # stops the threads before the pool waits for them
        threads = [pool.submit(_keep_ticking, watch, schedules, stop, ticks, config.busy) for watch in watches(config)]
        second = 0
        while not all(thread.done() for thread in threads) or not ticks.empty():
            if seconds.due_by(time.monotonic_ns()) > second:
                second = seconds.due_by(time.monotonic_ns())
                clock.write(json.dumps({"t_ns": time.monotonic_ns(), "wall": datetime.now(UTC).isoformat()}) + "\n")
                summary.so_far(rows=tables.rows)
            try:
                tick = ticks.get(timeout=0.1)
            except Empty:
                continue
            tables.add(tick)
            show(tick)
            if any(sample.error is None for sample in tick.samples):
                summary.ready()
        for thread in threads:
            thread.result()
    summary.end(rows=tables.rows, isr_rows=tables.isr_rows)
    log.info("ended: %d samples, %d views", tables.rows, tables.isr_rows)


if __name__ == "__main__":
    main(ProberConfig, run, stop_on_sigterm())
