"""What a watched cluster looks like now, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from history.partition import TopicPartition

STUCK_NS = 3_000_000_000  # a follower's fetch may wait 0.5 s (replica.fetch.wait.max.ms), and samples are 1 s apart


class Health(IntEnum):
    """How bad a partition is, worst first."""

    NO_LEADER = 0
    LEADER_SILENT = 1
    UNDER_MIN_ISR = 2
    HW_STUCK = 3
    OUT_OF_ISR = 4
    BEHIND = 5
    SILENT = 6
    HEALTHY = 7

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
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
    sample: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


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
    """Follow the rows of ``replicas`` and ``isr``; ``min_isr`` maps a topic to min.insync.replicas, if known."""

    def __init__(
        self, assignment: Iterable[tuple[TopicPartition, Sequence[int]]], min_isr: Mapping[str, int], began_ns: int
    ) -> None:
        self._min_isr = min_isr
        self._partitions = {
            where: _Partition(
                began_ns, replicas={broker: _Replica(began_ns) for broker in brokers}, hw_moved_ns=began_ns
            )
            for where, brokers in assignment
        }

    def view(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in rows of ``isr``; the highest leader epoch counts, then the latest."""
        for row in rows:
            known = self._partitions.get(TopicPartition(row["topic"], row["partition"]))
            if known is None or (row["leader_epoch"], row["received_ns"]) < (known.leader_epoch, known.viewed_ns):
                continue
            if row["leader"] >= 0 and row["leader"] != known.last_leader:
                known.changes += known.last_leader >= 0
                known.last_leader = row["leader"]
                known.ends.clear()
            known.leader, known.leader_epoch = row["leader"], row["leader_epoch"]
            known.isr, known.viewed_ns = row["isr"], row["received_ns"]
            for broker in row["replicas"]:
                known.replicas.setdefault(broker, _Replica(row["received_ns"]))

    def sample(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in rows of ``replicas``."""
        for row in rows:
            known = self._partitions.get(TopicPartition(row["topic"], row["partition"]))
            if known is None:
                continue
            replica = known.replicas.setdefault(row["broker_id"], _Replica(row["received_ns"]))
            replica.error = row["error"]
            if row["error"] is None:
                self._sampled(known, replica, row)

    @staticmethod
    def _sampled(known: _Partition, replica: _Replica, row: Mapping[str, Any]) -> None:
        before, end = replica.sample, row["log_end_offset"]
        if row["broker_id"] == known.leader:
            if before.get("high_watermark") != row["high_watermark"] or row["high_watermark"] == end:
                known.hw_moved_ns = row["received_ns"]
            known.ends = [*known.ends[-1:], (row["received_ns"], end)]
            replica.caught_up_ns = row["received_ns"]
        elif all(end >= then for at_ns, then in known.ends[:1] if at_ns <= row["sent_ns"]):
            replica.caught_up_ns = row["received_ns"]
        replica.sample = row

    def now(self, t_ns: int) -> Iterator[PartitionNow]:
        """Yield every partition as of ``t_ns``, ordered by topic and number."""
        for where, known in sorted(self._partitions.items()):
            leader = known.replicas.get(known.leader)
            sample = leader.sample if leader and leader.error is None else {}
            end = sample.get("log_end_offset")
            replicas = [_replica(broker, each, known, end, t_ns) for broker, each in sorted(known.replicas.items())]
            still_s = (t_ns - known.hw_moved_ns) / 1e9 if sample and sample["high_watermark"] != end else 0.0
            yield PartitionNow(
                where,
                self._health(where, known, replicas, still_s),
                known.leader,
                known.leader_epoch,
                known.isr,
                sample.get("high_watermark"),
                end,
                still_s,
                known.changes,
                replicas,
            )

    def _health(
        self, where: TopicPartition, known: _Partition, replicas: Sequence[ReplicaNow], still_s: float
    ) -> Health:
        signs = {
            Health.NO_LEADER: known.leader < 0,
            Health.LEADER_SILENT: any(each.error for each in replicas if each.broker_id == known.leader),
            Health.UNDER_MIN_ISR: len(known.isr) < self._min_isr.get(where.topic, 0),
            Health.HW_STUCK: still_s * 1e9 > STUCK_NS,
            Health.OUT_OF_ISR: not all(each.in_isr for each in replicas),
            Health.BEHIND: any(each.behind_s * 1e9 > STUCK_NS for each in replicas),
            Health.SILENT: any(each.error for each in replicas),
        }
        return next((health for health, shown in signs.items() if shown), Health.HEALTHY)


def _replica(broker: int, known: _Replica, partition: _Partition, leader_end: int | None, t_ns: int) -> ReplicaNow:
    sample = known.sample if known.error is None else {}
    end = sample.get("log_end_offset")
    lag = None if end is None or leader_end is None else max(0, leader_end - end)
    behind_s = (t_ns - known.caught_up_ns) / 1e9 if lag or end is None else 0.0
    in_isr = broker in partition.isr
    return ReplicaNow(broker, end, sample.get("high_watermark"), lag, behind_s, in_isr, known.error)
