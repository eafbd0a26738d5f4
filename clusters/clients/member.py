"""Run a consumer group member.

Processing a record is to write down that it was read; ``commit: after`` does so before the commit. SIGKILL loses
nothing: written pages outlive the process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as At

from clusters.clients.configs import MemberConfig
from clusters.clients.engines import connection_settings, librdkafka_error
from clusters.clients.main import main, stop_on_sigterm
from clusters.clients.summary import Summary
from history.partition import TopicPartition
from history.streams import RowWriter
from history.tables import COMMITS, GROUP_READS, REBALANCES

log = logging.getLogger("member")

POLL_S = 0.1
UNANSWERED_S = 10.0  # then it sends another commit
MAX_POLLED = 1000  # before it processes what it polled


def member_settings(config: MemberConfig) -> dict[str, Any]:
    """Return librdkafka's settings; KIP-848 leaves some to the brokers."""
    of_classic = {
        "session.timeout.ms": config.session_timeout_ms,
        "heartbeat.interval.ms": config.session_timeout_ms // 6,
    }
    assignor = "partition.assignment.strategy" if config.protocol == "classic" else "group.remote.assignor"
    return {
        **connection_settings(config),
        "group.id": config.group_id,
        "group.protocol": config.protocol,
        **(of_classic if config.protocol == "classic" else {}),
        **({assignor: config.assignor} if config.assignor else {}),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,  # shows offsets past markers and compacted records
        "isolation.level": config.isolation,
    }


@dataclass
class Range:
    """Consecutive offsets of one kind in a partition."""

    where: TopicPartition
    first: int
    last: int
    received_ns: int = 0
    kind: Any = None

    def row(self, member: str) -> dict[str, Any]:
        return {"member": member, **self.where._asdict(), "first_offset": self.first, "last_offset": self.last}


def joined(records: Iterable[Range]) -> list[Range]:
    """Join the ranges that follow each other."""
    newest: dict[tuple[TopicPartition, Any], Range] = {}
    ranges = []
    for each in records:
        before = newest.get((each.where, each.kind))
        if before is not None and before.last + 1 == each.first:
            before.last = each.last
            continue
        newest[each.where, each.kind] = each
        ranges.append(each)
    return ranges


class Member:
    """Poll, write down what was read, and commit, with one commit in flight."""

    def __init__(
        self, config: MemberConfig, summary: Summary, reads: RowWriter, rebalances: RowWriter, commits: RowWriter
    ) -> None:
        self._config, self._summary = config, summary
        self._reads, self._rebalances, self._commits = reads, rebalances, commits
        self._polled: list[Range] = []
        self._held: list[Range] = []
        self._next: dict[TopicPartition, int] = {}  # per owned partition
        self._changed: set[TopicPartition] = set()  # since their last commit
        self._positions: dict[TopicPartition, int | None] = {}
        self.polled = 0
        self._number = 0
        self._under_way: tuple[int, int, dict[TopicPartition, int]] | None = None  # number, time, offsets
        self._due_s = time.monotonic() + config.commit_every_s
        self._consumer = Consumer({**member_settings(config), "on_commit": self._answered})
        self._consumer.subscribe([config.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def step(self) -> None:
        Path(self._config.alive).touch()
        message, polled = self._consumer.poll(POLL_S), 0
        while message is not None and polled < MAX_POLLED:
            self._take(message)
            polled += 1
            message = self._consumer.poll(0)
        if message is not None:
            self._take(message)
        if time.monotonic() >= self._due_s and not self._awaits_answer():
            self._due_s = time.monotonic() + self._config.commit_every_s
            fetched, self._polled = (self._polled, []) if self._config.commit_ahead else ([], self._polled)
            self._process()
            self._held = fetched
            self._commit(self._next, asynchronous=True)

    def _awaits_answer(self) -> bool:
        return self._under_way is not None and time.monotonic_ns() - self._under_way[1] < UNANSWERED_S * 1e9

    def _take(self, message: Message) -> None:
        where = TopicPartition(message.topic(), message.partition())
        if error := message.error():
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # librdkafka's name
                self._at(where, message.offset())
            else:
                log.warning("%s", error)
            return
        self.polled += 1
        self._at(where, message.offset() + 1)
        self._polled.append(Range(where, message.offset(), message.offset(), time.monotonic_ns()))
        self._next[where] = message.offset() + 1
        self._changed.add(where)

    def _at(self, where: TopicPartition, position: int) -> None:
        if where in self._positions:
            self._positions[where] = position

    def positions(self) -> dict[str, int | None]:
        return {str(where): position for where, position in self._positions.items()}

    def _process(self) -> None:
        polled, self._held, self._polled = self._held + self._polled, [], []
        for each in joined(polled):
            self._reads.add({**each.row(self._config.client_id), "received_ns": each.received_ns})

    def lag(self) -> int:
        ends = {at: self._consumer.get_watermark_offsets(At(*at), cached=True)[1] for at in self._next}
        return sum(max(end - self._next[at], 0) for at, end in ends.items())

    def _commit(self, of: Iterable[TopicPartition], *, asynchronous: bool) -> None:
        """Write the request down first, then commit."""
        offsets = {where: self._next[where] for where in of if where in self._changed}
        if not offsets:
            return
        self._reads.flush()
        number, asked_ns = self._number, time.monotonic_ns()
        self._number += 1
        self._changed -= offsets.keys()
        for where, offset in offsets.items():
            self._note(number, asked_ns, where, offset)
        self._commits.flush()
        wanted = [At(*where, offset) for where, offset in offsets.items()]
        try:
            if asynchronous:
                self._consumer.commit(offsets=wanted, asynchronous=True)
                self._under_way = number, asked_ns, offsets
            else:
                committed = self._consumer.commit(offsets=wanted, asynchronous=False)
                self._note_answers(number, asked_ns, offsets, None, committed or [])
        except KafkaException as error:
            self._note_answers(number, asked_ns, offsets, error.args[0], [])

    def _answered(self, error: Any, committed: list[At]) -> None:
        if self._under_way is None:
            return
        number, asked_ns, offsets = self._under_way
        if {TopicPartition(at.topic, at.partition): at.offset for at in committed} == offsets:
            self._under_way = None
            self._note_answers(number, asked_ns, offsets, error, committed)

    def _note_answers(
        self, number: int, asked_ns: int, offsets: dict[TopicPartition, int], error: Any, committed: list[At]
    ) -> None:
        errors = {TopicPartition(at.topic, at.partition): at.error for at in committed}
        answered_ns = time.monotonic_ns()
        for where, offset in offsets.items():
            failed = error or errors.get(where)
            name = librdkafka_error(failed.code()) if failed else None
            self._note(number, asked_ns, where, offset, answered_ns=answered_ns, error=name)
            if failed and where in self._next:
                self._changed.add(where)  # if still owned, it commits again

    def _note(
        self,
        number: int,
        asked_ns: int,
        where: TopicPartition,
        offset: int,
        *,
        answered_ns: int | None = None,
        error: str | None = None,
    ) -> None:
        of_commit = {"member": self._config.client_id, "number": number, "offset": offset, "asked_ns": asked_ns}
        self._commits.add({**of_commit, **where._asdict(), "answered_ns": answered_ns, "error": error})

    def _assigned(self, _consumer: Consumer, partitions: list[At]) -> None:
        self._rebalanced("assigned", partitions)
        self._positions |= {TopicPartition(at.topic, at.partition): None for at in partitions}
        if partitions:  # a cooperative rebalance may first assign none
            self._summary.ready()

    def _revoked(self, _consumer: Consumer, partitions: list[At]) -> None:
        self._process()
        self._commit([TopicPartition(at.topic, at.partition) for at in partitions], asynchronous=False)
        self._release("revoked", partitions)

    def _lost(self, _consumer: Consumer, partitions: list[At]) -> None:
        """Process without a commit, which a newer generation would reject."""
        self._process()
        self._release("lost", partitions)

    def _release(self, change: str, partitions: list[At]) -> None:
        self._rebalanced(change, partitions)
        for at in partitions:
            where = TopicPartition(at.topic, at.partition)
            self._positions.pop(where, None)
            self._next.pop(where, None)
            self._changed.discard(where)

    def _rebalanced(self, change: str, partitions: list[At]) -> None:
        log.info("%s: %s", change, [f"{at.topic}-{at.partition}" for at in partitions])
        changed_ns = time.monotonic_ns()
        for at in partitions:
            of = {"topic": at.topic, "partition": at.partition}
            self._rebalances.add({"member": self._config.client_id, **of, "change": change, "changed_ns": changed_ns})
        self._rebalances.flush()

    def close(self) -> None:
        self._process()
        self._commit(self._next, asynchronous=False)
        self._consumer.close()


def run(config: MemberConfig, stop: threading.Event) -> None:
    """Poll until ``stop`` is set, then leave the group."""
    summary = Summary(config, "member")
    with ExitStack() as files:
        tables = {"group_reads": GROUP_READS, "rebalances": REBALANCES, "commits": COMMITS}
        writers = [files.enter_context(RowWriter(config.stream(name), schema)) for name, schema in tables.items()]
        member = Member(config, summary, *writers)
        while not stop.is_set():
            member.step()
            summary.so_far(member.positions, lag=member.lag(), polled=member.polled)
        member.close()
    summary.end(**{name: writer.rows for name, writer in zip(tables, writers, strict=True)})
    log.info("ended")


if __name__ == "__main__":
    main(MemberConfig, run, stop_on_sigterm())
