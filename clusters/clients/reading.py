"""What the live consumer and the final drain share: one reader of whole partitions, one kind of row.

It reads from the newest leader alone (``clusters.clients.leaders``), and seeks only where that leader, asked in its
epoch, has no such position; each seek is a row of ``seeks`` before it is made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

from clusters.clients.configs import ConsumerConfig
from clusters.clients.leaders import Brokers, NewestLeaders, filter_fetched
from clusters.kafka.wire import EARLIEST, LATEST, UNDECODABLE
from history.payload import decode
from history.streams import RowWriter

log = logging.getLogger("consumer")

POLL_MS = 100
ASK_S = 2.0


class Reader:
    """Reads all partitions from their beginning in assign mode and turns records into rows of ``polls``.

    ``unreadable`` are the partitions that are read no further, with what was found there.
    """

    def __init__(self, config: ConsumerConfig, which_pass: str, seeks: RowWriter) -> None:
        self.partitions = [TopicPartition(topic, p) for topic, count in config.topics.items() for p in range(count)]
        self.rows = 0
        self.unreadable: dict[str, str] = {}
        self.seeks = 0
        self._seeks = seeks
        self._config, self._pass = config, which_pass
        self.leaders = NewestLeaders(bootstrap_servers=config.bootstrap, metadata_max_age_ms=1000)
        self._brokers = Brokers(config.bootstrap, config.client_id, ASK_S)
        self.consumer = KafkaConsumer(
            kafka_client=self.leaders.client,
            bootstrap_servers=config.bootstrap,
            client_id=config.client_id,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",  # a position that is gone is told and handled here, never skipped in silence
            isolation_level=config.isolation,
            check_crcs=False,  # a damaged record becomes a row, by the checksum of its payload, not an exception
            fetch_max_wait_ms=POLL_MS,
            enable_incremental_fetch_sessions=False,  # see filter_fetched
            max_poll_records=2000,
            request_timeout_ms=5000,
            retry_backoff_ms=50,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        self.consumer.assign(self.partitions)
        filter_fetched(self.consumer, self.leaders)
        self.learn()
        for partition in self.partitions:
            self.consumer.seek(partition, self.offset(partition, EARLIEST) or 0)

    def learn(self) -> None:
        """Ask all brokers who leads, so that none is believed that a newer leader has replaced."""
        self._brokers.teach(self.leaders, list(self._config.topics))

    def offset(self, partition: TopicPartition, timestamp: int) -> int | None:
        """``EARLIEST`` or ``LATEST`` (the high watermark, or the last stable offset) by the newest leader; None when it
        does not say.
        """
        return self._brokers.offset(partition, self.leaders.newest(partition), timestamp, self._config.isolation)

    def position(self, partition: TopicPartition) -> int:
        """The offset from which it reads on."""
        return int(self.consumer._subscription.position(partition).offset)  # noqa: SLF001  # the public one asks brokers

    def poll(self) -> Iterator[dict[str, Any]]:
        """The rows of the records that are there now; waits up to ``POLL_MS`` for the first."""
        try:
            polled = self.consumer.poll(timeout_ms=POLL_MS)
        except LogTruncationError as error:
            for partition, safe in error.divergent_offsets.items():
                self._go_on(partition, safe.offset if safe else 0, "the log was truncated below the position")
            return
        except OffsetOutOfRangeError as error:
            for partition in error.args[0]:
                self._go_on(partition, None, "the position is out of range")
            return
        except UNDECODABLE as error:
            self._leave(error)
            return
        received_ns = time.monotonic_ns()
        for records in polled.values():
            for record in records:
                row = row_of(record, position=self.rows, received_ns=received_ns)
                self.rows += 1
                yield self._of_reader | {"isolation": self._config.isolation} | row

    @property
    def _of_reader(self) -> dict[str, Any]:
        return {"consumer_id": self._config.client_id, "pass": self._pass}

    def _leave(self, error: Exception) -> None:
        """Read on without the partition whose batch cannot be decoded, or that one would end it for all of them.

        Only the fetcher knows which one it is. Polled again, it would ask the batch's ended iterator for ever.
        """
        batches = self.consumer._fetcher._next_partition_records  # noqa: SLF001  # nothing public names it
        if not batches:
            raise error
        partition, offset = batches.topic_partition, batches.next_fetch_offset
        self.consumer.pause(partition)
        why = f"from offset {offset} on: {type(error).__name__}: {error}"
        log.warning("%s-%d is read no further, %s", partition.topic, partition.partition, why)
        self.unreadable[f"{partition.topic}-{partition.partition}"] = why

    def _go_on(self, partition: TopicPartition, safe: int | None, why: str) -> None:
        """Seek to the nearest offset that exists, from ``safe`` where the log is not what was read above it.

        What an older leader than the newest of all said moves nobody: the next poll asks the newest.
        """
        _, epoch = self.leaders.newest(partition)
        self.learn()
        start, end = self.offset(partition, EARLIEST), self.offset(partition, LATEST)
        at = self.position(partition)
        if self.leaders.newest(partition)[1] > epoch or start is None or end is None:
            return
        if safe is None and start <= at <= end:
            return
        to = min(max(at if safe is None else safe, start), end)
        log.warning("%s-%d: %s; from %d to %d in epoch %d", *partition, why, at, to, epoch)
        where = {"topic": partition.topic, "partition": partition.partition, "position": self.rows}
        seek = {"from_offset": at, "to_offset": to, "leader_epoch": epoch, "sought_ns": time.monotonic_ns()}
        self._seeks.add(self._of_reader | where | seek | {"why": why})
        self._seeks.flush()
        self.seeks += 1
        self.consumer.seek(partition, to)


def row_of(record: Any, *, position: int, received_ns: int) -> dict[str, Any]:
    """What one record says, whether or not its value is one of ours."""
    payload = decode(record.value)
    return {
        "position": position,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "leader_epoch": record.leader_epoch if record.leader_epoch >= 0 else None,
        "producer_id": payload.producer_id,
        "seq": payload.seq,
        "checksum_ok": payload.checksum_ok,
        "received_ns": received_ns,
    }
