"""Produce in consecutive transactions (KIP-98), with confluent-kafka.

A full transaction ends in the background; until then no record is accepted. Some are aborted on purpose.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from clusters.clients.configs import ProducerConfig
from clusters.clients.engines import (
    START_LIMIT_S,
    Answer,
    NotTakenError,
    OneByOne,
    confluent_settings,
    librdkafka_error,
)
from clusters.clients.ledger import ABORTED, NOT_SEEN
from history.errors import HarnessError

log = logging.getLogger("producer")

AGAIN_S = 0.1
ASK_S = 5.0


class Transactional(OneByOne):
    """Produce with confluent-kafka; its records' partitions are known."""

    def __init__(self, config: ProducerConfig) -> None:
        self.answered = deque[Answer]()
        self._config = config
        self._number = 0
        self._begun = False
        self._ending = False
        self._seqs: list[int] = []
        self._places: dict[int, tuple[int, int]] = {}
        self._producer = self._new_producer(START_LIMIT_S)

    @property
    def ready(self) -> bool:
        return not self._ending

    def send_one(self, partition: int, value: bytes, key: bytes | None, seq: int) -> int:
        def done(error: Any, message: Any) -> None:
            if error is None and message.offset() >= 0:
                self._places[seq] = message.partition(), message.offset()

        number = self._number
        try:
            if not self._begun:
                self._producer.begin_transaction()
                self._begun = True
            self._producer.produce(self._config.topic, value, key, partition, on_delivery=done)
        except (KafkaException, BufferError) as error:
            self._end_in_thread()  # it accepts nothing more
            raise NotTakenError(str(error)) from error
        self._seqs.append(seq)
        if len(self._seqs) == self._config.transaction_records:
            self._end_in_thread()
        return number

    def poll(self) -> None:
        if self.ready:
            self._producer.poll(0)

    def finish(self) -> None:
        if self._begun and self.ready:
            self._end_in_thread()

    def _end_in_thread(self) -> None:
        self._ending = True
        threading.Thread(target=self._end, name=f"transaction {self._number}", daemon=True).start()

    def _end(self) -> None:
        every = self._config.abort_every
        on_purpose = every is not None and (self._number + 1) % every == 0
        error, usable = self._abort() if on_purpose else self._commit()
        done_ns = time.monotonic_ns()
        nowhere = NOT_SEEN, NOT_SEEN
        self.answered.extend((seq, done_ns, *self._places.get(seq, nowhere), error) for seq in self._seqs)
        if not usable:
            self._producer = self._new_producer(None)
        self._number += 1
        self._seqs, self._places = [], {}
        self._begun = self._ending = False

    def _commit(self) -> tuple[str | None, bool]:
        """Return the error (None: committed), and whether the producer remains usable."""
        failed = self._insist(self._producer.commit_transaction)
        if failed is None:
            return None, True
        log.warning("transaction %d was not committed: %s", self._number, failed)
        if failed.txn_requires_abort() and self._insist(self._producer.abort_transaction) is None:
            return ABORTED, True
        # Not a record's error name: the coordinator may have received the request.
        return f"commit {librdkafka_error(failed.code())}", False

    def _abort(self) -> tuple[str, bool]:
        """Abort; the transaction is aborted even if this call fails."""
        self._producer.flush(self._config.delivery_timeout_ms / 1000)
        failed = self._insist(self._producer.abort_transaction)
        if failed is not None:
            log.warning("transaction %d: the abort failed: %s", self._number, failed)
        return ABORTED, failed is None

    def _insist(self, act: Callable[[], None], limit_s: float | None = None) -> Any | None:
        limit_s = self._config.transaction_timeout_ms / 1000 if limit_s is None else limit_s
        deadline = time.monotonic() + limit_s
        pause = threading.Event()
        while True:
            try:
                act()
            except KafkaException as error:
                failed = error.args[0]
                if not failed.retriable() or time.monotonic() >= deadline:
                    return failed
                pause.wait(AGAIN_S)
            else:
                return None

    def _new_producer(self, limit_s: float | None) -> Producer:
        """Create a producer with the same id, which aborts the open transaction.

        Raises:
            HarnessError: no coordinator answered within ``limit_s``.
        """
        settings = confluent_settings(self._config) | {
            "transactional.id": self._config.id_on_cluster,
            "transaction.timeout.ms": self._config.transaction_timeout_ms,
            # librdkafka requires at most the transaction timeout.
            "socket.timeout.ms": min(self._config.request_timeout_ms + 1000, self._config.transaction_timeout_ms),
        }
        while True:
            producer = Producer(settings)
            failed = self._insist(partial(producer.init_transactions, ASK_S), limit_s)
            if failed is None:
                return producer
            if limit_s is not None:
                raise HarnessError(f"No transaction coordinator accepted {self._config.client_id}: {failed}.")
            log.warning("no new producer yet: %s", failed)
