"""What a watched cluster looks like now, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import compress
from typing import NamedTuple

from clusters.kafka.probe import INCONSISTENT_TOPIC_ID, ReplicaSample, Tick
from clusters.kafka.views import ClusterView
from history.partition import TopicPartition

STUCK_NS = 3_000_000_000  # a follower's fetch may wait 0.5 s (replica.fetch.wait.max.ms), and samples are 1 s apart


class Health(IntEnum):
    """How bad a partition is, worst first."""

    MADE_ANEW = 0
    NO_LEADER = 1
    LEADER_SILENT = 2
    UNDER_MIN_ISR = 3
    HW_STUCK = 4
    OUT_OF_ISR = 5
    BEHIND = 6
    SILENT = 7
    HEALTHY = 8

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Health.MADE_ANEW: "topic was made anew",
    Health.NO_LEADER: "no leader",
    Health.LEADER_SILENT: "leader silent",
    Health.UNDER_MIN_ISR: "under min ISR",
    Health.HW_STUCK: "high watermark stuck",
    Health.OUT_OF_ISR: "replica out of ISR",
    Health.BEHIND: "replica behind",
    Health.SILENT: "replica silent",
    Health.HEALTHY: "healthy",
}


class ReplicaNow(NamedTuple):
    """A replica; offsets are None if its broker did not answer, ``behind_s`` is 0 if it is caught up."""

    broker_id: int
    log_end_offset: int | None
    high_watermark: int | None
    lag: int | None
    behind_s: float
    in_isr: bool
    error: str | None


class PartitionNow(NamedTuple):
    """A partition; ``hw_still_s`` is how long the high watermark has been below the leader's log end without moving."""

    where: TopicPartition
    health: Health
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    high_watermark: int | None
    log_end_offset: int | None
    hw_still_s: float
    leader_changes: int
    replicas: Sequence[ReplicaNow]


@dataclass
class _Replica:
    caught_up_ns: int
    sample: ReplicaSample | None = None
    error: str | None = None

    @property
    def current(self) -> ReplicaSample | None:
        """Return the last sample if nothing failed since."""
        return None if self.error else self.sample


@dataclass
class _Partition:
    began_ns: int
    leader: int = -1
    last_leader: int = -1
    leader_epoch: int = -1
    isr: Sequence[int] = ()
    viewed_ns: int = 0
    changes: int = 0
    hw_moved_ns: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)  # (received_ns, leader's log end), the last two
    replicas: dict[int, _Replica] = field(default_factory=dict)


class WatchState:
    """Follow a prober's ticks; ``min_isr`` maps a topic to min.insync.replicas, if known."""

    def __init__(
        self, assignment: Iterable[tuple[TopicPartition, Sequence[int]]], min_isr: Mapping[str, int], began_ns: int
    ) -> None:
        self._min_isr = min_isr
        self._partitions = {
            where: _Partition(
                began_ns, replicas={broker: _Replica(began_ns) for broker in brokers}, hw_moved_ns=began_ns
            )
            for where, brokers in sorted(assignment)
        }

    def add(self, tick: Tick) -> None:
        if tick.view:
            self._add_view(tick.view)
        for sample in tick.samples:
            if known := self._partitions.get(TopicPartition(sample.topic, sample.partition)):
                replica = known.replicas.setdefault(tick.broker_id, _Replica(sample.received_ns))
                replica.error = sample.error
                if sample.error is None:
                    self._sampled(known, replica, sample, leads=tick.broker_id == known.leader)

    def _add_view(self, view: ClusterView) -> None:
        """Add metadata; the highest leader epoch counts, then the latest."""
        for part in view.partitions:
            known = self._partitions.get(TopicPartition(part.topic, part.partition))
            if known is None or (part.leader_epoch, view.received_ns) < (known.leader_epoch, known.viewed_ns):
                continue
            if part.leader >= 0 and part.leader != known.last_leader:
                known.changes += known.last_leader >= 0
                known.last_leader = part.leader
                known.ends.clear()
            known.leader, known.leader_epoch = part.leader, part.leader_epoch
            known.isr, known.viewed_ns = part.isr, view.received_ns
            for broker in part.replicas:
                if broker not in known.replicas:
                    known.replicas[broker] = _Replica(view.received_ns)

    @staticmethod
    def _sampled(known: _Partition, replica: _Replica, sample: ReplicaSample, *, leads: bool) -> None:
        before, end = replica.sample, sample.log_end_offset or 0
        if leads:
            if before is None or before.high_watermark != sample.high_watermark or sample.high_watermark == end:
                known.hw_moved_ns = sample.received_ns
            known.ends = [*known.ends[-1:], (sample.received_ns, end)]
            replica.caught_up_ns = sample.received_ns
        elif all(end >= then for at_ns, then in known.ends[:1] if at_ns <= sample.sent_ns):
            replica.caught_up_ns = sample.received_ns
        replica.sample = sample

    def now(self, t_ns: int) -> Iterator[PartitionNow]:
        """Yield every partition as of ``t_ns``, ordered by topic and number."""
        for where, known in self._partitions.items():
            leader = known.replicas.get(known.leader)
            sample = leader.current if leader else None
            end = sample.log_end_offset if sample else None
            replicas = [_replica(broker, each, known, end, t_ns) for broker, each in sorted(known.replicas.items())]
            still_s = (t_ns - known.hw_moved_ns) / 1e9 if sample and sample.high_watermark != end else 0.0
            yield PartitionNow(
                where,
                self._health(where, known, replicas, still_s),
                known.leader,
                known.leader_epoch,
                known.isr,
                sample.high_watermark if sample else None,
                end,
                still_s,
                known.changes,
                replicas,
            )

    def _health(
        self, where: TopicPartition, known: _Partition, replicas: Sequence[ReplicaNow], still_s: float
    ) -> Health:
        errors = {each.broker_id: each.error for each in replicas if each.error}
        signs = {
            Health.MADE_ANEW: INCONSISTENT_TOPIC_ID in errors.values(),
            Health.NO_LEADER: known.leader < 0,
            Health.LEADER_SILENT: known.leader in errors,
            Health.UNDER_MIN_ISR: len(known.isr) < self._min_isr.get(where.topic, 0),
            Health.HW_STUCK: still_s * 1e9 > STUCK_NS,
            Health.OUT_OF_ISR: not all(each.in_isr for each in replicas),
            Health.BEHIND: max([each.behind_s for each in replicas], default=0.0) * 1e9 > STUCK_NS,
            Health.SILENT: bool(errors),
        }
        return next(compress(signs, signs.values()), Health.HEALTHY)


def _replica(broker: int, known: _Replica, partition: _Partition, leader_end: int | None, t_ns: int) -> ReplicaNow:
    sample = known.current
    end = sample.log_end_offset if sample else None
    lag = None if end is None or leader_end is None else max(0, leader_end - end)
    behind_s = (t_ns - known.caught_up_ns) / 1e9 if lag or end is None else 0.0
    in_isr = broker in partition.isr
    return ReplicaNow(broker, end, sample.high_watermark if sample else None, lag, behind_s, in_isr, known.error)
