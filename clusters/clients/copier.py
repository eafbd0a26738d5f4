"""Copy records from topic to topic.

Each turn copies committed records to the same partitions at the same sizes, and commits its offsets in the same
transaction (KIP-98, KIP-447) or by auto-commit. A copy's number is its input's offset. After an error it restarts from
its committed offsets. On SIGTERM it copies to the end of its input.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from clusters.clients.configs import CopierConfig
from clusters.clients.main import main, stop_on_sigterm
from clusters.clients.summary import Summary
from history.payload import copier_id, encode

log = logging.getLogger("copier")

POLL_S = 0.2
ASK_S = 10.0
AGAIN_S = 0.2
AUTO_COMMIT_MS = 5000


class Turns:
    """Pair a consumer with a producer until one fails (KafkaException)."""

    def __init__(self, config: CopierConfig) -> None:
        self._config = config
        self._inside = config.offsets == "in_transaction"
        self._ends: set[int] = set()
        common: dict[str, Any] = {"bootstrap.servers": ",".join(config.bootstrap), "client.id": config.id_on_cluster}
        common |= config.credentials.librdkafka() if config.credentials else {}
        self._producer = Producer(
            {
                **common,
                "transactional.id": config.id_on_cluster,
                "transaction.timeout.ms": config.transaction_timeout_ms,
                "linger.ms": 0,
            }
        )
        self._producer.init_transactions(config.transaction_timeout_ms / 1000)
        self._consumer = Consumer(
            {
                **common,
                "group.id": config.id_on_cluster,
                "group.instance.id": config.id_on_cluster,  # KIP-345: no wait for a killed copier's session
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": not self._inside,
                "auto.commit.interval.ms": AUTO_COMMIT_MS,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
            }
        )
        self._consumer.subscribe([config.topic])

    @property
    def at_end(self) -> bool:
        return len(self._ends) == self._config.partitions

    def turn(self) -> int:
        messages = self._consumer.consume(self._config.records, POLL_S)
        taken = [message for message in messages if self._is_record(message)]
        if not taken:
            return 0
        self._producer.begin_transaction()
        for message in taken:
            value = encode(copier_id(message.partition()), message.offset(), len(message.value()))
            self._producer.produce(self._config.to, value, partition=message.partition())
        positions = _behind(taken)
        if self._inside:
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(positions, group, self._config.transaction_timeout_ms / 1000)
        self._producer.commit_transaction(self._config.transaction_timeout_ms / 1000)
        if not self._inside:
            self._consumer.store_offsets(offsets=positions)
        return len(taken)

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            self._ends.discard(message.partition())
            return True
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # librdkafka's name
            raise KafkaException(error)
        self._ends.add(message.partition())
        return False

    def committed(self) -> dict[str, int]:
        if not self._inside:
            self._commit_stored()
        wanted = [TopicPartition(self._config.topic, number) for number in range(self._config.partitions)]
        offsets = self._consumer.committed(wanted, ASK_S)
        return {f"{each.topic}-{each.partition}": max(each.offset, 0) for each in offsets}

    def _commit_stored(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # noqa: SLF001  # nothing left to commit
                raise

    def close(self) -> None:
        """Close the consumer; the next producer of this id, or the timeout, aborts an open transaction."""
        self._consumer.close()


def _behind(messages: Sequence[Message]) -> list[TopicPartition]:
    last = {(message.topic(), message.partition()): message.offset() for message in messages}
    return [TopicPartition(topic, number, offset + 1) for (topic, number), offset in last.items()]


def run(config: CopierConfig, stop: threading.Event) -> None:
    """Copy until ``stop`` is set and the input ends."""
    summary, copied, turns = Summary(config, "copier"), 0, None
    pause = threading.Event()
    while True:
        try:
            turns = turns or Turns(config)
            copied += (count := turns.turn())
            if count:
                summary.ready()
            elif stop.is_set() and turns.at_end:
                committed = turns.committed()
                break
        except KafkaException as error:
            log.warning("restarting after: %s", error)
            if turns:
                turns.close()
            turns = None
            pause.wait(AGAIN_S)
    summary.end(rows=copied, committed=committed)
    turns.close()
    log.info("ended after %d records", copied)


if __name__ == "__main__":
    main(CopierConfig, run, stop_on_sigterm())
