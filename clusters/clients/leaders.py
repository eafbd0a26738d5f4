"""Track each partition's leader; never replace it by one of an older epoch (KIP-320).

kafka-python takes any metadata as the newest (unlike Java's ``Metadata.updateLatestMetadata``) and lists offsets
without an epoch; a leader cut off from the controller still answers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from clusters.kafka.access import Access
from clusters.kafka.connection import Connection
from clusters.kafka.fetching import CONSUMER
from clusters.kafka.offsets import ListedOffset, list_offsets
from clusters.kafka.views import ClusterView, metadata
from history.partition import TopicPartition

NO_LEADER = -1
UNKNOWN = NO_LEADER, -1


class Leaders:
    """Each partition's newest known leader and epoch."""

    def __init__(self) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self._updates = threading.Lock()

    def newest(self, partition: TopicPartition) -> tuple[int, int]:
        return self._newest.get(partition, UNKNOWN)

    def update(self, partition: TopicPartition, leader: int, epoch: int) -> None:
        """Record a leader unless a newer epoch is known; a new epoch may start without a leader."""
        with self._updates:
            known, known_epoch = self.newest(partition)
            if epoch > known_epoch or (epoch == known_epoch and known == NO_LEADER):
                self._newest[TopicPartition(*partition)] = leader, epoch


class NewestLeaders(ClusterMetadata):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's metadata with newest leaders; topics must not be recreated."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self._updates = threading.RLock()

    def client(self, **configs: Any) -> KafkaNetClient:
        client = KafkaNetClient(**configs)
        client._manager.cluster = self  # noqa: SLF001  # the only way to replace the metadata
        self.attach(client._manager)  # noqa: SLF001
        return client

    async def _refresh_loop(self) -> None:
        """Restart kafka-python's loop, which some errors end permanently."""
        while not self.closed:
            with suppress(KafkaError):
                await super()._refresh_loop()

    def newest(self, partition: TopicPartition) -> tuple[int, int]:
        return self._newest.get(partition, UNKNOWN)

    def update_metadata(self, metadata: Any) -> None:
        """Keep a newer known leader; request an unlisted one again."""
        listed = {broker.node_id for broker in metadata.brokers}
        with self._updates:
            for topic in metadata.topics:
                for view in topic.partitions:
                    partition = TopicPartition(topic.name, view.partition_index)
                    leader, epoch = self.newest(partition)
                    if view.leader_epoch < epoch:
                        view.leader_id, view.leader_epoch = leader if leader in listed else NO_LEADER, epoch
                    else:
                        self._newest[partition] = view.leader_id, view.leader_epoch
            super().update_metadata(metadata)

    def update_partition_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        with self._updates:
            if leader_epoch > self.newest(partition)[1]:
                self._newest[TopicPartition(*partition)] = leader_id, leader_epoch
            leader = NO_LEADER if self.broker_metadata(leader_id) is None else leader_id
            return bool(super().update_partition_leader(partition, leader, leader_epoch))


class Brokers:
    """Query all brokers, ignoring silent ones; not thread-safe."""

    def __init__(
        self, bootstrap: Sequence[str], client_id: str, timeout_s: float, access: Access | None = None
    ) -> None:
        addresses = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in bootstrap)]
        self._connections = {
            address: Connection(*address, timeout_s, client_id, access=access) for address in addresses
        }

    def update(self, leaders: Leaders, topics: Sequence[str]) -> None:
        def view_of(broker: Connection) -> ClusterView | None:
            try:
                return metadata(broker, topics)
            except OSError:
                return None

        with ThreadPoolExecutor(len(self._connections)) as pool:
            for view in filter(None, pool.map(view_of, self._connections.values())):
                leaders.addresses |= view.brokers
                for part in view.partitions:
                    leaders.update(TopicPartition(part.topic, part.partition), part.leader, part.leader_epoch)

    def offsets(
        self, partitions: Iterable[TopicPartition], leaders: Leaders, timestamp: int, isolation: str
    ) -> dict[TopicPartition, int | None]:
        """List offsets from the newest leaders, as a consumer; None without an answer in that epoch."""
        offsets: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
        epochs_at: dict[Connection, dict[TopicPartition, int]] = {}
        for partition in offsets:
            leader, epoch = leaders.newest(partition)
            if broker := self._connections.get(leaders.addresses.get(leader, ("", 0))):
                epochs_at.setdefault(broker, {})[partition] = epoch
        level = int(isolation == "read_committed")

        def offsets_at(broker: Connection) -> dict[TopicPartition, ListedOffset]:
            try:
                epochs = epochs_at[broker]
                return list_offsets(broker, epochs, timestamp, CONSUMER, level, leader_epochs=epochs)
            except OSError:
                return {}

        with ThreadPoolExecutor(len(self._connections)) as pool:
            for listed in pool.map(offsets_at, epochs_at):
                offsets |= {partition: offset.offset for partition, offset in listed.items()}
        return offsets
