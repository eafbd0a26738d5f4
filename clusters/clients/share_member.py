"""Run a share group member.

Deliveries are written down before their acknowledgement, so that SIGKILL loses none. librdkafka's share consumer (a
preview in 2.16) reports delivery counts and brokers' answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer
from confluent_kafka import TopicPartition as At

from clusters.clients.configs import ShareMemberConfig
from clusters.clients.engines import connection_settings, librdkafka_error
from clusters.clients.main import main, stop_on_sigterm
from clusters.clients.member import Range, joined
from clusters.clients.summary import Summary
from history.partition import TopicPartition
from history.streams import RowWriter
from history.tables import SHARE_ACKS, SHARE_READS

log = logging.getLogger("member")

POLL_S = 0.1
POLLS_BEFORE = 8  # then nothing fetched before remains
KINDS = {"accept": AcknowledgeType.ACCEPT, "release": AcknowledgeType.RELEASE}


def share_settings(config: ShareMemberConfig) -> dict[str, Any]:
    """Return librdkafka's settings."""
    return {
        **connection_settings(config),
        "group.id": config.group_id,
        "share.acknowledgement.mode": "explicit",
        "fetch.min.bytes": 65_536,  # fewer and longer ranges
        "fetch.wait.max.ms": 100,
    }


class ShareMember:
    """Poll, write deliveries down, process and acknowledge them."""

    def __init__(
        self, config: ShareMemberConfig, summary: Summary, stop: threading.Event, reads: RowWriter, acks: RowWriter
    ) -> None:
        self._config, self._summary, self._stop = config, summary, stop
        self._reads, self._acks = reads, acks
        self._polled_ns = deque([time.monotonic_ns()], maxlen=POLLS_BEFORE)
        self.received = 0
        self._consumer = ShareConsumer(share_settings(config))
        self._consumer.set_acknowledgement_commit_callback(self._answered)
        self._consumer.subscribe([config.topic])

    def step(self) -> None:
        Path(self._config.alive).touch()
        try:
            polled = [message for message in self._consumer.poll(timeout=POLL_S) if not _broken(message)]
        except KafkaException as error:
            log.warning("poll: %s", error)
            polled = []
        received_ns = time.monotonic_ns()
        if polled:
            self._write(polled, received_ns)
            self._stop.wait(self._config.processing_s)
            self._acknowledge(polled)
            self.received += len(polled)
            self._summary.ready()
        self._polled_ns.append(received_ns)

    def _write(self, polled: Iterable[Message], received_ns: int) -> None:
        times = {"since_ns": self._polled_ns[0], "received_ns": received_ns}
        for each in joined(_range(message, message.delivery_count()) for message in polled):
            self._reads.add({**each.row(self._config.client_id), "delivery_count": each.kind, **times})
        self._reads.flush()

    def _acknowledge(self, polled: Iterable[Message]) -> None:
        asked_ns = time.monotonic_ns()
        for each in joined(_range(message, self._kind(message.offset())) for message in polled):
            self._acks.add({**each.row(self._config.client_id), "kind": each.kind, "asked_ns": asked_ns})
        self._acks.flush()
        for message in polled:
            self._consumer.acknowledge(message, KINDS[self._kind(message.offset())])
        try:
            self._consumer.commit_async()
        except KafkaException as error:  # the next poll sends them
            log.warning("acknowledge: %s", error)

    def _kind(self, offset: int) -> str:
        every = self._config.release_every
        return "release" if every and offset % every == 0 else "accept"

    def _answered(self, offsets: Mapping[At, Iterable[int]], error: KafkaException | None) -> None:
        answered_ns = time.monotonic_ns()
        name = librdkafka_error(error.args[0].code()) if error else None
        records = (
            Range(TopicPartition(at.topic, at.partition), offset, offset, kind=self._kind(offset))
            for at, of_partition in offsets.items()
            for offset in sorted(of_partition)
        )
        answer = {"answered_ns": answered_ns, "error": name}
        for each in joined(records):
            self._acks.add({**each.row(self._config.client_id), "kind": each.kind, **answer})

    def close(self) -> None:
        self._consumer.close()


def _range(message: Message, kind: Any) -> Range:
    return Range(TopicPartition(message.topic(), message.partition()), message.offset(), message.offset(), kind=kind)


def _broken(message: Message) -> bool:
    if error := message.error():
        log.warning("%s", error)
    return bool(error)


def run(config: ShareMemberConfig, stop: threading.Event) -> None:
    """Poll until ``stop`` is set, then leave the group."""
    summary = Summary(config, "member")
    with ExitStack() as files:
        tables = {"share_reads": SHARE_READS, "share_acks": SHARE_ACKS}
        reads, acks = (files.enter_context(RowWriter(config.stream(name), schema)) for name, schema in tables.items())
        member = ShareMember(config, summary, stop, reads, acks)
        while not stop.is_set():
            member.step()
            summary.so_far(given=member.received)
        member.close()
    summary.end(share_reads=reads.rows, share_acks=acks.rows)
    log.info("ended")


if __name__ == "__main__":
    main(ShareMemberConfig, run, stop_on_sigterm())
