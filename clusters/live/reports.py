"""Query what a run's brokers report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from typing import TypeVar

from clusters.kafka import admin, features
from clusters.kafka.access import Access
from clusters.kafka.connection import Connection
from clusters.kafka.probe import BrokerProbe, ReplicaSample
from clusters.kafka.views import ClusterView, PartitionView, QuorumView, describe_quorum, metadata
from clusters.live.plan import Plan
from clusters.live.servers import Servers, broker_id, described
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import Endpoint, Listener
from clusters.waiting import wait_until
from history.errors import HarnessError, NoController, WaitTimeout
from history.partition import TopicPartition

T = TypeVar("T")

WORLD = "plimsoll-world"  # client name of the harness
ANSWER_LIMIT_S = 0.5
ANSWER_S_A_PARTITION = 0.0005  # a small broker needs 1 s for 5,000 partitions
START_LIMIT_S = 180.0  # 12 brokers on two cores took over 60 s; an exit is reported immediately
REQUEST_LIMIT_S = admin.TIMEOUT_MS / 1000  # tolerates a broker that is busy for 0.5 s
ASKED_FOR_S = (3.0, 10.0)  # time limits of a broker's first and later tries
ASKED_AGAIN_S = 0.5  # pause after all brokers were tried
SESSIONS = 2  # sessions to wait for another broker to become the controller


class Reports:
    """What the brokers report, and their controllers where they have addresses of their own.

    ``answer_limit_s``: the time limit of each query while no fault is active, so that a busy broker can respond.
    """

    def __init__(
        self, servers: Servers, plan: Plan, access: Access | None, answer_limit_s: float | None = None
    ) -> None:
        self._servers, self._plan, self._access = servers, plan, access
        self._client_id = plan.attached.description.client_id("world") if plan.attached else WORLD
        partitions = sum(topic.partitions for topic in plan.scenario.topics.values())
        self._answer_limit_s = answer_limit_s or ANSWER_LIMIT_S + ANSWER_S_A_PARTITION * partitions
        self._connections: dict[int, Connection] = {}
        self._newest: dict[TopicPartition, int] = {}  # leader epoch

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connection(self, number: int) -> Connection:
        """Return a cached connection to a broker's PROBE listener or to a controller."""
        if number not in self._connections:
            node = self._servers.node(number)
            listener: Listener = "CONTROLLER" if node.role == "controller" else "PROBE"
            self._connections[number] = self.connect(node, listener, self._answer_limit_s)
        return self._connections[number]

    def connect(
        self,
        node: Node,
        listener: Listener,
        timeout_s: float = REQUEST_LIMIT_S,
        *,
        client_id: str = "",
        forwards_to_controller: bool = False,
    ) -> Connection:
        """Return a new connection, which opens on first use."""
        access = None if listener == "CONTROLLER" else self._access
        return Connection(
            *node.endpoints[listener],
            timeout_s,
            client_id or self._client_id,
            access=access,
            forwards_to_controller=forwards_to_controller,
        )

    def connect_client(self, number: int) -> Connection:
        return self.connect(self._servers.brokers[number], "CLIENT")

    def features(self) -> dict[str, str]:
        """Return the finalised features that a broker reports (see ``clusters.kafka.features``).

        Raises:
            HarnessError: as ``ask``.
        """
        numbers = {node.endpoints["PROBE"]: number for number, node in self._servers.brokers.items()}
        return self.ask(
            lambda broker: features.finalised(broker, numbers[Endpoint(broker.host, broker.port)], self._plan.mode)
        )

    def ask(self, what: Callable[[Connection], T]) -> T:
        """Send an operator's request to the brokers in turn, until one accepts or forwards it.

        Brokers reject it while there is no controller (ZooKeeper: until the session expires).

        Raises:
            HarnessError: no broker responds, or the cluster rejected the request.
        """
        patience = chain(ASKED_FOR_S, repeat(ASKED_FOR_S[-1]))
        failed: OSError | NoController | None = None

        def answered() -> tuple[T] | None:
            nonlocal failed
            limit_s = next(patience)
            for number in [number for number, view in self.views().items() if view]:
                node, kraft = self._servers.brokers[number], self._plan.mode == "kraft"
                with self.connect(node, "PROBE", limit_s, forwards_to_controller=kraft) as broker:
                    try:
                        return (what(broker),)
                    except (OSError, NoController) as error:
                        failed = error
            return None

        limit_s = SESSIONS * self._plan.scenario.cluster.session_timeout
        try:
            (answer,) = wait_until(answered, limit_s=limit_s, every_s=ASKED_AGAIN_S, what="a broker that can be asked")
        except WaitTimeout:
            raise HarnessError("No broker answers that could be asked for this; start or join one first.") from failed
        return answer

    def view_of(self, broker_id: int) -> ClusterView | None:
        """Return a broker's cluster metadata; None if the broker does not respond."""
        try:
            return metadata(self.connection(broker_id), list(self._plan.scenario.topics))
        except OSError:
            return None

    def views(self, without: int | None = None) -> dict[int, ClusterView | None]:
        """Return every broker's metadata; parallel queries make paused brokers cost one time-out in all."""
        asked = [number for number in self._servers.brokers if number != without]
        with ThreadPoolExecutor(len(self._servers.brokers)) as pool:
            return dict(zip(asked, pool.map(self.view_of, asked), strict=True))

    def quorum(self) -> QuorumView | None:
        """Return the metadata quorum as its leader reports it, of two leaders the later one.

        Brokers forward the query if the controllers have no addresses.
        """
        nodes = self._servers.metadata_nodes or list(self._servers.brokers.values())
        with ThreadPoolExecutor(len(nodes)) as pool:
            views = [view for view in pool.map(self._quorum_of, nodes) if view]
        return max(views, key=lambda view: view.leader_epoch, default=None)

    def _quorum_of(self, node: Node) -> QuorumView | None:
        try:
            return describe_quorum(self.connection(broker_id(node)))
        except OSError:
            return None

    def active_controller(self) -> int | None:
        """Return the active controller's id (a broker's in ZooKeeper mode); None if no broker knows one."""
        if self._plan.mode == "kraft":
            quorum = self.quorum()
            return quorum.leader if quorum else None
        # A disconnected broker may report an older one.
        told = Counter(view.controller_id for view in self.views().values() if view)
        return next((number for number, _ in told.most_common() if number in self._servers.brokers), None)

    def probe_error(self, number: int) -> str | None:
        """Return how a broker or controller fails to respond: ``timeout`` or ``unreachable``; None if it responds."""
        try:
            if number in self._servers.brokers:
                metadata(self.connection(number), [])
            else:
                describe_quorum(self.connection(number))
        except TimeoutError:
            return "timeout"
        except OSError:
            return "unreachable"
        return None

    def current_views_of(
        self, partitions: Iterable[TopicPartition], without: int | None = None
    ) -> dict[TopicPartition, list[PartitionView]]:
        """Return the views that can know each partition's ISR: its leader's, else all of its epoch.

        A broker that was disconnected or paused reports old metadata, so views of an older leader epoch than seen
        before do not count; within an epoch, old and new ISRs look alike. ``without``: a broker not to query.
        """
        seen: dict[TopicPartition, dict[int, PartitionView]] = {partition: {} for partition in partitions}
        for number, cluster in self.views(without).items():
            for view in cluster.partitions if cluster else ():
                if (where := TopicPartition(view.topic, view.partition)) in seen:
                    seen[where][number] = view
        return {partition: self._current(partition, views) for partition, views in seen.items()}

    def _current(self, partition: TopicPartition, views: Mapping[int, PartitionView]) -> list[PartitionView]:
        newest = max([self._newest.get(partition, -1), *(view.leader_epoch for view in views.values())])
        self._newest[partition] = newest
        current = {broker_id: view for broker_id, view in views.items() if view.leader_epoch == newest}
        own = [view for broker_id, view in current.items() if view.leader == broker_id]
        return own or list(current.values())

    def partition_view(self, partition: TopicPartition, without: int | None = None) -> PartitionView | None:
        """Return one of ``current_views_of``; all of them agree on the leader."""
        return next(iter(self.current_views_of([partition], without)[partition]), None)

    def partition_views(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionView | None]:
        """Return ``partition_view`` of many partitions, with one query for each broker."""
        return {partition: next(iter(views), None) for partition, views in self.current_views_of(partitions).items()}

    def sample(self, broker_id: int, partition: TopicPartition) -> ReplicaSample | None:
        """Query a replica's own offsets; None if the broker does not respond."""
        return self.samples(broker_id, [partition]).get(partition)

    def samples(self, broker_id: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ReplicaSample]:
        """Query the offsets of many replicas of a broker; empty if the broker does not respond."""
        try:
            found = BrokerProbe(self.connection(broker_id), set(partitions)).sample()
        except OSError:
            return {}
        return {TopicPartition(sample.topic, sample.partition): sample for sample in found}

    def registered(self, number: int) -> bool:
        """Return whether another broker lists this one; for a controller, whether it fetched all that is committed."""
        if number not in self._servers.brokers:
            quorum = self.quorum()
            return quorum is not None and (
                number == quorum.leader or quorum.voters.get(number, -1) >= quorum.high_watermark
            )
        others = (view for other, view in self.views().items() if other != number)
        return any(view is not None and number in view.brokers for view in others)

    def wait_for_brokers(self) -> None:
        """Wait until all brokers respond and each of them knows all the others.

        Raises:
            WaitTimeout: with the state and the last log lines of the brokers that are missing.
            HarnessError: one of them has ended, and its log says why.
        """
        wanted = set(self._servers.brokers)

        def all_known() -> bool:
            views = {broker_id: self.view_of(broker_id) for broker_id in wanted}
            silent = [self._servers.brokers[broker_id] for broker_id, view in views.items() if view is None]
            if ended := [node for node in silent if self._servers.state(node) == "exited"]:
                raise HarnessError(f"Not all brokers start: {'; '.join(map(self._described, ended))}.")
            return all(view is not None and wanted <= view.brokers.keys() for view in views.values())

        wait_until(
            all_known,
            limit_s=START_LIMIT_S,
            what=f"{len(wanted)} brokers to know each other",
            every_s=0.1,
            last_seen=lambda: self._missing(wanted),
        )

    def _missing(self, wanted: set[int]) -> str:
        silent = [broker_id for broker_id in sorted(wanted) if self.view_of(broker_id) is None]
        return "; ".join(self._described(self._servers.brokers[broker_id]) for broker_id in silent) or "all answer"

    def _described(self, node: Node) -> str:
        return described(node, self._servers.state(node))

    def missing_replicas(self, wanted: Mapping[TopicPartition, Iterable[int]]) -> list[tuple[TopicPartition, int]]:
        """Return the wanted replicas whose broker reports no log end.

        A new partition's ISR is full before brokers have made its logs.
        """
        of_broker: dict[int, list[TopicPartition]] = {}
        for partition, numbers in wanted.items():
            for number in numbers:
                of_broker.setdefault(number, []).append(partition)
        missing = []
        for number, own in of_broker.items():
            found = self.samples(number, own)
            missing += [(each, number) for each in own if each not in found or found[each].log_end_offset is None]
        return missing
