"""Probe one broker's replicas (docs/dev/adr/0004-own-wire-probe.md).

The end offset of the newest cached epoch is the log end offset. Replicas with an empty epoch cache need two requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from clusters.kafka.connection import Connection, about, error_name, known
from clusters.kafka.fetching import OFFSET_OUT_OF_RANGE, Position, fetch_request, fetched
from clusters.kafka.log_ends import decode_ends
from clusters.kafka.offsets import ListedOffset, list_offsets
from clusters.kafka.views import ClusterView
from history.partition import TopicPartition

INCONSISTENT_TOPIC_ID = "INCONSISTENT_TOPIC_ID"  # the topic was made anew
BEYOND_ANY_LOG = 2**62
MAX_ROUNDS = 12  # each moves the guessed epoch by one
UNKNOWN_LEADER_EPOCH = 75


class ReplicaSample(NamedTuple):
    """A replica as its own broker reports it; a row of ``replicas``.

    ``leader_epoch`` is the one that the broker accepted; values are null if ``error`` is set. ``single_reply``: both
    offsets are from one reply, else the log end offset is older.
    """

    topic: str
    partition: int
    sent_ns: int
    received_ns: int
    leader_epoch: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_end_offset: int | None = None
    single_reply: bool | None = None
    error: str | None = None


class Tick(NamedTuple):
    """One broker's samples, and its metadata if due."""

    broker_id: int
    samples: list[ReplicaSample]
    view: ClusterView | None


@dataclass
class _Known:
    """Known leader epoch and newest cached epoch (-1: none)."""

    current: int
    cached: int

    def settle(self, at: Any | None, after: Any | None) -> Any | None:
        """Return the answer that ends at the log's end, if any, else correct the guess by one epoch."""
        if after and after.diverging_epoch:
            self.cached += 1
            return after if self.cached == self.current else None
        if after and after.error_code != OFFSET_OUT_OF_RANGE:
            return None
        if at and at.error_code == OFFSET_OUT_OF_RANGE:
            self.cached -= 1
        return at if at and at.diverging_epoch else None


class _Fetch:
    """A fetch that is built again only if its positions change."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._positions: dict[TopicPartition, Position] = {}
        self._request: Any = None

    def of(self, positions: dict[TopicPartition, Position]) -> Any:
        if positions != self._positions:
            self._positions, self._request = positions, fetch_request(self._version, positions)
        return self._request


@dataclass
class BrokerProbe:
    """Sample all replicas of one broker, usually in one round trip.

    A follower's newest cached epoch may be older than its leader epoch. So epoch e's answer is accepted only if e is
    current, or a later answer on this connection shows that e + 1 is not cached.
    """

    connection: Connection
    replicas: set[TopicPartition]
    _known: dict[TopicPartition, _Known] = field(default_factory=dict, init=False)
    _at: _Fetch = field(default_factory=partial(_Fetch, 12), init=False)
    _after: _Fetch = field(default_factory=partial(_Fetch, 12), init=False)
    _at_end: _Fetch = field(default_factory=partial(_Fetch, 11), init=False)

    def sample(self) -> list[ReplicaSample]:
        samples = self._in_one_reply(self.replicas & self._known.keys())
        samples |= self._in_two_replies(self.replicas - samples.keys())
        return [about(samples, replica) for replica in sorted(self.replicas)]

    def _in_one_reply(self, replicas: set[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        guesses = {replica: self._known[replica] for replica in replicas}
        at = {where: _end_of(it.cached, it.current) for where, it in guesses.items() if it.cached >= 0}
        after = {where: _end_of(it.cached + 1, it.current) for where, it in guesses.items() if it.cached < it.current}
        requests = [fetch.of(positions) for fetch, positions in ((self._at, at), (self._after, after)) if positions]
        sent_ns = time.monotonic_ns()
        replies = self.connection.exchange(requests, decode_ends)
        interval = sent_ns, time.monotonic_ns()
        at_answers = fetched(replies.pop(0)) if at else {}
        after_answers = fetched(replies.pop(0)) if after else {}
        samples = {}
        for replica, it in guesses.items():
            answer = it.settle(at_answers.get(replica), after_answers.get(replica))
            if answer:
                end = answer.diverging_epoch.end_offset
                samples[replica] = _sample(replica, interval, answer, epoch=it.current, end=end, single=True)
        return samples

    def _in_two_replies(self, replicas: set[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        """Get log end and epoch by ListOffsets, the rest by a fetch there.

        A fresh ZooKeeper broker may report no epoch (-1): UNKNOWN_LEADER_EPOCH, as fetches return.
        """
        if not replicas:
            return {}
        sent_ns = time.monotonic_ns()
        ends = list_offsets(self.connection, replicas)
        for replica, end in ends.items():
            self._learn(replica, end)
        at_end = {
            replica: Position(end.offset, end.leader_epoch)
            for replica, end in ends.items()
            if end.offset is not None and end.leader_epoch is not None
        }
        answers = fetched(self.connection.send(self._at_end.of(at_end))) if at_end else {}
        interval = sent_ns, time.monotonic_ns()
        return {
            replica: _sample(replica, interval, answers[replica], epoch=end.leader_epoch, end=end.offset, single=False)
            if replica in answers
            else ReplicaSample(*replica, *interval, error=end.error or error_name(UNKNOWN_LEADER_EPOCH))
            for replica, end in ends.items()
        }

    def _learn(self, replica: TopicPartition, end: ListedOffset) -> None:
        if end.leader_epoch is None:
            self._known.pop(replica, None)
            return
        guess = self._known.setdefault(replica, _Known(end.leader_epoch, end.leader_epoch))
        guess.current = end.leader_epoch
        guess.cached = min(guess.cached, guess.current)


def probe_all(connection: Connection, replicas: Iterable[TopicPartition]) -> list[ReplicaSample]:
    """Sample a broker's replicas, ordered by topic and partition."""
    broker = BrokerProbe(connection, set(replicas))
    samples: dict[TopicPartition, ReplicaSample] = {}
    for _ in range(MAX_ROUNDS):
        found = {TopicPartition(sample.topic, sample.partition): sample for sample in broker.sample()}
        samples |= found
        broker.replicas = {where for where, sample in found.items() if not (sample.single_reply or sample.error)}
        if not broker.replicas:
            break
    return [samples[replica] for replica in sorted(samples)]


def _sample(
    replica: TopicPartition, interval: tuple[int, int], answer: Any, *, epoch: int | None, end: int | None, single: bool
) -> ReplicaSample:
    if answer.error_code:
        return ReplicaSample(*replica, *interval, error=error_name(answer.error_code))
    return ReplicaSample(
        *replica,
        *interval,
        leader_epoch=epoch,
        log_start_offset=known(answer.log_start_offset),
        high_watermark=known(answer.high_watermark),
        last_stable_offset=known(answer.last_stable_offset),
        log_end_offset=end,
        single_reply=single,
    )


def _end_of(epoch: int, current: int) -> Position:
    return Position(BEYOND_ANY_LOG, current, epoch)
