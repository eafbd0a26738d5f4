"""Read whole partitions, for the live consumer and the final drain.

The reader fetches only from the newest leader, in its epoch (KIP-320). It seeks only if that leader lacks the position,
and first records the seek in ``seeks``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clusters.clients.configs import ConsumerConfig
from clusters.clients.leaders import Brokers, Leaders
from clusters.clients.polls import SEEN, in_common, in_runs
from clusters.kafka.connection import Connection
from clusters.kafka.fetching import OFFSET_OUT_OF_RANGE, FetchSession, Position
from clusters.kafka.offsets import EARLIEST, LATEST
from history.partition import TopicPartition
from history.streams import RowWriter
from kafka_files.aborted import without_aborted
from kafka_files.batches import Headers, Problem, last_offsets, problem_text, whole_batches
from kafka_files.records import decode

log = logging.getLogger("consumer")

POLL_MS = 100
ASK_S = 2.0
ANSWER_S = 5.0
LEARN_S, LEARN_S_A_PARTITION = 1.0, 0.001  # between leader queries, if nothing fails
AGAIN_S = 0.05
MAX_AGAIN_S = 1.0
BROKERS = 64


@dataclass
class Place:
    """A partition's position; ``epoch`` is that of the batch before."""

    offset: int
    epoch: int = -1
    readable: bool = True


class _Answer(NamedTuple):
    wanted: Mapping[TopicPartition, Position]
    partitions: Mapping[TopicPartition, Any] | None
    received_ns: int


class _Batches(NamedTuple):
    data: memoryview  # the answer after the next one overwrites it
    headers: Headers
    aborted: Any


class Reader:
    """Read all partitions from their beginning; ``unreadable`` has reasons."""

    def __init__(self, config: ConsumerConfig, which_pass: str, seeks: RowWriter) -> None:
        self.partitions = [TopicPartition(topic, p) for topic, count in config.topics.items() for p in range(count)]
        pa.array([0])  # the first conversion imports pandas, if installed
        self.rows = 0
        self.unreadable: dict[str, str] = {}
        self.seeks = 0
        self._seeks = seeks
        self._config, self._pass = config, which_pass
        self._level = int(config.isolation == "read_committed")
        self.leaders = Leaders()
        self._brokers = Brokers(config.bootstrap, config.id_on_cluster, ASK_S, config.credentials)
        self._sessions: dict[int, FetchSession] = {}
        self._threads = ThreadPoolExecutor(BROKERS, "fetch")
        self._fetching: dict[int, Future[_Answer]] = {}
        self._not_before_s: dict[int, float] = {}
        self._silent_s: dict[int, float] = {}  # retry delay of silent brokers
        self._unsure, self._closed = threading.Event(), threading.Event()
        self.learn()
        threading.Thread(target=self._go_on_learning, name="leaders", daemon=True).start()
        starts = self.offsets(self.partitions, EARLIEST)
        self._places = {where: Place(start or 0) for where, start in starts.items()}

    def learn(self) -> None:
        self._brokers.update(self.leaders, list(self._config.topics))

    def _go_on_learning(self) -> None:
        """Query leaders in a thread: silent brokers must not delay reading."""
        brokers = Brokers(self._config.bootstrap, self._config.id_on_cluster, ASK_S, self._config.credentials)
        every_s = LEARN_S + LEARN_S_A_PARTITION * len(self.partitions)
        while not self._closed.wait(AGAIN_S):
            self._unsure.wait(every_s)
            self._unsure.clear()
            brokers.update(self.leaders, list(self._config.topics))

    def close(self) -> None:
        self._closed.set()
        self._threads.shutdown()
        for session in self._sessions.values():
            session.connection.close()

    def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int | None]:
        """Return ``EARLIEST`` or ``LATEST`` offsets from the newest leaders, None without an answer."""
        return self._brokers.offsets(partitions, self.leaders, timestamp, self._config.isolation)

    def position(self, partition: TopicPartition) -> int:
        return self._places[partition].offset

    def positions(self) -> dict[str, int | None]:
        return {str(where): place.offset for where, place in self._places.items() if place.readable}

    def poll(self) -> Iterator[pa.RecordBatch]:
        self._fetch_all()
        if not self._fetching:
            self._closed.wait(AGAIN_S)
            return
        wait(self._fetching.values(), POLL_MS / 1000, FIRST_COMPLETED)
        for broker in [broker for broker, answer in self._fetching.items() if answer.done()]:
            yield from self._answered(broker, self._fetching.pop(broker).result())

    def _fetch_all(self) -> None:
        now_s, led = time.monotonic(), self._led()
        if not led:
            self._unsure.set()
        for broker, partitions in led.items():
            if broker not in self._fetching and now_s >= self._not_before_s.get(broker, 0.0):
                self._fetch(broker, partitions)

    def _led(self) -> dict[int, list[TopicPartition]]:
        found: dict[int, list[TopicPartition]] = {}
        for where, place in self._places.items():
            leader, _ = self.leaders.newest(where)
            if place.readable and leader in self.leaders.addresses:
                found.setdefault(leader, []).append(where)
        return found

    def _fetch(self, broker: int, partitions: list[TopicPartition]) -> None:
        wanted = {
            where: Position(self._places[where].offset, self.leaders.newest(where)[1], self._places[where].epoch)
            for where in partitions
        }
        self._fetching[broker] = self._threads.submit(self._exchange, self._session(broker), wanted)

    def _exchange(self, session: FetchSession, wanted: Mapping[TopicPartition, Position]) -> _Answer:
        try:
            partitions = session.fetch(wanted, self._level, POLL_MS)
        except OSError:
            return _Answer(wanted, None, time.monotonic_ns())
        return _Answer(wanted, partitions, time.monotonic_ns())

    def _session(self, broker: int) -> FetchSession:
        host, port = self.leaders.addresses[broker]
        session = self._sessions.get(broker)
        if session and (session.connection.host, session.connection.port) != (host, port):
            session.connection.close()
            session = None
        if session is None:
            access = self._config.credentials
            session = FetchSession(Connection(host, port, ANSWER_S, self._config.id_on_cluster, access=access))
            self._sessions[broker] = session
        return session

    def _hold_back(self, broker: int, again_s: float = AGAIN_S) -> None:
        self._unsure.set()
        self._not_before_s[broker] = time.monotonic() + again_s

    def _answered(self, broker: int, answer: _Answer) -> Iterator[pa.RecordBatch]:
        if answer.partitions is None:
            again_s = self._silent_s.get(broker, AGAIN_S)
            self._silent_s[broker] = min(2 * again_s, MAX_AGAIN_S)
            self._hold_back(broker, again_s)
            return
        self._silent_s.pop(broker, None)
        wanted = answer.wanted
        fetched = [
            (where, self._batches(broker, where, wanted[where], part)) for where, part in answer.partitions.items()
        ]
        self._fetch_all()
        for where, data in fetched:
            if data is not None:
                yield from self._decoded(where, wanted[where].offset, data, answer.received_ns)

    def _batches(self, broker: int, where: TopicPartition, wanted: Position, part: Any) -> _Batches | None:
        place = self._places[where]
        if self.leaders.newest(where)[0] != broker or place.offset != wanted.offset or not place.readable:
            return None  # a newer leader or position
        if part.error_code == OFFSET_OUT_OF_RANGE:
            self._go_on(where, None, "the position is out of range")
        elif part.error_code:
            self._hold_back(broker)
        elif part.diverging_epoch is not None and part.diverging_epoch.epoch >= 0:
            self._go_on(where, part.diverging_epoch.end_offset, "the log was truncated below the position")
        elif part.records:
            data = memoryview(part.records)
            found = whole_batches(data)
            if not found.size:
                self._leave(where, place.offset, Problem.TORN_TAIL.text)
                return None
            place.offset, place.epoch = int(last_offsets(found)[-1]) + 1, int(found["leader_epoch"][-1])
            return _Batches(data, found, part.aborted_transactions or ())
        return None

    def _decoded(
        self, where: TopicPartition, first: int, batches: _Batches, received_ns: int
    ) -> Iterator[pa.RecordBatch]:
        kept = batches.headers
        if self._level:
            kept = without_aborted(
                kept, batches.data, [(each.producer_id, each.first_offset) for each in batches.aborted]
            )
        for headers, records in decode(batches.data, kept):
            seen, wrong = records, np.flatnonzero(headers["problem"])
            if wrong.size:
                seen = seen.filter(pc.less(seen["batch"], int(wrong[0])))
            if headers["base_offset"].min() < first:  # batches are returned whole
                seen = seen.filter(pc.greater_equal(seen["offset"], first))
            if seen.num_rows:
                yield self._seen(where, seen, received_ns)
            if wrong.size:
                header = headers[wrong[0]]
                self._leave(where, int(header["base_offset"]), problem_text(header) or "")
                return

    def _seen(self, where: TopicPartition, records: pa.RecordBatch, received_ns: int) -> pa.RecordBatch:
        count = records.num_rows
        columns = {
            "position": pa.array(np.arange(self.rows, self.rows + count)),
            "topic": in_common(where.topic, pa.string(), count),
            "partition": in_common(where.partition, pa.int32(), count),
            "leader_epoch": pc.run_end_encode(records["leader_epoch"]),
            "producer_id": in_runs(records["producer"]),
            "received_ns": in_common(received_ns, pa.int64(), count),
            **{name: records[name] for name in ("offset", "seq", "checksum_ok")},
        }
        self.rows += count
        return pa.RecordBatch.from_arrays([columns[name] for name in SEEN.names], schema=SEEN)

    def _leave(self, where: TopicPartition, offset: int, problem: str) -> None:
        place = self._places[where]
        place.offset, place.readable = offset, False
        why = f"from offset {offset} on: {problem}"
        log.warning("%s is read no further, %s", where, why)
        self.unreadable[str(where)] = why

    def _go_on(self, where: TopicPartition, safe: int | None, why: str) -> None:
        """Seek to the nearest existing offset, or to ``safe``, unless a newer epoch is known by now."""
        _, epoch = self.leaders.newest(where)
        self.learn()
        start, end = (self.offsets([where], timestamp)[where] for timestamp in (EARLIEST, LATEST))
        at = self.position(where)
        if self.leaders.newest(where)[1] > epoch or start is None or end is None:
            return
        if safe is None and start <= at <= end:
            return
        to = min(max(at if safe is None else safe, start), end)
        log.warning("%s: %s; from %d to %d in epoch %d", where, why, at, to, epoch)
        of_reader = {"consumer_id": self._config.client_id, "pass": self._pass, "position": self.rows}
        seek = {"from_offset": at, "to_offset": to, "leader_epoch": epoch, "sought_ns": time.monotonic_ns()}
        self._seeks.add(of_reader | where._asdict() | seek | {"why": why})
        self._seeks.flush()
        self.seeks += 1
        self._places[where] = Place(to)
