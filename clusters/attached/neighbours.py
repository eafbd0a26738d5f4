"""Watch the partitions of others on a cluster, which faults affect, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from clusters.attached.queries import AnyBroker, Connect
from clusters.kafka.admin import setting_of_topics
from clusters.kafka.offsets import CONSUMER, list_offsets
from clusters.kafka.views import ClusterView, PartitionView, metadata
from history.partition import TopicPartition

MIN_ISR = "min.insync.replicas"
TOPICS_OF_REQUEST = 500
PARTITIONS_OF_REQUEST = 2_000


def under_replicated(partitions: Iterable[PartitionView]) -> list[TopicPartition]:
    """Return the partitions without a leader, or with a replica outside of the ISR."""
    return [
        TopicPartition(each.topic, each.partition)
        for each in partitions
        if each.leader < 0 or not set(each.replicas) <= set(each.isr)
    ]


def below_min_isr(
    partitions: Iterable[PartitionView],
    min_isr: Mapping[str, int],
    own: Collection[str] = (),
    without: Collection[int] = (),
    alive: Collection[int] = (),
) -> list[str]:
    """Return the partitions of other topics that reject writes with acks=all, each with ISR and minimum.

    ``without``: brokers that are about to end; only partitions with a replica there count.
    A topic without a known minimum needs all replicas but one, and at least one. While a partition has no leader, those
    of its ISR that are ``alive`` count: after a kill the controller is about to choose one.
    """
    return [
        f"{each.topic}-{each.partition}: leader {each.leader}, ISR {each.isr}, {MIN_ISR} {needed}"
        for each in partitions
        if each.topic not in own
        and (not without or set(without) & set(each.replicas))
        and _in_sync(each, without, alive) < (needed := _needed(each, min_isr.get(each.topic)))
    ]


def _in_sync(partition: PartitionView, without: Collection[int], alive: Collection[int]) -> int:
    left = set(partition.isr) - set(without)
    return len(left if partition.leader >= 0 else left & set(alive))


def _needed(partition: PartitionView, min_isr: int | None) -> int:
    replicas = len(partition.replicas)
    return max(replicas - 1, 1) if min_isr is None else min(min_isr, replicas)


class Neighbours:
    """All topics that the user may describe, queried at each call; ``warn`` gets a sentence about a missing right."""

    def __init__(self, connect: Connect, brokers: Iterable[int], warn: Callable[[str], object]) -> None:
        self._connect, self._brokers, self._warn = connect, frozenset(brokers), warn
        self._any = AnyBroker(connect, self._brokers)
        self._min_isr: dict[str, int] = {}
        self._described: set[str] = set()
        self._warned = False

    def under_replicated(self) -> list[TopicPartition]:
        return under_replicated(self._view().partitions)

    def below_min_isr(self, own: frozenset[str], without: Collection[int] = ()) -> list[str]:
        view = self._view()
        self._describe(sorted({each.topic for each in view.partitions} - self._described - own))
        return below_min_isr(view.partitions, self._min_isr, own, without, view.brokers)

    def written(self, own: frozenset[str]) -> dict[str, float]:
        """Return the number of their partitions, and the sum of the high watermarks; nothing unless all are known.

        A user without rights sees none. Topics of Kafka itself are left out, since the run's consumers write them, too.
        """
        of_leaders: dict[int, list[TopicPartition]] = defaultdict(list)
        for each in self._view().partitions:
            if each.topic not in own and not each.topic.startswith("__"):
                of_leaders[each.leader].append(TopicPartition(each.topic, each.partition))
        if not of_leaders or not of_leaders.keys() <= self._brokers:
            return {}
        offsets = [offset for leader, partitions in of_leaders.items() for offset in self._ends(leader, partitions)]
        known = [offset for offset in offsets if offset is not None]
        return {"partitions": len(known), "records": sum(known)} if len(known) == len(offsets) else {}

    def _ends(self, leader: int, partitions: Sequence[TopicPartition]) -> list[int | None]:
        starts = range(0, len(partitions), PARTITIONS_OF_REQUEST)
        parts = [partitions[start : start + PARTITIONS_OF_REQUEST] for start in starts]
        with self._connect(leader) as connection:
            answers = [list_offsets(connection, part, replica_id=CONSUMER) for part in parts]
        return [answer.offset for part in answers for answer in part.values()]

    def _view(self) -> ClusterView:
        return self._any.query(lambda connection: metadata(connection, None))

    def _describe(self, topics: Sequence[str]) -> None:
        for first in range(0, len(topics), TOPICS_OF_REQUEST):
            some = topics[first : first + TOPICS_OF_REQUEST]
            values = self._any.query(partial(setting_of_topics, topics=some, setting=MIN_ISR))
            self._min_isr |= {topic: int(value) for topic, value in values.items()}
        self._described |= set(topics)
        if (unknown := set(topics) - self._min_isr.keys()) and not self._warned:
            self._warned = True
            self._warn(
                f"{MIN_ISR} of {len(unknown)} topics, such as {min(unknown)}, cannot be read without DescribeConfigs; "
                "their partitions count as below it with fewer replicas in the ISR than all but one."
            )
