"""What the live consumer and the final drain share: one reader of whole partitions, one kind of row."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError, LogTruncationError, OffsetOutOfRangeError

from clusters.clients.configs import ConsumerConfig
from clusters.kafka.wire import UNDECODABLE
from history.payload import decode

log = logging.getLogger("consumer")

POLL_MS = 100
ASK_MS = 2000


class Reader:
    """Reads all partitions from their beginning in assign mode and turns records into rows of ``polls``.

    ``unreadable`` are the partitions that are read no further, with what was found there.
    """

    def __init__(self, config: ConsumerConfig, which_pass: str) -> None:
        self.partitions = [TopicPartition(topic, p) for topic, count in config.topics.items() for p in range(count)]
        self.rows = 0
        self.unreadable: dict[str, str] = {}
        self._constant = {"consumer_id": config.client_id, "pass": which_pass, "isolation": config.isolation}
        self.consumer = KafkaConsumer(
            bootstrap_servers=config.bootstrap,
            client_id=config.client_id,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",  # a position that is gone is told and handled here, never skipped in silence
            isolation_level=config.isolation,
            check_crcs=False,  # a damaged record becomes a row, by the checksum of its payload, not an exception
            fetch_max_wait_ms=POLL_MS,
            max_poll_records=2000,
            request_timeout_ms=5000,
            metadata_max_age_ms=1000,
            retry_backoff_ms=50,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        self.consumer.assign(self.partitions)
        self.consumer.seek_to_beginning(*self.partitions)

    def poll(self) -> Iterator[dict[str, Any]]:
        """The rows of the records that are there now; waits up to ``POLL_MS`` for the first."""
        try:
            polled = self.consumer.poll(timeout_ms=POLL_MS)
        except LogTruncationError as error:
            log.warning("truncated after it was read: %s", error)
            for partition, safe in error.divergent_offsets.items():
                self._go_to(partition, safe.offset if safe else 0)
            return
        except OffsetOutOfRangeError as error:
            log.warning("position is gone: %s", error)
            for partition, offset in error.args[0].items():
                self._go_to(partition, offset)
            return
        except UNDECODABLE as error:
            self._leave(error)
            return
        received_ns = time.monotonic_ns()
        for records in polled.values():
            for record in records:
                row = row_of(record, position=self.rows, received_ns=received_ns)
                self.rows += 1
                yield self._constant | row

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

    def _go_to(self, partition: TopicPartition, offset: int) -> None:
        """Seek to the nearest offset that exists."""
        try:
            start = self.consumer.beginning_offsets([partition], ASK_MS)[partition]
            end = self.consumer.end_offsets([partition], ASK_MS)[partition]
        except KafkaTimeoutError:
            return  # the next poll says the same again
        self.consumer.seek(partition, min(max(offset, start), end))


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
