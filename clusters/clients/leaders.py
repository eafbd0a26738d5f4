"""Track each partition's leader by KIP-320: never replace a leader by one of an older epoch.

kafka-python fences its fetches with the epoch of its metadata, but it accepts any metadata as the newest (unlike the
Java client's ``Metadata.updateLatestMetadata``) and lists offsets without an epoch. A leader cut off from the
controller still answers both.
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

from clusters.kafka.security import Access
from clusters.kafka.wire import CONSUMER, ClusterView, Connection, ListedOffset, list_offsets, metadata
from history.partition import TopicPartition

NOBODY = -1  # the protocol's value for no leader
UNKNOWN = NOBODY, -1


class Leaders:
    """Hold each partition's newest known leader and epoch from any source, and the brokers' addresses (host, port)."""

    def __init__(self) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self._updates = threading.Lock()  # several reading threads report leaders

    def newest(self, partition: TopicPartition) -> tuple[int, int]:
        return self._newest.get(partition, UNKNOWN)

    def told(self, partition: TopicPartition, leader: int, epoch: int) -> None:
        """Record a leader unless a newer epoch is known; a new epoch may start without a leader."""
        with self._updates:
            known, known_epoch = self.newest(partition)
            if epoch > known_epoch or (epoch == known_epoch and known == NOBODY):
                self._newest[TopicPartition(*partition)] = leader, epoch


class NewestLeaders(ClusterMetadata):  # type: ignore[misc]  # kafka-python has no types
    """Extend kafka-python's metadata to keep each partition's newest leader; topics must not be recreated during a
    run.
    """

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self._updates = threading.RLock()  # kafka-python's thread and its callers update

    def client(self, **configs: Any) -> KafkaNetClient:
        """Return a client with this metadata, for the setting ``kafka_client`` of consumers and producers."""
        client = KafkaNetClient(**configs)
        client._manager.cluster = self  # noqa: SLF001  # the only way to replace the metadata
        self.attach(client._manager)  # noqa: SLF001
        return client

    async def _refresh_loop(self) -> None:
        """Restart kafka-python's loop, which ends permanently after an error of a bootstrap or an awaited refresh."""
        while not self.closed:
            with suppress(KafkaError):
                await super()._refresh_loop()

    def newest(self, partition: TopicPartition) -> tuple[int, int]:
        return self._newest.get(partition, UNKNOWN)

    def update_metadata(self, metadata: Any) -> None:
        """Keep a newer known leader; one that the answer does not list becomes unknown and is requested again."""
        listed = {broker.node_id for broker in metadata.brokers}
        with self._updates:
            for topic in metadata.topics:
                for view in topic.partitions:
                    partition = TopicPartition(topic.name, view.partition_index)
                    leader, epoch = self.newest(partition)
                    if view.leader_epoch < epoch:
                        view.leader_id, view.leader_epoch = leader if leader in listed else NOBODY, epoch
                    else:
                        self._newest[partition] = view.leader_id, view.leader_epoch
            super().update_metadata(metadata)

    def update_partition_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Record a newer leader; if its address is unknown, request metadata again."""
        with self._updates:
            if leader_epoch > self.newest(partition)[1]:
                self._newest[TopicPartition(*partition)] = leader_id, leader_epoch
            leader = NOBODY if self.broker_metadata(leader_id) is None else leader_id
            return bool(super().update_partition_leader(partition, leader, leader_epoch))


class Brokers:
    """Query all brokers, each over its own connection; ignore those that do not answer. Not thread-safe."""

    def __init__(
        self, bootstrap: Sequence[str], client_id: str, timeout_s: float, access: Access | None = None
    ) -> None:
        addresses = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in bootstrap)]
        self._connections = {
            address: Connection(*address, timeout_s, client_id, access=access) for address in addresses
        }

    def teach(self, leaders: Leaders, topics: Sequence[str]) -> None:
        """Query all brokers' metadata in parallel and record the leaders in ``leaders``."""

        def view_of(broker: Connection) -> ClusterView | None:
            try:
                return metadata(broker, topics)
            except OSError:
                return None

        with ThreadPoolExecutor(len(self._connections)) as pool:
            for view in filter(None, pool.map(view_of, self._connections.values())):
                leaders.addresses |= view.brokers
                for part in view.partitions:
                    leaders.told(TopicPartition(part.topic, part.partition), part.leader, part.leader_epoch)

    def offsets(
        self, partitions: Iterable[TopicPartition], leaders: Leaders, timestamp: int, isolation: str
    ) -> dict[TopicPartition, int | None]:
        """List an offset per partition (``wire.EARLIEST``, ``wire.LATEST``) from its newest leader, as a consumer.

        All leaders are queried in parallel. The offset is None if a leader does not answer or does not lead in that
        epoch.
        """
        found: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
        epochs_at: dict[Connection, dict[TopicPartition, int]] = {}
        for partition in found:
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
                found |= {partition: told.offset for partition, told in listed.items()}
        return found
