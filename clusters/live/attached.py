"""The brokers of a cluster that somebody else runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from threading import Event

from clusters.attached.cluster_file import ENDED_BY
from clusters.attached.guard import Guard
from clusters.attached.hooks import Hooks, Ran
from clusters.attached.neighbours import Neighbours
from clusters.attached.registry import Registry
from clusters.kafka.access import Access
from clusters.kafka.connection import Connection
from clusters.kafka.views import metadata
from clusters.live.plan import AttachedCluster
from clusters.live.reports import Reports
from clusters.live.servers import Servers, broker_id
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS, Endpoint
from clusters.runtimes.runtime import NodeState
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from history.events import EventLog
from history.folder import RunFolder

LOOK_S = 0.05
ANSWER_LIMIT_S = 1.0
EFFECT_S, RETURN_S = 5.0, 120.0  # for a broker to be silent, and to come back; on top of the hook's limit
HOOKS = {"SIGKILL": "kill", "SIGTERM": "stop"}


class AttachedServers(Servers):
    """Act on brokers through hooks, and observe their answers.

    A broker may be back before its hook ends, so it is observed meanwhile.
    """

    metadata_nodes: Sequence[Node] = ()
    software = None
    files = None

    def __init__(
        self, cluster: AttachedCluster, folder: RunFolder, events: EventLog, access: Access | None, fault_limit_s: float
    ) -> None:
        self._cluster, self._work, self._access, self._fault_limit_s = cluster, folder.work, access, fault_limit_s
        self._hooks = Hooks(cluster.description, folder.hooks, events)
        self._paused: set[str] = set()
        self._seen_down: set[str] = set()  # since the last hook that ended them

    @cached_property
    def brokers(self) -> dict[int, Node]:
        return {
            number: Node(
                name=f"broker-{number}",
                role="broker",
                address=broker.host,
                folder=self._work / f"broker-{number}",
                endpoints=dict.fromkeys(PORTS, Endpoint(broker.host, broker.port)),
                node_id=number,
            )
            for number, broker in self._cluster.brokers.items()
        }

    @property
    def return_by_themselves(self) -> bool:
        return self._cluster.description.returns_by_itself

    def limit_s(self, action: str) -> float:
        hook = self._cluster.description.hooks.get(action)
        return (hook.limit if hook else 0) + (EFFECT_S if action in ENDED_BY else RETURN_S)

    def has_hook(self, name: str) -> bool:
        return name in self._cluster.description.hooks

    def start(self, node: Node) -> dict[str, str]:
        if self.has_hook("start"):
            self.run_hook("start", node)
        return {}

    def kill(self, node: Node, signal: str) -> None:
        self.run_observed(HOOKS[signal], node)

    def run_observed(self, hook: str, node: Node) -> None:
        """Run a hook that ends a broker, and note its silence meanwhile."""
        self._seen_down.discard(node.name)
        with ThreadPoolExecutor(1) as pool:
            ran = pool.submit(self.run_hook, hook, node)
            while not ran.done():
                self.was_silent(node)
                Event().wait(LOOK_S)
        ran.result()

    def pause(self, node: Node) -> None:
        self._paused.add(node.name)
        self.run_hook("pause", node)

    def resume(self, node: Node) -> None:
        self.run_hook("resume", node)
        self._paused.discard(node.name)

    def run_hook(self, name: str, node: Node, **values: object) -> Ran:
        """Run a hook on a broker; ``values`` are those of its other placeholders."""
        broker = self._cluster.brokers[broker_id(node)]
        if name in ENDED_BY:
            values["seconds"] = round(self._fault_limit_s)
        return self._hooks.run(name, broker_id(node), host=broker.host, rack=broker.rack, **values)

    def was_silent(self, node: Node) -> bool:
        """Return whether a broker does not answer, or did not at some time since the last hook that ended it.

        A timeout counts, too: the address of a pod that has ended is gone.
        """
        if not self._answers(node):
            self._seen_down.add(node.name)
        return node.name in self._seen_down

    def state(self, node: Node) -> NodeState:
        if self._answers(node):
            return "running"
        return "paused" if node.name in self._paused else "exited"

    def exit_status(self, _: Node) -> int | None:
        return None

    def silent(self) -> list[Node]:
        nodes = list(self.brokers.values())
        with ThreadPoolExecutor(len(nodes)) as pool:
            answers = list(pool.map(self._answers, nodes))
        silent = [node for node, answered in zip(nodes, answers, strict=True) if not answered]
        self._seen_down |= {node.name for node in silent}
        return silent

    def heal_others(self, fault: str, nodes: Sequence[Node]) -> list[Node]:
        """Return the silent brokers; heal those that a hook has hit instead of these nodes."""
        silent, end = self.silent(), ENDED_BY.get(fault, "")
        for node in silent if self.has_hook(end) else ():
            if node not in nodes:
                self.run_hook(end, node)
        return silent

    def start_silent(self, started: Collection[str]) -> Iterator[Node]:
        """Start the brokers that stay silent, except those of these names, and yield them."""
        if self.has_hook("start"):
            for node in [each for each in self.stay_silent(EFFECT_S) if each.name not in started]:
                self.run_hook("start", node)
                yield node

    def stay_silent(self, limit_s: float) -> list[Node]:
        """Wait until every broker answers, and return those that do not."""
        with suppress(WaitTimeout):
            wait_until(lambda: not self.silent(), limit_s=limit_s, what="every broker to answer")
            return []
        return self.silent()

    def _answers(self, node: Node) -> bool:
        client_id = self._cluster.description.client_id("world")
        with Connection(*node.endpoints["CLIENT"], ANSWER_LIMIT_S, client_id, access=self._access) as connection:
            try:
                metadata(connection, [])
            except OSError:
                return False
        return True


def guard_of(cluster: AttachedCluster, reports: Reports, events: EventLog, own: frozenset[str], began_ns: int) -> Guard:
    """Return what protects others on the cluster from a run with these topics."""

    def warn(why: str) -> None:
        events.add("note", step="neighbours", message=why)

    neighbours = Neighbours(reports.connect_client, cluster.brokers, warn)
    registry = Registry(reports.connect_client, cluster.brokers, cluster.description.topics.prefix)
    return Guard(neighbours, registry, own, cluster.description.caps, began_ns)


def hooked(servers: Servers) -> AttachedServers:
    """Return servers on which hooks act; raise HarnessError if they are Plimsoll's own."""
    if isinstance(servers, AttachedServers):
        return servers
    raise HarnessError("These servers are Plimsoll's own, and have no hooks.")
