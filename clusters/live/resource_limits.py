"""What brokers and clients may use of their host, so that a broker that is gone makes no other one faster.

A broker gets its CPU allowance once it is registered: the start of a JVM on a third of a CPU takes half a minute,
which is no property of Kafka. Its network allowance is its address's, which outlives restarts.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import ResourceLimits, available


def allow_cluster(world: World) -> None:
    """Hold all brokers, and the coordinators as clients, to the scenario's allowance."""
    allowance = world.scenario.cluster.allowance
    if allowance is None:
        return
    limits = _limits(world)
    brokers = list(world.brokers.values())
    if allowance.network is not None:
        rate = allowance.network
        with ThreadPoolExecutor(len(brokers)) as pool:  # each is the start of a container
            list(pool.map(lambda node: limits.limit_egress(node, rate), brokers))
    allow_brokers(world, brokers)
    allow_clients(world, world.coordinators)


def allow_brokers(world: World, brokers: list[Node]) -> None:
    """Hold brokers that were just started to their CPU allowance, and record what the kernel says of them."""
    allowance = world.scenario.cluster.allowance
    if allowance is None:
        return
    for node in brokers:
        _limits(world).limit_cpu(node.name, allowance.cpus, allowance.cpu_set)
    _record(world, brokers, "given")


def allow_clients(world: World, nodes: list[Node]) -> None:
    """Keep nodes that are no brokers on the clients' CPUs."""
    allowance = world.scenario.cluster.allowance
    if allowance is not None and allowance.clients_cpu_set is not None:
        for node in nodes:
            _limits(world).limit_cpu(node.name, None, allowance.clients_cpu_set)


def end_allowance(world: World) -> None:
    """Record what the kernel counted, then let the brokers have all CPU time: the load is over, reading back is not."""
    allowance = world.scenario.cluster.allowance
    if allowance is None:
        return
    running = [node for node in world.brokers.values() if world.runtime.state(node.name) == "running"]
    _record(world, running, "at the end of the load")
    for node in running:
        _limits(world).limit_cpu(node.name, None, allowance.cpu_set)


def _record(world: World, brokers: list[Node], when: str) -> None:
    allowance = world.scenario.cluster.allowance
    asked = allowance.model_dump(exclude_none=True) if allowance else {}
    for node in brokers:
        kernel = _limits(world).in_effect(node)
        world.events.add("allowance", target=node.name, when=when, asked=asked, kernel=kernel)


def _limits(world: World) -> ResourceLimits:
    return available(world.runtime.resource_limits, "resource limits")
