"""Who leads each partition, by KIP-320: a leader epoch that was seen is never given up for an older one.

kafka-python fences its fetches with the epoch of its metadata, but it takes any metadata for the newest (the Java
client does not, ``Metadata.updateLatestMetadata``) and asks for offsets without an epoch. A leader that was cut off
from the controller goes on answering both.
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

NOBODY = -1  # no leader, as brokers say it
UNKNOWN = NOBODY, -1


class Leaders:
    """The newest leader of each partition and its epoch, whoever told of it, and where brokers are (host, port)."""

    def __init__(self) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self._updates = threading.Lock()  # each reading thread reports leaders

    def newest(self, partition: TopicPartition) -> tuple[int, int]:
        """Leader and epoch, ``UNKNOWN`` while nobody told."""
        return self._newest.get(partition, UNKNOWN)

    def told(self, partition: TopicPartition, leader: int, epoch: int) -> None:
        """Take a leader and its epoch unless a newer epoch is known; a new epoch may have no leader yet."""
        with self._updates:
            known, known_epoch = self.newest(partition)
            if epoch > known_epoch or (epoch == known_epoch and known == NOBODY):
                self._newest[TopicPartition(*partition)] = leader, epoch


class NewestLeaders(ClusterMetadata):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's metadata, in which the newest leader of each partition stays. No topic of a run is made anew."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self._updates = threading.RLock()  # kafka-python's thread updates, and so do its callers

    def client(self, **configs: Any) -> KafkaNetClient:
        """A client with this metadata: the setting ``kafka_client`` of consumers and producers."""
        client = KafkaNetClient(**configs)
        client._manager.cluster = self  # noqa: SLF001  # nothing else takes other metadata
        self.attach(client._manager)  # noqa: SLF001
        return client

    async def _refresh_loop(self) -> None:
        """kafka-python's own ends for good with an error of a bootstrap, or of a refresh that it waits for."""
        while not self.closed:
            with suppress(KafkaError):
                await super()._refresh_loop()

    def newest(self, partition: TopicPartition) -> tuple[int, int]:
        """Leader and epoch, ``UNKNOWN`` while nobody told."""
        return self._newest.get(partition, UNKNOWN)

    def update_metadata(self, metadata: Any) -> None:
        """What is older than known stays as it was. A leader that the answer does not list is asked for again."""
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
        """Take a leader that is newer than known; one whose address is unknown is asked for again."""
        with self._updates:
            if leader_epoch > self.newest(partition)[1]:
                self._newest[TopicPartition(*partition)] = leader_id, leader_epoch
            leader = NOBODY if self.broker_metadata(leader_id) is None else leader_id
            return bool(super().update_partition_leader(partition, leader, leader_epoch))


class Brokers:
    """All brokers, each asked over a connection of its own; one that does not answer says nothing.

    Not safe for several threads.
    """

    def __init__(
        self, bootstrap: Sequence[str], client_id: str, timeout_s: float, access: Access | None = None
    ) -> None:
        addresses = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in bootstrap)]
        self._connections = {
            address: Connection(*address, timeout_s, client_id, access=access) for address in addresses
        }

    def teach(self, leaders: Leaders, topics: Sequence[str]) -> None:
        """Tell ``leaders`` what each broker says, all asked at once."""

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
        """An offset of each (``wire.EARLIEST``, ``wire.LATEST``) as its newest leader tells it a consumer, all leaders
        asked at once; None where it does not answer, or no longer or not yet leads in that epoch.
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
